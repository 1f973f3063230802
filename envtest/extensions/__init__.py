"""Custom resources: their definitions, and the server of defined kinds.

Upstream: k8s.io/apiextensions-apiserver (v1.36). Schemas and CEL rules belong to `opsdk.apiserver.structural`, built-in
kinds to ``groups``.
"""
