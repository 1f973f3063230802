"""Registries: REST protocols, strategies and the generic store.

Upstream: k8s.io/apiserver/pkg/registry (v1.36).
"""
