"""The group coordination: leases.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
