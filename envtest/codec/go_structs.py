"""Render objects with Go field names and zero values, as some server messages show them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from opsdk.structured_merge.value import JsonObject, JsonValue

Shape = Mapping[str, JsonValue]
"""The fields of a type in order: each with its zero value, a nested `Shape`, or a `NullablePart`."""


class NullablePart(msgspec.Struct, frozen=True):
    """A field behind a pointer or in a list: null if it is not set."""

    shape: Shape


def _key(field: str) -> str:
    capitals = len(field) - len(field.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    lower = capitals if capitals in (1, len(field)) else capitals - 1
    return field[:lower].lower() + field[lower:]


def as_go(shape: Shape, tree: Mapping[str, JsonValue]) -> JsonObject:
    """Return an object with the Go fields of a type.

    >>> as_go({"Name": "", "APIGroup": None, "Target": {"ID": 0}}, {"name": "n"})
    {'Name': 'n', 'APIGroup': None, 'Target': {'ID': 0}}
    """
    return {field: _value(zero, tree.get(_key(field))) for field, zero in shape.items()}


def _value(zero: JsonValue, value: JsonValue) -> JsonValue:
    if isinstance(zero, NullablePart):
        if isinstance(value, list):
            return [as_go(zero.shape, part) for part in value]
        return None if value is None else as_go(zero.shape, value)
    if isinstance(zero, Mapping):
        return as_go(zero, value or {})
    return zero if value is None else value
