"""Patches as pure functions on JSON values: JSON patch, JSON merge patch, strategic merge patch.

The patches that a client sends are made in `opsdk.patch`.
"""
