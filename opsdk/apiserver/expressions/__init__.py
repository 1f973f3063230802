"""Kubernetes' CEL: its libraries, and types and values from schemas.

Upstream: k8s.io/apiserver/pkg/cel (v1.36).
"""
