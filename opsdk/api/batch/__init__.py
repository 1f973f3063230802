"""Kinds of the API group ``batch``."""
