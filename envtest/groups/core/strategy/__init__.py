"""Strategies of the core group, a file per kind; ``kinds`` says which strategy each kind has.

What is wrong with an object belongs to ``validation``; a strategy says when it is checked and what is filled in.
"""
