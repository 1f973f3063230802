"""The group authorization: access reviews.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
