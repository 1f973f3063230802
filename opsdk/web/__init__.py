"""The small ASGI pieces that every server of opsdk shares, and serving by uvicorn.

Knows HTTP only; nothing of Kubernetes.
"""
