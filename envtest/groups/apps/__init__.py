"""The group apps: deployments, replica sets, stateful sets, daemon sets, controller revisions.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
