"""The small ASGI pieces that every server of opsdk shares, and serving HTTP/1.1.

Knows HTTP only; nothing of Kubernetes.
"""
