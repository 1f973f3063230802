"""The group autoscaling: horizontal pod autoscalers.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
