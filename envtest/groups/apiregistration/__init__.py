"""The group apiregistration: APIServices.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
