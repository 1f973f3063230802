"""Attacks an operator that is another process, in any language, on a served API server and in real time."""
