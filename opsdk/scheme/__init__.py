"""Which type is which kind, how objects become bytes, and which resource serves a kind.

Knows types and names only; where the discovery documents come from is the floor above's business.
"""
