"""Structured merge: typed values, schemas, sets of field paths, equality of JSON values, Go's value formats.

Client and server use it. Functions are pure, never change their arguments, and may share unchanged parts with them.
HTTP, requests and field managers belong elsewhere.

Upstream: sigs.k8s.io/structured-merge-diff/v6
"""
