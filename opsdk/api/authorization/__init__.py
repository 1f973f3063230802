"""Kinds of the API group ``authorization.k8s.io``."""
