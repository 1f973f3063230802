"""Guards by counts instead of seconds: ``make bench-quick``."""
