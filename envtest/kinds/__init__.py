"""The built-in kinds: how their bodies are read (from the tables), their defaults, rules and printed columns."""
