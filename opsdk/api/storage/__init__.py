"""Kinds of the API group ``storage.k8s.io``."""
