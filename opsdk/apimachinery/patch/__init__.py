"""Patches as pure functions on JSON values: JSON patch, JSON merge patch, strategic merge patch.

`opsdk.client.patch` holds the patches that a client sends.
"""
