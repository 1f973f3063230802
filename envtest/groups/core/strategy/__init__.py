"""Strategies of the core group, a file per kind; ``kinds`` says which strategy each kind has.

Rules belong to ``validation``; a strategy selects the rules for each operation and sets fields.
"""
