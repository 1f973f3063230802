"""HTTP/1.1 for client and server: ASGI types, a client with a connection pool, a server, upgrades, WebSockets.

It knows HTTP and TLS. Credentials, retries and everything of Kubernetes belong elsewhere.
"""
