"""The alpha and beta kinds of the default version, which no API server serves by default: for typed classes only. Pure.

A line of the text is a resource (group, version, resource, kind, namespaced), or the schema of a type by its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opsdk.cli.generate.names import stability_of
from tools.generate.resources import Row
from tools.generate.schemas import references
from tools.generate.typed_kinds import TypedKinds, with_fields

_KIND = "x-kubernetes-group-version-kind"
_COLLECTION = re.compile(r"/apis/[^/]+/[^/]+/(?P<namespace>namespaces/\{namespace\}/)?(?P<resource>[a-z]+)")


@dataclass(frozen=True, slots=True)
class UnstableKinds:
    """What the text says.

    Attributes:
        rows: the resources.
        schemas: of the types by name.
    """

    rows: tuple[Row, ...]
    schemas: Mapping[str, Mapping[str, Any]]


def unstable_rows(paths: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    """Yield the alpha and beta resources in the paths of a Swagger document."""
    found: dict[tuple[str, str, str], Row] = {}
    for path, methods in paths.items():
        match = _COLLECTION.fullmatch(path)
        kind = methods.get("post", {}).get(_KIND)
        if match is not None and kind is not None and stability_of(kind["version"]) != "stable":
            row = {**kind, "resource": match["resource"], "namespaced": match["namespace"] is not None}
            found[kind["group"], kind["version"], kind["kind"]] = row
    yield from (found[key] for key in sorted(found))


def render_unstable(kinds: UnstableKinds) -> str:
    """Return the text."""
    lines = [*kinds.rows, *({"name": name, "schema": kinds.schemas[name]} for name in sorted(kinds.schemas))]
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


def parse_unstable(text: str) -> UnstableKinds:
    """Return what the text says."""
    lines = [json.loads(line) for line in text.splitlines()]
    schemas = {line["name"]: line["schema"] for line in lines if "schema" in line}
    return UnstableKinds(tuple(line for line in lines if "schema" not in line), schemas)


def own_schemas(rows: Iterable[Row], schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of some kinds, and of the types that they reach."""
    kinds = {(row["group"], row["version"], row["kind"]) for row in rows}
    pending = [name for name, schema in schemas.items() if not kinds.isdisjoint(_kinds(schema))]
    own: dict[str, Mapping[str, Any]] = {}
    while pending:
        name = pending.pop()
        if name not in own:
            own[name] = schemas[name]
            pending += references(schemas[name])
    return own


def unstable_difference(base: UnstableKinds, other: UnstableKinds) -> UnstableKinds:
    """Return the rows of `other` that are new, and its schemas that are new or differ."""
    return UnstableKinds(
        tuple(row for row in other.rows if row not in base.rows),
        {name: schema for name, schema in other.schemas.items() if base.schemas.get(name) != schema},
    )


def with_unstable(typed: TypedKinds, unstable: UnstableKinds) -> TypedKinds:
    """Return the types with the unstable ones. Known types get the fields that they lack."""
    return TypedKinds(with_fields(typed.schemas, unstable.schemas), [*typed.rows, *unstable.rows])


def _kinds(schema: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    return {(kind["group"], kind["version"], kind["kind"]) for kind in schema.get(_KIND, ())}
