"""Equality of JSON values: numbers by value, booleans distinct from numbers, objects without order."""

from __future__ import annotations

from collections.abc import Hashable

from opsdk.structured_merge.value import JsonValue


def deep_equal(a: JsonValue, b: JsonValue) -> bool:
    """Whether two JSON values are equal. ``1`` equals ``1.0``, but ``True`` does not equal ``1``.

    >>> deep_equal({"a": [1, True]}, {"a": [1.0, True]}), deep_equal([1], [True])
    (True, False)
    """
    # Python's equality is fast and finds most differences, but it treats booleans as numbers.
    return a is b or bool(a == b and _same_booleans(a, b))


def strict_equal(a: JsonValue, b: JsonValue) -> bool:
    """Whether two JSON values are equal and their numbers have the same type: ``1`` does not equal ``1.0``.

    >>> strict_equal({"a": [1, 2.5]}, {"a": [1, 2.5]}), strict_equal([1], [1.0])
    (True, False)
    """
    return a is b or bool(a == b and _same_types(a, b))


def identity(value: JsonValue) -> Hashable:
    """Return a value that is equal for two JSON values if and only if `deep_equal` holds: the key of an index.

    >>> identity({"a": [1]}) == identity({"a": [1.0]}), identity(1) == identity(True)
    (True, False)
    """
    if isinstance(value, dict):
        return dict, frozenset((key, identity(part)) for key, part in value.items())
    if isinstance(value, list):
        return list, tuple(map(identity, value))
    return (bool, value) if isinstance(value, bool) else value


# Not joined with `_same_booleans`: on this hot path a function parameter costs 15 % (comparing two pods).
def _same_types(a: JsonValue, b: JsonValue) -> bool:
    if a is b:
        return True
    if isinstance(a, dict):
        return all(type(v) is str or _same_types(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return all(map(_same_types, a, b))
    return type(a) is type(b)


def _same_booleans(a: JsonValue, b: JsonValue) -> bool:
    """Whether two values that are equal in Python have their booleans at the same places."""
    if a is b:
        return True
    if isinstance(a, dict):
        return all(type(v) is str or _same_booleans(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return all(map(_same_booleans, a, b))
    return isinstance(a, bool) == isinstance(b, bool)
