"""Kinds of the API group ``apps``."""
