"""The group networking: ingresses, network policies, IP addresses, service CIDRs.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
