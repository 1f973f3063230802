"""Authentication and authorization: users, authenticators, the authorizer port, RBAC, tokens.

Upstream: k8s.io/apiserver/pkg/authentication, k8s.io/apiserver/pkg/authorization (v1.36).
"""
