"""Sends HTTP/1.1 requests: a response parser without I/O, connections, a pool, and requests to an in-process app."""
