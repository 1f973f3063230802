"""The group policy: disruption budgets and evictions.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
