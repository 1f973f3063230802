"""HTTP endpoints: request info, filters, negotiation, handlers, discovery, OpenAPI.

Upstream: k8s.io/apiserver/pkg/endpoints (v1.36).
"""
