"""Drop the fields of feature gates that are off, wherever a type has them. Pure.

Upstream: pkg/api/pod/util.go (DropDisabledPodFields), pkg/registry/*/strategy.go (v1.37)
Deviates: one rule for all types; upstream has a function for each gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from envtest.data.gates import gated_fields
from envtest.data.schemas import types
from opsdk.structured_merge.value import JsonObject, JsonValue

_REF = "#/components/schemas/"


class GatedType:
    """The gated fields of a type and of the types in its fields.

    Attributes:
        own: the type's own gated fields, each with its gate.
        parts: the fields whose types have gated fields.
    """

    __slots__ = ("own", "parts")

    def __init__(self, own: Mapping[str, str], parts: Sequence[tuple[str, GatedType]]) -> None:
        self.own = own
        self.parts = parts

    def __repr__(self) -> str:
        return f"<GatedType with {', '.join([*self.own, *(key for key, _ in self.parts)])}>"

    def drop(self, obj: JsonObject, old: JsonObject | None) -> None:
        """Drop the gated fields of an object, except those of gates that the `old` object uses."""
        used = set() if old is None else {gate for tree, key, gate in self.found(old) if tree.get(key) is not None}
        for tree, key, gate in list(self.found(obj)):
            if gate not in used:
                tree.pop(key, None)

    def found(self, tree: JsonObject) -> Iterator[tuple[JsonObject, str, str]]:
        """Yield the gated fields in an object: the object that has each, its key and its gate."""
        yield from ((tree, key, gate) for key, gate in self.own.items() if key in tree)
        for key, part in self.parts:
            for inner in _objects(tree.get(key)):
                yield from part.found(inner)


def _objects(value: JsonValue) -> Iterator[JsonObject]:
    """Yield the objects of a field: itself, or those of a list."""
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


@cache
def gated_type(name: str, version: str) -> GatedType | None:
    """Return the gated fields of a type in a version of Kubernetes; None if it has none."""
    return _gated(name, version, ()) if gated_fields(version) else None


def _gated(name: str, version: str, above: tuple[str, ...]) -> GatedType | None:
    own = gated_fields(version).get(name, {})
    properties = (types(version).schema(name) or {}).get("properties", {})
    parts = []
    for key, schema in properties.items():
        inner = _type_of(schema)
        part = _gated(inner, version, (*above, name)) if inner and inner not in (*above, name) else None
        if part is not None:
            parts.append((key, part))
    return GatedType(own, parts) if own or parts else None


def _type_of(schema: JsonObject) -> str:
    schema = schema.get("items", schema)
    reference = schema["allOf"][0]["$ref"] if "allOf" in schema else schema.get("$ref", "")
    return str(reference).removeprefix(_REF)
