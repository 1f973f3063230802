"""Admission: attributes, the plugin chain, webhooks and policies.

Upstream: k8s.io/apiserver/pkg/admission (v1.36).
"""
