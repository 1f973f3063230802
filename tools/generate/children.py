"""``opsdk/children/data/types.txt``: what a client must know of the built-in kinds to compare objects. Pure.

The kinds and the types are those of all versions of Kubernetes, each type with the fields of all.

A line for each kind that can be applied, then a line for each type that its objects contain::

    kind apps/v1/Deployment apps.v1.Deployment namespaced status
    type core.v1.EnvVar {"name": {"type": "string", "x-go": "="}, "value": {"type": "string"}}

The JSON holds the properties of the type's OpenAPI schema, with what decides how the server merges and writes a field:
type, format, list and map types, defaults of list keys. ``x-go`` is the field's mark from `tools.generate.fields`. A
type without properties has its whole schema, after ``raw``. Statuses have no type: an apply of the object ignores them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from envtest.data.fields import NULL, PLAIN, POINTER, SHOWN

Schema = Mapping[str, Any]

_REF = "#/components/schemas/"
_MERGING = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
_FORMATS = ("byte", "date-time", "int-or-string")
_STATUS: Schema = {"type": "object"}


def short_name(name: str) -> str:
    """A type's name without the path of its package.

    >>> short_name("io.k8s.api.core.v1.Pod"), short_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    ('core.v1.Pod', 'meta.v1.ObjectMeta')
    """
    return ".".join(name.split(".")[-3:])


def render_children(schemas: Mapping[str, Schema], rows: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> str:
    """The lines of the table.

    Args:
        schemas: the OpenAPI schemas by name.
        rows: the rows of `tools.generate.resources`.
        fields: the texts of `tools.generate.fields` of each version; the first one that has a field decides.
    """
    rows = list(rows)
    marks = _marks(fields)
    with_status = {
        (row["group"], row["version"], row["resource"]) for row in rows if row.get("subresource") == "status"
    }
    kinds: dict[str, str] = {}
    lines = []
    names = _kind_names(schemas)
    for row in rows:
        gvk = (row["group"], row["version"], row["kind"])
        if "subresource" in row or not {"get", "patch"} <= set(row["verbs"]) or gvk not in names:
            continue
        kinds["/".join(gvk)] = names[gvk]
        scope = "namespaced" if row["namespaced"] else "cluster"
        status = " status" if (row["group"], row["version"], row["resource"]) in with_status else ""
        lines.append(f"kind {'/'.join(gvk)} {short_name(names[gvk])} {scope}{status}\n")
    reached = sorted(_reached(schemas, kinds.values()))
    lines += [f"type {short_name(name)} {_type_text(schemas[name], marks.get(name, {}))}\n" for name in reached]
    if len({short_name(name) for name in reached}) < len(reached):
        raise ValueError("two types have the same short name")
    return "".join(lines)


def _kind_names(schemas: Mapping[str, Schema]) -> dict[tuple[str, str, str], str]:
    named = ((name, schema.get("x-kubernetes-group-version-kind", ())) for name, schema in schemas.items())
    return {(gvks[0]["group"], gvks[0]["version"], gvks[0]["kind"]): name for name, gvks in named if len(gvks) == 1}


def _marks(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """The marks of fields by type and field; see `tools.generate.fields`."""
    marks: dict[str, dict[str, str]] = {}
    for text in texts:
        for line in text.splitlines():
            name, *words = line.split()
            own = {_field_name(word): word[-1] if word[-1] in POINTER + SHOWN + NULL else PLAIN for word in words}
            marks[name] = own | marks.get(name, {})
    return marks


def _field_name(word: str) -> str:
    path = word.rstrip(POINTER + SHOWN + NULL).partition(":")[0]
    return path.rpartition("/")[2]


def _reached(schemas: Mapping[str, Schema], roots: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name in reached:
            continue
        reached.add(name)
        properties = schemas[name].get("properties", {})
        parts = (part for field, part in properties.items() if not _is_status(schemas[name], field))
        pending += [reference for part in parts for reference in _references(part)]
    return reached


def _references(part: Schema) -> Iterator[str]:
    if "allOf" in part:
        yield from _references(part["allOf"][0])
    elif "$ref" in part:
        yield str(part["$ref"]).removeprefix(_REF)
    for key in ("items", "additionalProperties"):
        if isinstance(part.get(key), Mapping):
            yield from _references(part[key])


def _type_text(schema: Schema, marks: Mapping[str, str]) -> str:
    atomic = {key: schema[key] for key in _MERGING if key in schema}
    if "properties" not in schema:
        kept = {key: value for key, value in schema.items() if key in ("type", "format", "oneOf")}
        return f"raw {_compact({**kept, **atomic})}"
    properties = {
        name: {**(_STATUS if _is_status(schema, name) else _part(part)), **_marked(marks.get(name, PLAIN))}
        for name, part in schema["properties"].items()
    }
    return f"{'atomic ' if atomic else ''}{_compact(properties)}"


def _is_status(schema: Schema, field: str) -> bool:
    return field == "status" and "x-kubernetes-group-version-kind" in schema


def _marked(mark: str) -> Mapping[str, str]:
    return {"x-go": mark} if mark else {}


def _part(part: Schema) -> dict[str, Any]:
    if "allOf" in part:
        short: dict[str, Any] = {"$ref": short_name(part["allOf"][0]["$ref"])}
    elif "$ref" in part:
        short = {"$ref": short_name(part["$ref"])}
    else:
        short = {"type": part["type"]} if "type" in part else {}
        if part.get("format") in _FORMATS:
            short["format"] = part["format"]
        for key in ("items", "additionalProperties"):
            if key in part:
                short[key] = _part(part[key])
    short |= {key: part[key] for key in _MERGING if key in part}
    if part.get("default") not in (None, {}):
        short["default"] = part["default"]
    return short


def _compact(value: Mapping[str, Any] | Sequence[Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
