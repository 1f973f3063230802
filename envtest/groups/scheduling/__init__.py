"""The group scheduling: priority classes.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
