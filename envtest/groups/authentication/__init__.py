"""The group authentication: token reviews.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
