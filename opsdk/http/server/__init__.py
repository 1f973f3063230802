"""Serves an ASGI application over HTTP/1.1, with the checks and answers of Go's net/http server.

Upstream: net/http/server.go (Go 1.25).
"""
