"""RBAC rules of operators: declared next to reconcilers, printed as manifests, checked at the start, observed in tests.

Implied rules are in `opsdk.rbac.declared`. The authorizer of the API server is in `opsdk.apiserver.auth`.
"""
