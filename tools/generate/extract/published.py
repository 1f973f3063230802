"""The OpenAPI v3 schemas of a version, from ``api/openapi-spec/swagger.json`` and the Go types of a checkout.

The Swagger document lacks what only version 3 publishes: enums, and the defaults of fields that are not pointers.

Upstream: k8s.io/kube-openapi/pkg/generators/openapi.go, enum.go (v1.36)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Any

from opsdk.structured_merge.value import JsonObject
from tools.generate.extract.go_source import GoField, GoFile, parse_go
from tools.generate.extract.go_structs import STAGING, go_files
from tools.generate.schemas import references
from tools.generate.struct_facts import go_type_of, local_types
from tools.generate.unstable import UnstableKinds, own_schemas, unstable_rows

SWAGGER = Path("api/openapi-spec/swagger.json")
_REF, _OLD_REF = "#/components/schemas/", "#/definitions/"
_ZEROS = {"string": "", "integer": 0, "number": 0, "boolean": False}
_WITHOUT_KIND = "x-kubernetes-group-version-kind"
_OWN_FORM: Mapping[str, JsonObject] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    }
}
"""Types that publish another schema in version 3."""


def read_published(checkout: Path, groups: AbstractSet[tuple[str, str]]) -> dict[str, JsonObject]:
    """Return the schemas of the kinds of `groups` (group and version), and of the types that these reach."""
    definitions = json.loads((checkout / SWAGGER).read_text())["definitions"]
    go = _Go(checkout, definitions)
    schemas = {}
    pending = [name for name, definition in definitions.items() if _is_served(name, definition, groups)]
    while pending:
        name = pending.pop()
        if name not in schemas:
            schemas[name] = _OWN_FORM.get(name) or _schema(name, definitions[name], go)
            pending += references(definitions[name])
    return dict(sorted(schemas.items()))


def read_unstable(checkout: Path, known: AbstractSet[str]) -> UnstableKinds:
    """Return the alpha and beta kinds with the schemas that they reach, except those of `known` types."""
    rows = tuple(unstable_rows(json.loads((checkout / SWAGGER).read_text())["paths"]))
    schemas = read_published(checkout, {(row["group"], row["version"]) for row in rows})
    own = own_schemas(rows, schemas)
    return UnstableKinds(rows, {name: schema for name, schema in own.items() if name not in known})


def read_gates(checkout: Path, schemas: Mapping[str, JsonObject]) -> dict[str, dict[str, str]]:
    """Return the feature gates of the fields of types, by type and field."""
    go = _Go(checkout, {})
    gates = {
        name: {key: field.gate for key, (_, field) in go.fields(*go_type_of(name)).items() if field.gate}
        for name, schema in schemas.items()
        if "properties" in schema
    }
    return {name: fields for name, fields in gates.items() if fields}


def _is_served(name: str, definition: JsonObject, groups: AbstractSet[tuple[str, str]]) -> bool:
    kinds = definition.get(_WITHOUT_KIND, ())
    short = name.rpartition(".")[2]
    if short in _META_KINDS:
        return True
    return len(kinds) == 1 and (kinds[0]["group"], kinds[0]["version"]) in groups and short not in _NOT_PUBLISHED


_META_KINDS = frozenset({"DeleteOptions", "WatchEvent", "APIResourceList", "APIGroup", "Patch"})
"""Types that documents refer to without being of a served group."""
_NOT_PUBLISHED = frozenset({"APIGroupList", "APIVersions"})


class _Go:
    """The Go declarations of a checkout, by schema."""

    def __init__(self, checkout: Path, definitions: Mapping[str, JsonObject]) -> None:
        self._definitions = definitions
        self._root = checkout / STAGING
        self.package: Callable[[str], GoFile] = cache(self._read)

    def _read(self, path: str) -> GoFile:
        files = [parse_go(each.read_text()) for each in go_files(self._root / path)]
        return GoFile(
            {k: v for file in files for k, v in file.imports.items()},
            {k: v for file in files for k, v in file.named.items()},
            {k: v for file in files for k, v in file.structs.items()},
            frozenset().union(*(file.enums for file in files)),
            {k: v for file in files for k, v in file.constants.items()},
        )

    def fields(self, path: str, name: str) -> dict[str, tuple[str, GoField]]:
        """Return the fields of a struct by JSON name, each with the package that declares it."""
        found: dict[str, tuple[str, GoField]] = {}
        for field in self.package(path).structs.get(name, ()):
            key = field.json.partition(",")[0]
            if key:
                found[key] = (path, field)
            elif used := local_types(field.type):
                found |= self.fields(*self.resolve(path, *used[0]))
        return found

    def has_fields(self, schema: str) -> bool:
        """Whether a type publishes fields; others have a JSON form of their own."""
        return "properties" in self._definitions[schema]

    def resolve(self, path: str, alias: str, name: str) -> tuple[str, str]:
        """Return the package and the name of a type."""
        return (self.package(path).imports.get(alias, alias) if alias else path), name

    def values(self, path: str, type_text: str) -> list[str]:
        """Return the values of the enum that a type ends with; none if it is no enum."""
        used = local_types(type_text)
        if not used:
            return []
        where, name = self.resolve(path, *used[-1])
        if "/" not in where or not (self._root / where).is_dir():
            return []
        package = self.package(where)
        if name not in package.enums:
            return []
        return sorted({self._constant(where, text) for kind, text in package.constants.values() if kind == name})

    def _constant(self, path: str, text: str) -> str:
        if text.startswith('"'):
            return str(json.loads(text))
        alias, _, name = text.partition(".")
        where, name = self.resolve(path, alias, name)
        return self._constant(where, self.package(where).constants[name][1])

    def default(self, path: str, text: str) -> Any:
        """Return the value of a ``+default=`` marker, which may name a constant."""
        if text.startswith("ref("):
            return self._constant(path, self.package(path).constants[text.removeprefix("ref(").removesuffix(")")][1])
        return json.loads(text)


def _schema(name: str, definition: JsonObject, go: _Go) -> JsonObject:
    schema: JsonObject = {key: value for key, value in definition.items() if key not in ("description", "properties")}
    kinds = schema.get(_WITHOUT_KIND, ())
    if len(kinds) > 1:
        schema[_WITHOUT_KIND] = [kind for kind in kinds if kind["group"] == "" and kind["version"] == "v1"]
    if "properties" in definition:
        fields = go.fields(*go_type_of(name))
        schema["properties"] = {
            key: _property(part, fields.get(key), go) for key, part in definition["properties"].items()
        }
    return schema


def _property(part: JsonObject, declared: tuple[str, GoField] | None, go: _Go) -> JsonObject:
    shown = _part(part)
    if declared is None:
        return shown
    path, field = declared
    if values := go.values(path, field.type):
        inner = shown.get("items") or shown.get("additionalProperties") or shown
        if inner.get("type") == "string":
            inner["enum"] = values
    default = _default(shown, field, go)
    if field.default:
        default = go.default(path, field.default)
    if default is not None:
        shown["default"] = default
    if "$ref" in shown and ("description" in part or default is not None):
        shown["allOf"] = [{"$ref": shown.pop("$ref")}]
    return dict(sorted(shown.items()))


def _default(shown: JsonObject, field: GoField, go: _Go) -> Any:
    """Return the zero of a field that Go always writes."""
    if field.type.startswith(("*", "[", "map[")):
        return None
    if "$ref" in shown:
        return {} if go.has_fields(shown["$ref"].removeprefix(_REF)) else None
    optional = "omitempty" in field.json.split(",")
    return None if optional else _ZEROS.get(shown.get("type", ""))


def _part(part: JsonObject) -> JsonObject:
    """Return a part of the Swagger document as version 3 has it, without descriptions."""
    shown: JsonObject = {}
    for key, value in part.items():
        if key == "$ref":
            shown[key] = _REF + value.removeprefix(_OLD_REF)
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            shown[key] = _part(value)
        elif key != "description":
            shown[key] = value
    return shown
