"""Kinds of the API group ``node.k8s.io``."""
