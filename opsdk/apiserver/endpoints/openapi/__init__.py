"""OpenAPI documents of the installed resources: version 3, version 2, its protobuf form, and merged documents.

Upstream: k8s.io/kube-openapi (v1.36).
"""
