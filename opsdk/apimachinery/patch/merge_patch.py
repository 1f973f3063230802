"""JSON merge patch (RFC 7386): objects merge, null deletes, everything else replaces."""

from __future__ import annotations

from typing import Any

from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.value import JsonObject


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """`target` with `patch` merged in; shares what did not change with both.

    >>> apply_merge_patch({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}})
    {'b': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def create_merge_patch(old: Any, new: Any) -> Any:
    """The smallest patch that makes `new` of `old`; ``{}`` when they are equal.

    A null in `new` cannot be expressed: it becomes a deletion.

    >>> create_merge_patch({"a": 1, "b": 2}, {"a": 1, "c": [3]})
    {'b': None, 'c': [3]}
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return {} if deep_equal(old, new) else new
    patch: JsonObject = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif not deep_equal(old[key], value):
            patch[key] = _changed(old[key], value)
    return patch


def _changed(old: Any, new: Any) -> Any:
    return create_merge_patch(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
