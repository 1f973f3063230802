"""A change of an object as two trees with the fields that differ, and its merge into another state of the object. Pure.

The trees hold a field before and after the change; a field that only one of them has was added or removed. Items of
lists with names are merged one by one, as `differences` compares them. Other lists are replaced as a whole, and
finalizers are a set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from opsdk.engine.differences import list_key
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["TreeChange", "change_between", "merged", "without_fields"]

_ABSENT: Final = object()
_SETS: Final = frozenset({"finalizers"})
"""Lists of strings whose members have different writers."""


class TreeChange(NamedTuple):
    """The fields that a change touched, before and after it.

    Attributes:
        before: the fields that were changed or removed.
        after: the fields that were changed or added.
    """

    before: JsonObject
    after: JsonObject

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


def change_between(before: JsonObject, after: JsonObject) -> TreeChange:
    """Return the fields that differ.

    >>> change_between({"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 4, "d": 3}})
    TreeChange(before={'b': {'c': 2}}, after={'b': {'c': 4}})
    """
    change = TreeChange({}, {})
    for name in {**before, **after}:
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if old is _ABSENT or new is _ABSENT or not deep_equal(old, new):
            for side, value in zip(change, _changed(name, old, new), strict=True):
                if value is not _ABSENT:
                    side[name] = value
    return change


def _changed(name: str, old: JsonValue, new: JsonValue) -> tuple[JsonValue, JsonValue]:
    if isinstance(old, dict) and isinstance(new, dict):
        change = change_between(old, new)
        return change.before, change.after
    if isinstance(old, list) and isinstance(new, list):
        if name in _SETS:
            return [each for each in old if each not in new], [each for each in new if each not in old]
        if key := list_key(old, new):
            return _changed_items(old, new, key)
    return old, new


def _changed_items(old: Sequence[JsonObject], new: Sequence[JsonObject], key: str) -> tuple[JsonValue, JsonValue]:
    """Return the items that differ, each with its key and the fields that differ."""
    before, after = ({item[key]: item for item in items} for items in (old, new))
    removed = [item for name, item in before.items() if name not in after]
    added = [item for name, item in after.items() if name not in before]
    for name in before:
        if name in after and (change := change_between(before[name], after[name])):
            removed.append({key: name, **change.before})
            added.append({key: name, **change.after})
    return removed, added


def merged(current: JsonObject, change: TreeChange) -> JsonObject:
    """Return an object with a change. Fields that the change does not touch stay.

    >>> merged({"a": 5, "b": {"c": 2, "e": 6}}, TreeChange({"b": {"c": 2}}, {"b": {"c": 4}}))
    {'a': 5, 'b': {'c': 4, 'e': 6}}
    """
    tree = dict(current)
    before, after = change
    for name in {**before, **after}:
        value = _merged_value(name, tree.get(name, _ABSENT), before.get(name, _ABSENT), after.get(name, _ABSENT))
        if value is _ABSENT:
            tree.pop(name, None)
        else:
            tree[name] = value
    return tree


def _merged_value(name: str, current: JsonValue, old: JsonValue, new: JsonValue) -> JsonValue:
    mapping = {} if old is _ABSENT and isinstance(new, dict) else old
    if isinstance(mapping, dict) and (isinstance(new, dict) or new is _ABSENT):
        if new is _ABSENT and not isinstance(current, dict):
            return _ABSENT
        after = new if isinstance(new, dict) else {}
        tree = merged(current if isinstance(current, dict) else {}, TreeChange(mapping, after))
        return tree if tree or new is not _ABSENT else _ABSENT
    items, news = ([] if each is _ABSENT else each for each in (old, new))
    if isinstance(items, list) and isinstance(news, list) and isinstance(current, list):
        key = list_key(items, news)
        if name in _SETS or key:
            remaining = _merged_set(current, items, news) if name in _SETS else _merged_items(current, items, news, key)
            return remaining if remaining or new is not _ABSENT else _ABSENT
    return new


def _merged_set(current: Sequence[JsonValue], old: Sequence[JsonValue], new: Sequence[JsonValue]) -> list[JsonValue]:
    others = [each for each in current if each not in old]
    return [*others, *(each for each in new if each not in others)]


def _merged_items(
    current: Sequence[JsonValue], old: Sequence[JsonObject], new: Sequence[JsonObject], key: str
) -> list[JsonValue]:
    before, after = ({item[key]: item for item in items} for items in (old, new))
    items: list[JsonValue] = []
    for item in current:
        name = item.get(key) if isinstance(item, dict) else None
        if name in after:
            items.append(merged(item, TreeChange(before.get(name, {}), after.pop(name))))
        elif name not in before:
            items.append(item)
    return [*items, *after.values()]


def without_fields(change: TreeChange, before: JsonObject, after: JsonObject) -> TreeChange:
    """Return a change without the fields of two trees.

    Args:
        change: of an object.
        before: fields that the writer of interest did not remove.
        after: fields that the writer of interest did not set.
    """
    remaining = TreeChange({}, {})
    for name in {**change.before, **change.after}:
        old, new = change.before.get(name, _ABSENT), change.after.get(name, _ABSENT)
        excluded = (before if new is _ABSENT else after).get(name, _ABSENT)
        values = (
            _items_without(old, new, before.get(name), after.get(name))
            if name in _SETS
            else _values_without(old, new, before.get(name), excluded)
        )
        for side, value in zip(remaining, values, strict=True):
            if value is not _ABSENT:
                side[name] = value
    return remaining


def _items_without(old: JsonValue, new: JsonValue, before: JsonValue, after: JsonValue) -> tuple[JsonValue, JsonValue]:
    """Return the members of a set, before and after a change, without those of two other sets."""
    removed = [each for each in ([] if old is _ABSENT else old) if each not in (before or ())]
    added = [each for each in ([] if new is _ABSENT else new) if each not in (after or ())]
    return (removed, added) if removed or added else (_ABSENT, _ABSENT)


def _values_without(
    old: JsonValue, new: JsonValue, before: JsonValue, excluded: JsonValue
) -> tuple[JsonValue, JsonValue]:
    if excluded is _ABSENT:
        return old, new
    if isinstance(excluded, dict) and isinstance(new if new is not _ABSENT else old, dict):
        olds, news = (each if isinstance(each, dict) else {} for each in (old, new))
        befores = before if isinstance(before, dict) else {}
        remaining = without_fields(TreeChange(olds, news), befores, {} if new is _ABSENT else excluded)
        return (remaining.before or _ABSENT), (remaining.after or _ABSENT)
    return _ABSENT, _ABSENT
