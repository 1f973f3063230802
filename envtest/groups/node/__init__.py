"""The group node: runtime classes.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
