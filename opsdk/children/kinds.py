"""The generated table of built-in kinds: their types, their scope, and whether they have a status subresource."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.structured_merge.value import JsonObject

REF: Final = "#/components/schemas/"
"""Precedes the names of types in references, as in OpenAPI documents."""


class BuiltInKind(msgspec.Struct, frozen=True):
    """Discovery information about a kind.

    Attributes:
        type_name: the name of the kind's type in `type_schemas`, such as ``apps.v1.Deployment``.
        namespaced: whether objects have a namespace.
        has_status: whether the status is a subresource, so that an apply of the object ignores it.
    """

    type_name: str
    namespaced: bool
    has_status: bool


class TypeSchemas(Mapping[str, JsonObject]):
    """The OpenAPI schemas of the types by short name. Each is parsed at its first use."""

    def __init__(self, lines: Mapping[str, str]) -> None:
        self._lines = lines
        self._parsed: dict[str, JsonObject] = {}

    def __getitem__(self, name: str) -> JsonObject:
        schema = self._parsed.get(name)
        if schema is None:
            schema = self._parsed[name] = _parse(self._lines[name])
        return schema

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def _parse(text: str) -> JsonObject:
    text = text.replace('"$ref":"', f'"$ref":"{REF}')
    if text.startswith("raw "):
        raw: JsonObject = json.loads(text.removeprefix("raw "))
        return raw
    schema: JsonObject = {"type": "object", "properties": json.loads(text.removeprefix("atomic "))}
    return {**schema, "x-kubernetes-map-type": "atomic"} if text.startswith("atomic ") else schema


@cache
def _table() -> tuple[dict[GroupVersionKind, BuiltInKind], TypeSchemas]:
    kinds: dict[GroupVersionKind, BuiltInKind] = {}
    types: dict[str, str] = {}
    for line in (Path(__file__).parent / "data" / "types.txt").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "kind":
            gvk, name, scope, *status = rest.split(" ")
            kinds[GroupVersionKind(*gvk.split("/"))] = BuiltInKind(name, scope == "namespaced", bool(status))
        elif word == "type":
            name, _, types[name] = rest.partition(" ")
    return kinds, TypeSchemas(types)


def built_in_kind(gvk: GroupVersionKind) -> BuiltInKind | None:
    """Return the entry of a built-in kind that can be applied; None for custom resources.

    >>> built_in_kind(GroupVersionKind("apps", "v1", "Deployment"))
    BuiltInKind(type_name='apps.v1.Deployment', namespaced=True, has_status=True)
    """
    return _table()[0].get(gvk)


def built_in_kinds() -> Mapping[GroupVersionKind, BuiltInKind]:
    """Return every built-in kind that can be applied."""
    return _table()[0]


def type_schemas() -> TypeSchemas:
    """Return the schemas of the types of built-in kinds."""
    return _table()[1]
