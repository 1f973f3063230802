"""The group admissionregistration: webhook configurations, admission policies and their bindings.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
