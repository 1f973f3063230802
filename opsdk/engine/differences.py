"""The field changes between two states of an object. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from opsdk.base.shortened import shortened
from opsdk.structured_merge.value import JsonValue

_ABSENT = object()
_MAX_VALUE = 80
_LIST_KEYS = ("name", "type", "uid", "mountPath", "ip", "key")
"""Fields that name the items of lists in Kubernetes' kinds."""
_BOOKKEEPING = frozenset({"metadata.managedFields", "metadata.resourceVersion", "metadata.generation"})


class Difference(msgspec.Struct, frozen=True):
    """The difference of one field; None means absent or null."""

    path: str
    old: JsonValue
    new: JsonValue

    def __str__(self) -> str:
        return f"{self.path}: {_short(self.old)} -> {_short(self.new)}"


def _short(value: JsonValue) -> str:
    return "absent" if value is None else shortened(repr(value), _MAX_VALUE)


def differences(before: Mapping[str, JsonValue] | None, after: Mapping[str, JsonValue] | None) -> Sequence[Difference]:
    """Return the fields that differ, in order, without metadata that the server maintains.

    >>> [str(d) for d in differences({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1, "c": [3]}})]
    ['spec.b: 2 -> absent', 'spec.c: absent -> [3]']
    """
    return list(_walk(before or {}, after or {}, ""))


def new_fields(field_differences: Iterable[Difference]) -> Iterator[Difference]:
    """Yield the differences, with one for each field of a new object.

    >>> [str(d) for d in new_fields([Difference("spec", None, {"a": 1, "b": {"c": 2}})])]
    ['spec.a: absent -> 1', 'spec.b.c: absent -> 2']
    """
    for difference in field_differences:
        if difference.old is None and isinstance(difference.new, dict) and difference.new:
            yield from new_fields(
                Difference(f"{difference.path}.{name}", None, value) for name, value in difference.new.items()
            )
        else:
            yield difference


def _walk(old: JsonValue, new: JsonValue, path: str) -> Iterator[Difference]:
    if old is new or path in _BOOKKEEPING:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _walk(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and (key := list_key(old, new)):
        before, after = ({item[key]: item for item in items} for items in (old, new))
        for name in {**before, **after}:
            yield from _walk(before.get(name, _ABSENT), after.get(name, _ABSENT), f"{path}[{name}]")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and _trees(old) and _trees(new):
        for index, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _walk(a, b, f"{path}[{index}]")
    elif old != new or type(old) is not type(new):
        yield Difference(path, None if old is _ABSENT else old, None if new is _ABSENT else new)


def list_key(old: Sequence[JsonValue], new: Sequence[JsonValue]) -> str:
    """Return the field that names the items of two lists of objects; empty if there is none."""
    if not (_trees(old) and _trees(new)):
        return ""
    for key in _LIST_KEYS:
        if all(_are_names([item.get(key) for item in items]) for items in (old, new)):
            return key
    return ""


def _are_names(values: Sequence[JsonValue]) -> bool:
    return all(isinstance(value, str) for value in values) and len(set(map(str, values))) == len(values)


def _trees(items: Sequence[JsonValue]) -> bool:
    return all(isinstance(item, Mapping) for item in items)
