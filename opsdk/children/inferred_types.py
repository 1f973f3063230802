"""The type of a custom resource whose schema is unknown, inferred from the fields that an earlier apply owns. Pure.

The server recorded these fields by the type's own schema. Their elements tell maps from atomic objects, and lists with
keys from sets and from atomic lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from opsdk.children.field_types import FieldType
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet
from opsdk.structured_merge.schema import Schema, Topology
from opsdk.structured_merge.value import JsonObject, JsonValue

_ENTRY: Final = "x-entry"
"""A map entry: it owns itself besides what is below it. A declared field does not."""
_LEAF: Final = "x-leaf"
"""A value that merges as a whole."""
_UNTYPED_SCHEMA: Final[JsonObject] = {"nullable": True, "x-kubernetes-preserve-unknown-fields": True}


class _InferredSchema(Schema):
    """The schema of an inferred type."""

    __slots__ = ()

    def __init__(self, raw: Mapping[str, JsonValue]) -> None:
        super().__init__(raw, _InferredSchema)
        if raw.get(_LEAF):
            self.topology = Topology.SCALAR

    def declares(self, name: str) -> bool:
        """Whether `name` is a declared field, which counts through its content alone."""
        return super().declares(name) and not self._properties[name].get(_ENTRY)


def inferred_type(owned: FieldSet, desired: Mapping[str, JsonValue]) -> FieldType:
    """Return the type of `desired`, of which an earlier apply owns `owned`.

    Fields that were never applied are as those of an untyped value: objects are granular, lists are atomic.
    """
    raw = _object(owned, [desired])
    return FieldType(raw, _InferredSchema(raw), custom=True)


def _value(fields: FieldSet, values: list[JsonValue]) -> JsonObject:
    """Return the schema of a field below which `fields` are owned; `values` are its desired values."""
    kinds = {element[0] for element in fields.members | fields.children.keys()}
    if kinds == {"f"}:
        return _object(fields, values)
    if kinds == {"k"}:
        return _keyed_list(fields, values)
    if kinds == {"v"}:
        return {**_UNTYPED_SCHEMA, "type": "array", "x-kubernetes-list-type": "set"}
    return {**_UNTYPED_SCHEMA, _LEAF: True}


def _object(fields: FieldSet, values: Iterable[JsonValue]) -> JsonObject:
    properties: dict[str, JsonObject] = {}
    objects = [value for value in values if isinstance(value, dict)]
    for name in {name: None for value in objects for name in value}:
        element, inside = f"f:{name}", [value[name] for value in objects if name in value]
        below = fields.with_prefix(element)
        if below or element in fields.members:
            entry = {_ENTRY: True} if below and element in fields.members else {}
            properties[name] = {**_value(below, inside), **entry}
        elif all(value == [] for value in inside):
            # An empty list that owns nothing is a set or has keys.
            properties[name] = {**_UNTYPED_SCHEMA, "type": "array", "x-kubernetes-list-type": "set"}
    return {**_UNTYPED_SCHEMA, "type": "object", "properties": properties} if properties else {**_UNTYPED_SCHEMA}


def _keyed_list(fields: FieldSet, values: Iterable[JsonValue]) -> JsonObject:
    """Return the schema of a list whose elements managedFields names by keys."""
    keys = [json.loads(element[2:]) for element in sorted(fields.members | fields.children.keys())]
    items = [item for value in values if isinstance(value, list) for item in value if isinstance(item, dict)]
    below = EMPTY
    for inside in fields.children.values():
        below = below.union(inside)
    schema = _object(below, items)
    properties = schema.setdefault("properties", {})
    for name in keys[0]:
        # No item names this key, so every element has its default.
        if not any(name in item for item in items):
            properties[name] = {**_UNTYPED_SCHEMA, "default": keys[0][name]}
    return {
        "type": "array",
        "items": {**schema, "type": "object"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys[0]),
        "nullable": True,
    }
