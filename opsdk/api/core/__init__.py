"""Kinds of the API group ``core``."""
