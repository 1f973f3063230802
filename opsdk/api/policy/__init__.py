"""Kinds of the API group ``policy``."""
