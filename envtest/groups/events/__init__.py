"""The group events: events of the newer API; the core group stores them.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
