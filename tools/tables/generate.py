"""Make envtest's tables from the published description of an API server.

usage: python tools/tables/generate.py SCHEMAS.json DISCOVERY.json PROTOBUF.json OUTPUT_DIRECTORY

SCHEMAS is an OpenAPI v3 document with every schema; DISCOVERY holds the aggregated discovery documents under ``api``
and ``apis``; PROTOBUF the fields of each message by name. The outcome is three text files, one line for each field and
each resource, made to be read and compared:

    type io.k8s.api.core.v1.Container
      env [io.k8s.api.core.v1.EnvVar] list=map keys=name patch=merge merge=name
      name string required default=""

``fields.txt`` beside them, with the order of fields and which of them are pointers or always written, is not made here:
the published description does not tell. `tests/envtest/test_fields.py` tells which types and fields it lacks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opsdk.structured_merge.value import JsonObject

_REF = "#/components/schemas/"


def type_text(schema: JsonObject) -> str:
    """A schema as a type expression."""
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


def marks(schema: JsonObject, *, required: bool) -> Iterator[str]:
    """What a field says besides its type."""
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


def type_lines(name: str, schema: JsonObject) -> Iterator[str]:
    """One type: a head and its fields."""
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


def resource_rows(document: JsonObject) -> Iterator[JsonObject]:
    """One row for each resource and subresource."""
    for group in document["items"]:
        for version in group["versions"]:
            place = {"group": group["metadata"].get("name", ""), "version": version["version"]}
            for resource in version["resources"]:
                row = {k: v for k, v in resource.items() if k not in ("subresources", "responseKind", "scope")}
                namespaced = resource["scope"] == "Namespaced"
                yield {**place, **row, "kind": resource["responseKind"]["kind"], "namespaced": namespaced}
                for sub in resource.get("subresources", ()):
                    yield {**place, **subresource_row(resource, sub), "namespaced": namespaced}


def subresource_row(resource: JsonObject, sub: JsonObject) -> JsonObject:
    """A subresource; its kind may be of another group."""
    kind = sub["responseKind"]
    row = {
        "resource": resource["resource"],
        "subresource": sub["subresource"],
        "kind": kind["kind"],
        "verbs": sub["verbs"],
    }
    if kind["version"]:
        row |= {"kindGroup": kind["group"], "kindVersion": kind["version"]}
    return row


def message_lines(messages: dict[str, list[list[Any]]]) -> Iterator[str]:
    """The messages of stable versions: number, name, type and label of each field."""
    for name, fields in sorted(messages.items()):
        if "alpha" in name or "beta" in name or name.startswith("k8s.io.api.imagepolicy"):
            continue
        yield f"message {name}"
        for number, field, kind, label in fields:
            mark = {"optional": "", "repeated": " *", "map": " map"}[label]
            yield f"  {number} {field} {kind.replace(', ', ',')}{mark}"


def main(schemas: Path, discovery: Path, protobuf: Path, output: Path) -> None:
    """Write ``schemas.txt``, ``resources.txt`` and ``messages.txt``."""
    found = json.loads(schemas.read_text())
    blocks = ["\n".join(type_lines(n, s)) for n, s in sorted(found["components"]["schemas"].items())]
    version = found["info"]["version"]
    (output / "schemas.txt").write_text(f"# {version}\n" + "\n".join(blocks) + "\n")
    documents = json.loads(discovery.read_text())
    rows = [json.dumps(row) for part in ("api", "apis") for row in resource_rows(documents[part])]
    (output / "resources.txt").write_text("\n".join(rows) + "\n")
    lines = list(message_lines(json.loads(protobuf.read_text())))
    (output / "messages.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(blocks)} types, {len(rows)} resources of {version}")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:5]))
