"""The algebra of JSON trees: paths, equality, patches, shapes and field sets.

A tree is what ``json.loads`` gives: dict, list, str, int, float, bool, None. Everything here is a pure function of its
arguments, never mutates them, and may share unchanged subtrees with them. What knows about HTTP, requests or managers
lives elsewhere.
"""
