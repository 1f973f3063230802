"""The group discovery: endpoint slices.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
