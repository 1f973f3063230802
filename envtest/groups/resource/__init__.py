"""The group resource: resource claims, device classes, resource slices (DRA).

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
