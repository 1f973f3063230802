"""Kinds of the API group ``events.k8s.io``."""
