"""The group rbac: roles and bindings.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
