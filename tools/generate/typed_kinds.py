"""What the typed classes are made from: the default version, and the kinds that other versions add. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.generate.resources import Row
from tools.generate.schemas import references

_KINDS = "x-kubernetes-group-version-kind"


@dataclass(frozen=True, slots=True)
class TypedKinds:
    """Schemas by name, and rows of resources."""

    schemas: Mapping[str, Mapping[str, Any]]
    rows: Sequence[Row]


def with_new_kinds(base: TypedKinds, other: TypedKinds) -> TypedKinds:
    """Return the types with the kinds that only `other` has, and what these reach. Known types stay as they are."""
    known = {(row["group"], row["version"], row["resource"]) for row in base.rows}
    new = [row for row in other.rows if (row["group"], row["version"], row["resource"]) not in known]
    kinds = {(row["group"], row["version"], kind) for row in new for kind in (row["kind"], f"{row['kind']}List")}
    pending = [name for name, schema in other.schemas.items() if not kinds.isdisjoint(_kinds(schema))]
    added: dict[str, Mapping[str, Any]] = {}
    while pending:
        name = pending.pop()
        if name not in base.schemas and name not in added:
            added[name] = other.schemas[name]
            pending += references(other.schemas[name])
    return TypedKinds(dict(sorted({**base.schemas, **added}.items())), [*base.rows, *new])


def _kinds(schema: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    return {(kind["group"], kind["version"], kind["kind"]) for kind in schema.get(_KINDS, ())}
