"""Webhooks of an operator: admission, conversion and token reviews, and the server for them.

Cores are pure: reviews, handlers and converters work on values. `opsdk.webhook.server` has the sockets.
"""
