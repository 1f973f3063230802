"""Measures `opsdk generate models` with the definitions of projects: ``python -m tests.definitions NAME=SOURCE...``."""
