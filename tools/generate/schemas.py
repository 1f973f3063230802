"""``schemas.txt``: the types of the served objects, from their OpenAPI v3 schemas. Pure.

A line for each type and an indented one for each field, made to be read and compared::

    type io.k8s.api.core.v1.Container
      env [io.k8s.api.core.v1.EnvVar] list=map keys=name patch=merge merge=name
      name string required default=""
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_REF = "#/components/schemas/"


def render_schemas(schemas: Mapping[str, Schema]) -> str:
    """A block for each schema, by name."""
    return "".join(f"{line}\n" for name, schema in sorted(schemas.items()) for line in type_lines(name, schema))


def type_lines(name: str, schema: Schema) -> Iterator[str]:
    """One type: its head and its fields."""
    head = ["type", name]
    if "properties" not in schema:
        rest = {k: v for k, v in schema.items() if not k.startswith("x-")}
        head.append(f"raw={json.dumps(rest, separators=(',', ':'))}")
    if "x-kubernetes-map-type" in schema:
        head.append(f"map={schema['x-kubernetes-map-type']}")
    kinds = schema.get("x-kubernetes-group-version-kind", ())
    if len(kinds) == 1:
        kind = kinds[0]
        head.append(f"kind={kind['group']}/{kind['version']}/{kind['kind']}")
    yield " ".join(head)
    required = set(schema.get("required", ()))
    for field, inner in schema.get("properties", {}).items():
        yield " ".join([f"  {field}", type_text(inner), *marks(inner, required=field in required)])


def references(part: Any) -> Iterator[str]:
    """Yield the names of the types that a schema refers to.

    >>> list(references({"items": {"$ref": "#/components/schemas/a.B"}}))
    ['a.B']
    """
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rpartition("/")[2]
            else:
                yield from references(value)
    elif isinstance(part, list):
        for item in part:
            yield from references(item)


def type_text(schema: Schema) -> str:
    """A schema as a type expression.

    >>> type_text({"type": "array", "items": {"type": "integer", "format": "int32"}})
    '[integer:int32]'
    """
    if "allOf" in schema:
        return str(schema["allOf"][0]["$ref"]).removeprefix(_REF)
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REF)
    match schema.get("type"):
        case "array":
            return f"[{type_text(schema['items'])}]"
        case "object" if "additionalProperties" in schema:
            return f"{{{type_text(schema['additionalProperties'])}}}"
        case None:
            return "any"
        case kind:
            text = f"{kind}:{schema['format']}" if "format" in schema else str(kind)
            return f"{text}({'|'.join(schema['enum'])})" if "enum" in schema else text


def marks(schema: Schema, *, required: bool) -> Iterator[str]:
    """What a field declares besides its type."""
    if required:
        yield "required"
    for mark, key in (("list", "list-type"), ("map", "map-type"), ("merge", "patch-merge-key")):
        if f"x-kubernetes-{key}" in schema:
            yield f"{mark}={schema[f'x-kubernetes-{key}']}"
    if "x-kubernetes-list-map-keys" in schema:
        yield f"keys={','.join(schema['x-kubernetes-list-map-keys'])}"
    if "x-kubernetes-patch-strategy" in schema:
        yield f"patch={schema['x-kubernetes-patch-strategy']}"
    if "default" in schema:
        yield f"default={json.dumps(schema['default'])}"
