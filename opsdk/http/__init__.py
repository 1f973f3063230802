"""HTTP/1.1 both ways: ASGI types, a client with a connection pool, a server, upgrades and WebSockets.

Client and API server both use it. It knows HTTP and TLS, and nothing of Kubernetes.
"""
