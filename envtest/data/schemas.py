"""The schemas of the served types. Each type is parsed at its first use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache

from envtest.data.table import read_blocks
from envtest.data.versions import DEFAULT
from opsdk.structured_merge.value import JsonObject

_REF = "#/components/schemas/"
_BETWEEN = re.compile(r" (?![^(]*\))")
_KIND = re.compile(r"\bkind=(\S*)")
_ENUM = re.compile(r"([\w:-]+)\((.*)\)")


class Types(Mapping[str, JsonObject]):
    """Schemas by name, parsed lazily.

    Args:
        blocks: the block of each type, by name.
        version: the version of Kubernetes that the types are of.
    """

    def __init__(self, blocks: Mapping[str, str], version: str = DEFAULT) -> None:
        self.version = version
        self._blocks = blocks
        self._kinds: dict[tuple[str, str, str], str] = {}
        self._parsed: dict[str, JsonObject] = {}
        for name, block in blocks.items():
            match = _KIND.search(block.partition("\n")[0])
            if match:
                group, version, kind = match.group(1).split("/")
                self._kinds[group, version, kind] = name

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, name: str) -> JsonObject:
        schema = self.schema(name)
        if schema is None:
            raise KeyError(name)
        return schema

    def __contains__(self, name: object) -> bool:
        return name in self._blocks

    def name_of(self, group: str, version: str, kind: str) -> str | None:
        """Return the name of the schema of a kind; None if it is unknown."""
        return self._kinds.get((group, version, kind))

    def schema(self, name: str) -> JsonObject | None:
        """Return the OpenAPI schema of a type, shared and read-only; None if it is unknown."""
        schema = self._parsed.get(name)
        if schema is None and name in self._blocks:
            schema = self._parsed[name] = _parse_type(self._blocks[name])
        return schema


def _parse_type(block: str) -> JsonObject:
    """Return the schema of a type's block."""
    head, *fields = block.split("\n")
    marks = dict(m.split("=", 1) for m in head.split(" ")[2:])
    schema: JsonObject = json.loads(marks["raw"]) if "raw" in marks else {"type": "object", "properties": {}}
    if "map" in marks:
        schema["x-kubernetes-map-type"] = marks["map"]
    if "kind" in marks:
        group, version, kind = marks["kind"].split("/")
        schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
    required = []
    for line in fields:
        name, inner, needed = _parse_field(line)
        schema["properties"][name] = inner
        if needed:
            required.append(name)
    if required:
        schema["required"] = required
    return schema


def _parse_field(line: str) -> tuple[str, JsonObject, bool]:
    """Return name and schema of a field's line, and whether it is required."""
    text, _, default = line.strip().partition(" default=")
    # Some enum values have spaces.
    name, kind, *marks = _BETWEEN.split(text) if "(" in text else text.split(" ")
    schema = _parse_expression(kind)
    if default:
        schema["default"] = json.loads(default)
    for mark in marks:
        key, _, value = mark.partition("=")
        match key:
            case "list":
                schema["x-kubernetes-list-type"] = value
            case "map":
                schema["x-kubernetes-map-type"] = value
            case "keys":
                schema["x-kubernetes-list-map-keys"] = value.split(",")
            case "patch":
                schema["x-kubernetes-patch-strategy"] = value
            case "merge":
                schema["x-kubernetes-patch-merge-key"] = value
    return name, schema, "required" in marks


def _parse_expression(text: str) -> JsonObject:
    if text.startswith("["):
        return {"type": "array", "items": _parse_expression(text[1:-1])}
    if text.startswith("{"):
        return {"type": "object", "additionalProperties": _parse_expression(text[1:-1])}
    if text == "any":
        return {}
    enum = _ENUM.fullmatch(text)
    if enum:
        return {**_parse_expression(enum.group(1)), "enum": enum.group(2).split("|")}
    kind, _, form = text.partition(":")
    if "." in kind:
        return {"allOf": [{"$ref": f"{_REF}{kind}"}]}
    return {"type": kind, "format": form} if form else {"type": kind}


@cache
def types(version: str = DEFAULT) -> Types:
    """Return the generated types of a version of Kubernetes."""
    return Types(read_blocks("schemas", version), version)
