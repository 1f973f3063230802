"""The fields of an object that an operator owns, by its field managers. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Final

from opsdk.apimachinery.secret_values import is_secret
from opsdk.children.comparison import TRACE_CONTEXT
from opsdk.engine.writes import is_manager_of
from opsdk.structured_merge.fieldpath import FieldSet, field_element, key_element, value_element
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["entries_of", "own_fields", "own_part"]

_MAX_KEYS: Final = 8
"""Sets of field names that may identify the items of one list. Kubernetes' lists have one."""
_OPEN_MAPS: Final = ("f:annotations", "f:labels")
"""Maps in which others add members to those of the owner."""
_STRING_DATA: Final = "f:stringData"


def entries_of(obj: JsonObject, managers: Collection[str], *, own: bool = True) -> Iterator[JsonObject]:
    """Yield the managedFields of some operators and of their controllers; with ``own=False``, those of all others."""
    for entry in obj["metadata"].get("managedFields") or ():
        if is_manager_of(str(entry.get("manager", "")), managers) is own:
            yield entry


def own_fields(obj: JsonObject, managers: Collection[str]) -> FieldSet:
    """Return the fields that any of some operators, or of their controllers, owns."""
    fields = FieldSet()
    for entry in entries_of(obj, managers):
        fields = fields.union(FieldSet.from_fields_v1(entry.get("fieldsV1") or {}))
    return fields.difference(TRACE_CONTEXT)  # it belongs to a write of the cluster, and is not decided


def own_part(obj: JsonObject | None, managers: Collection[str]) -> JsonObject:
    """Return the fields that any of some field managers owns, with the keys of list items.

    >>> entry = {"manager": "shop", "fieldsV1": {"f:data": {"f:a": {}}}}
    >>> own_part({"kind": "Secret", "metadata": {"managedFields": [entry]}, "data": {"a": "1", "b": "2"}}, {"shop"})
    {'data': {'a': '1'}}
    """
    if obj is None:
        return {}
    fields = own_fields(obj, managers)
    if is_secret(obj) and (strings := fields.with_prefix(_STRING_DATA)):
        # The server moves the values to data, and the applier stays the owner of stringData.
        fields = fields.union(FieldSet(children={"f:data": strings}))
    part = _extract(obj, fields)
    assert isinstance(part, dict)
    return part


def _extract(value: JsonValue, fields: FieldSet) -> JsonValue:
    """Return the fields of a set. The schema is not known: a field that is owned without parts is owned as a whole."""
    if isinstance(value, dict):
        return {
            name: _below(item, element, fields)
            for name, item in value.items()
            if _has(fields, element := field_element(name))
        }
    if isinstance(value, list):
        keys = _keys_of(fields)
        return [
            _with_keys(_below(item, element, fields), item, element)
            for index, item in enumerate(value)
            if (element := _item_element(index, item, keys, fields))
        ]
    return value


def _has(fields: FieldSet, element: str) -> bool:
    return element in fields.members or element in fields.children


def _below(item: JsonValue, element: str, fields: FieldSet) -> JsonValue:
    below = fields.with_prefix(element)
    if not below and element in _OPEN_MAPS:
        # The applier of an empty map owns the map, and not the members that others add.
        return {}
    return _extract(item, below) if below else item


def _keys_of(fields: FieldSet) -> Collection[tuple[str, ...]]:
    """Return the sets of field names that identify the items of a list."""
    keys: dict[tuple[str, ...], None] = {}
    for element in (*fields.members, *fields.children):
        if element.startswith("k:") and len(keys) < _MAX_KEYS:
            keys[tuple(json.loads(element[2:]))] = None
    return keys


def _item_element(index: int, item: JsonValue, keys: Collection[tuple[str, ...]], fields: FieldSet) -> str:
    """Return the path element of a list item that is in the set; empty if none is."""
    if isinstance(item, dict):
        candidates = [key_element({name: item.get(name) for name in names}) for names in keys]
    else:
        candidates = [value_element(item)]
    return next((each for each in (*candidates, f"i:{index}") if _has(fields, each)), "")


def _with_keys(part: JsonValue, item: JsonValue, element: str) -> JsonValue:
    if not (element.startswith("k:") and isinstance(part, dict) and isinstance(item, dict)):
        return part
    return {**{name: item.get(name) for name in json.loads(element[2:])}, **part}
