"""Kinds of the API group ``flowcontrol.apiserver.k8s.io``."""
