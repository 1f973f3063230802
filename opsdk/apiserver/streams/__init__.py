"""Exec, attach and port-forward over WebSocket and SPDY.

Upstream: k8s.io/apimachinery/pkg/util/httpstream (v1.36).
"""
