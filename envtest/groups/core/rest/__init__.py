"""Subresources of core kinds that are not part of the object: logs, exec, proxies, bindings, tokens.

Upstream: pkg/registry/core/pod/rest (v1.36)
"""
