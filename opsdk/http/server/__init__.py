"""Serves an ASGI application over HTTP/1.1, with the request checks and error responses of Go's net/http.

Upstream: net/http/server.go (Go 1.25)
"""
