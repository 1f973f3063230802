"""The group certificates: certificate signing requests.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
