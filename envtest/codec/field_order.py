"""Order the fields of an object as the server encodes them: struct order, and sorted map keys. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from envtest.data.fields import forms
from envtest.data.schemas import types
from envtest.data.versions import DEFAULT
from opsdk.aio.large_work import sort_in_parts
from opsdk.structured_merge.value import JsonValue

_REF = "#/components/schemas/"
_PLANS_LIMIT = 256
"""Size of the cache of orders by field combination; objects of one type have few combinations."""
_LAST = 1 << 16
"""The sort position of fields that the table lacks."""

Arrange = Callable[[JsonValue], JsonValue]


@cache
def arranger(name: str, version: str = DEFAULT) -> Arrange:
    """Return a function that orders the fields of an object. It returns a new object, which shares unordered values."""
    schema = types(version).schema(name) or {}
    positions = {field: position for position, field in enumerate(forms(name, version))}
    parts: dict[str, Arrange] = {}

    plans: dict[tuple[str, ...], Sequence[tuple[str, Arrange | None]]] = {}

    def arrange(tree: JsonValue) -> JsonValue:
        if not isinstance(tree, dict):
            return tree
        keys = tuple(tree)
        plan = plans.get(keys)
        if plan is None:
            plan = [(key, parts.get(key)) for key in sorted(keys, key=lambda key: positions.get(key, _LAST))]
            if len(plans) < _PLANS_LIMIT:
                plans[keys] = plan
        arranged = {}
        for key, part in plan:
            value = tree[key]
            arranged[key] = value if part is None or value is None else part(value)
        return arranged

    for key, inner in schema.get("properties", {}).items():
        inner_part = _part(inner, version)
        if inner_part is not None:
            parts[key] = inner_part
    return arrange


def _arranged(name: str, version: str, value: JsonValue) -> JsonValue:
    """Order an object. The type is resolved at the first use: types may be recursive."""
    return arranger(name, version)(value)


def _part(schema: Mapping[str, JsonValue], version: str) -> Arrange | None:
    """Return the function that orders the values of a field; None if their order stays."""
    ref = schema["allOf"][0]["$ref"] if "allOf" in schema else schema.get("$ref", "")
    name = str(ref).removeprefix(_REF)
    if name:
        return partial(_arranged, name, version) if (types(version).schema(name) or {}).get("properties") else None
    if schema.get("type") == "array":
        item = _part(schema["items"], version)
        return None if item is None else (lambda value: [item(part) for part in value])
    if "additionalProperties" in schema:
        each = _part(schema["additionalProperties"], version)
        if each is None:
            return lambda value: {key: value[key] for key in sort_in_parts(value, str)}
        return lambda value: {key: each(value[key]) for key in sort_in_parts(value, str)}
    return None
