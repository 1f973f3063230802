"""Random changes of objects: other spellings, empty values, other values, other orders, fields left out."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from opsdk.children.field_types import FieldType, Form
from opsdk.structured_merge.value import JsonObject

Place = tuple[str | int, ...]

EMPTY: dict[Form, tuple[Any, ...]] = {
    Form.TEXT: ("", None),
    Form.BYTES: ("", None),
    Form.NUMBER: (0, None),
    Form.BOOLEAN: (False, None),
    Form.LIST: ([], None),
    Form.MAP: ({}, None),
    Form.STRUCT: ({}, None),
}
"""Values that the server may drop; null for the other forms."""

_SPELLINGS = {
    "1Gi": "1024Mi", "1024Mi": "1Gi", "1": "1000m", "1000m": "1", "0.5": "500m", "500m": "0.5", "1.5Gi": "1536Mi",
    "2.0": "2", "2000m": "2", "1.0": "1000m", "1e3": "1k", "1024Gi": "1Ti", "0.1": "100m", "0010": "10",
}  # fmt: skip
_VALUES: dict[Form, tuple[Any, ...]] = {
    Form.TEXT: ("x", "y"),
    Form.NUMBER: (1, 2),
    Form.BOOLEAN: (True, False),
    Form.QUANTITY: ("1Gi", "1024Mi", "1", "1000m", "2", "0.5", "500m"),
}


def _below(value: Any, field_type: FieldType, place: Place = ()) -> Iterator[tuple[Place, Any, FieldType]]:
    """Every value below an object, with its type; identity and status are left out."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in children:
        below = (*place, key)
        if below in (("apiVersion",), ("kind",), ("status",), ("metadata", "name"), ("metadata", "namespace")):
            continue
        part_type = field_type.field(key) if isinstance(key, str) else field_type.item()
        yield below, part, part_type
        yield from _below(part, part_type, below)


def left_out(tree: JsonObject, field_type: FieldType) -> list[tuple[Place, FieldType]]:
    """The declared fields that the object does not set."""
    objects = [((), tree, field_type), *_below(tree, field_type)]
    return [
        ((*place, name), part_type.field(name))
        for place, value, part_type in objects
        if isinstance(value, dict) and place[:1] != ("metadata",)
        for name in part_type.schema.fields
        if name not in value and (*place, name) not in (("apiVersion",), ("kind",), ("status",))
    ]


def value_at(tree: Any, place: Place) -> Any:
    """The value at a place."""
    for key in place:
        tree = tree[key]
    return tree


def changed(tree: JsonObject, place: Place, value: Any) -> JsonObject:
    """A copy with another value at a place."""
    result: JsonObject = copy.deepcopy(tree)
    value_at(result, place[:-1])[place[-1]] = value
    return result


def without(tree: JsonObject, place: Place) -> JsonObject:
    """A copy without a place."""
    result: JsonObject = copy.deepcopy(tree)
    del value_at(result, place[:-1])[place[-1]]
    return result


def mutated(tree: JsonObject, field_type: FieldType, rng: random.Random) -> JsonObject:
    """A copy with one random change. The server may reject it."""
    places = list(_below(tree, field_type))
    kind = rng.choice(("empty", "spelling", "value", "order", "leave out", "label"))
    if kind == "empty" and (free := left_out(tree, field_type)):
        place, part_type = rng.choice(free)
        return changed(tree, place, rng.choice(EMPTY.get(part_type.form, (None,))))
    if kind == "spelling" and (
        amounts := [p for p, value, _ in places if isinstance(value, str) and value in _SPELLINGS]
    ):
        place = rng.choice(amounts)
        return changed(tree, place, _SPELLINGS[value_at(tree, place)])
    if kind == "value" and (scalars := [p for p in places if p[2].form in _VALUES]):
        place, _, part_type = rng.choice(scalars)
        return changed(tree, place, rng.choice(_VALUES[part_type.form]))
    if kind == "order" and (lists := [p for p, value, _ in places if isinstance(value, list) and len(value) > 1]):
        place = rng.choice(lists)
        return changed(tree, place, value_at(tree, place)[::-1])
    if kind == "leave out" and (removable := [place for place, _, _ in places if place != ("metadata",)]):
        return without(tree, rng.choice(removable))
    return changed(
        {**tree, "metadata": {"labels": {}, **tree["metadata"]}},
        ("metadata", "labels", rng.choice("xy")),
        rng.choice(("1", "2", "")),
    )
