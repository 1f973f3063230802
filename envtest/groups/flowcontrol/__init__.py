"""The group flowcontrol: flow schemas and priority levels.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
