"""Strategies of the core group, a file per kind; ``kinds`` maps kinds to strategies.

Rules belong to ``validation``; a strategy selects the rules for each operation and sets fields.
"""
