"""Structured merge: typed values, their schemas, sets of field paths, and equality of JSON values.

Upstream: sigs.k8s.io/structured-merge-diff/v6.

A JSON value is what ``json.loads`` returns. Functions here are pure, never mutate their arguments, and may share
unchanged parts with them. Client and server use them; HTTP, requests and managers belong elsewhere.
"""
