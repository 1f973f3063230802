"""The API server framework: storage, registries, endpoints and a delegation chain, without built-in kinds.

Upstream: k8s.io/apiserver (v1.36).
"""
