"""Calls to admission and conversion webhooks, with Go's error messages.

Upstream: k8s.io/apiserver/pkg/util/webhook (v1.36).
"""
