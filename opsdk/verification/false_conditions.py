"""Conditions that are False: that of an error stays after the error, and means the same as an absent one. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.values import ABSENT

__all__ = ["is_empty", "without_false_conditions"]


def without_false_conditions(
    objects: Mapping[str, Sequence[JsonObject]], others: Mapping[str, Sequence[JsonObject]]
) -> dict[str, list[JsonObject]]:
    """Return objects without the conditions that are False and that the other ones do not have."""
    parts: dict[str, list[JsonObject]] = {}
    for key, states in objects.items():
        types = {each["type"] for obj in others.get(key, ()) for each in _conditions(obj)}
        remaining = [_with_conditions(obj, types) for obj in states]
        if key in others or not all(is_empty(obj) for obj in remaining):
            parts[key] = remaining
    return parts


def _conditions(obj: JsonObject) -> list[JsonObject]:
    conditions = get_path(obj, ("status", "conditions"), None)
    if not isinstance(conditions, list):
        return []
    return [each for each in conditions if isinstance(each, dict) and isinstance(each.get("type"), str)]


def _with_conditions(obj: JsonObject, types: Collection[str]) -> JsonObject:
    """Return an object with the conditions of these types, and those that are not False."""
    conditions = _conditions(obj)
    remaining = [each for each in conditions if each["type"] in types or each.get("status") != "False"]
    if len(remaining) == len(conditions):
        return obj
    status = {name: value for name, value in obj["status"].items() if name != "conditions"}
    if remaining:
        status["conditions"] = remaining
    rest = {name: value for name, value in obj.items() if name != "status"}
    return {**rest, "status": status} if status else rest


def is_empty(value: JsonValue) -> bool:
    """Whether a value means the same as an absent one to most operators.

    >>> is_empty({"rules": [], "name": ""})
    True
    """
    if isinstance(value, dict):
        return all(is_empty(each) for each in value.values())
    if isinstance(value, list):
        return all(is_empty(each) for each in value)
    return value is ABSENT or value in (None, "", 0)
