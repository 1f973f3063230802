"""JSON merge patch (RFC 7386): objects merge, null deletes, any other value replaces.

Upstream: gopkg.in/evanphx/json-patch.v4/merge.go (kube-apiserver v1.36)
"""

from __future__ import annotations

from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.value import JsonObject, JsonValue


def apply_merge_patch(target: JsonValue, patch: JsonValue) -> JsonValue:
    """Return `target` with `patch` merged in. Unchanged parts are shared with the arguments.

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


def create_merge_patch(old: JsonValue, new: JsonValue) -> JsonValue:
    """Return the smallest patch that turns `old` into `new`; ``{}`` if they are equal.

    A merge patch cannot express a null in `new`: it deletes the member.

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
            nested = isinstance(old[key], dict) and isinstance(value, dict)
            patch[key] = create_merge_patch(old[key], value) if nested else value
    return patch
