"""Equality of JSON trees: numbers by value, booleans apart from numbers, objects without order."""

from __future__ import annotations

from typing import Any

Tree = Any
"""A JSON value: dict, list, str, int, float, bool or None."""


def deep_equal(a: Tree, b: Tree) -> bool:
    """Whether two trees are the same JSON value: ``1 == 1.0``, but ``True`` is not ``1``.

    >>> deep_equal({"a": [1, True]}, {"a": [1.0, True]}), deep_equal([1], [True])
    (True, False)
    """
    if a is b:
        return True
    if isinstance(a, dict):
        return isinstance(b, dict) and len(a) == len(b) and all(k in b and deep_equal(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(deep_equal, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return False  # two equal booleans are the same object, answered above
    return bool(a == b)
