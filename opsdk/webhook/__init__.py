"""Webhooks of an operator: admission, conversion and token reviews, and the server for them.

Reviews, handlers and converters are pure. `opsdk.webhook.server` opens the sockets.
"""
