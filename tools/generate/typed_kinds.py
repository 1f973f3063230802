"""What the typed classes are made from: the default version, and the kinds that other versions add. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.generate.resources import Row
from tools.generate.schemas import references

_KINDS = "x-kubernetes-group-version-kind"
Schemas = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TypedKinds:
    """Schemas by name, and rows of resources."""

    schemas: Schemas
    rows: Sequence[Row]


def with_new_kinds(base: TypedKinds, other: TypedKinds) -> TypedKinds:
    """Return the types with the kinds that only `other` has, and what these reach. Known types get fields."""
    known = set(map(_identity, base.rows))
    new = [row for row in other.rows if _identity(row) not in known]
    kinds = {(row["group"], row["version"], kind) for row in new for kind in (row["kind"], f"{row['kind']}List")}
    pending = [
        name for name, schema in other.schemas.items() if name in base.schemas or not kinds.isdisjoint(_kinds(schema))
    ]
    reached: dict[str, Mapping[str, Any]] = {}
    while pending:
        name = pending.pop()
        if name not in reached:
            reached[name] = other.schemas[name]
            pending += references(other.schemas[name])
    return TypedKinds(with_fields(base.schemas, reached), [*base.rows, *new])


def with_fields(base: Schemas, other: Schemas) -> Schemas:
    """Return the types of both. A type of both has the fields of both; a field of both stays as it is in `base`."""
    merged = {**other, **base}
    for name in base.keys() & other.keys():
        known, more = base[name].get("properties", {}), other[name].get("properties", {})
        if more.keys() - known.keys():
            merged[name] = {**base[name], "properties": dict(sorted({**more, **known}.items()))}
    return dict(sorted(merged.items()))


def _identity(row: Row) -> tuple[str, ...]:
    return row["group"], row["version"], row["resource"], row.get("subresource", "")


def _kinds(schema: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    return {(kind["group"], kind["version"], kind["kind"]) for kind in schema.get(_KINDS, ())}
