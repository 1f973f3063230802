"""Checks of a generated CustomResourceDefinition, before a server sees it.

The server checks more: `opsdk generate crd` and ``envtest`` compile the rules and apply all checks of the API server.

Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go (v1.36)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from opsdk.apimachinery.crd_markers import INT_OR_STRING, LIST_KEYS, LIST_TYPE, MAP_TYPE, RULES
from opsdk.apimachinery.serializer.yaml_scalars import resolve
from opsdk.apimachinery.validation import dns_1035_label, dns_subdomain
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

log = logging.getLogger(__name__)

_SCALARS = ("string", "integer", "number", "boolean")
_COLUMN_TYPES = (*_SCALARS, "date")
_PATH = re.compile(r"(\.[^.\[\]]+|\[[^\]]+\])+")


def check_definition(crd: JsonObject) -> None:
    """Raise `UsageError` with all mistakes in the names, paths and schemas of `crd`, one on each line.

    Logs a warning for each field whose name YAML reads otherwise.
    """
    name = crd["metadata"]["name"]
    mistakes = [*_names(crd["spec"]), *_storage(crd["spec"])]
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        mistakes += [f"{version['name']}{text}" for text in [*_paths(version, schema), *_schema(schema)]]
    if mistakes:
        raise UsageError(f"{name} is not valid:\n" + "\n".join(f"  {text}" for text in mistakes))
    for version in crd["spec"]["versions"]:
        for path, word in _quoted_names(version["schema"]["openAPIV3Schema"]):
            text = f"{name} {version['name']}{path}: kubectl reads the key {word} as a {resolve(word)[0]}"
            log.warning('%s: rename the field, or write "%s": with quotes in YAML', text, word)


def _names(spec: JsonObject) -> Iterator[str]:
    names = spec["names"]
    for text in dns_subdomain(spec["group"]) or ([] if "." in spec["group"] else ["a group needs a dot"]):
        yield f"group {spec['group']!r}: {text}"
    for key in ("plural", "singular"):
        yield from (f"{key} {names[key]!r}: {text}" for text in dns_1035_label(names[key]))
    for key in ("kind", "listKind"):
        yield from (f"{key} {names[key]!r}: {text}" for text in dns_1035_label(names[key].lower()))
    for key in ("shortNames", "categories"):
        for name in names.get(key, ()):
            yield from (f"{key} {name!r}: {text}" for text in dns_1035_label(name))
    if names["kind"] == names["listKind"]:
        yield f"listKind {names['listKind']!r}: must differ from the kind"


def _storage(spec: JsonObject) -> Iterator[str]:
    versions = [version["name"] for version in spec["versions"]]
    for name in versions:
        yield from (f"version {name!r}: {text}" for text in dns_1035_label(name))
    if duplicates := sorted({name for name in versions if versions.count(name) > 1}):
        yield f"version {duplicates[0]!r}: has two classes"
    stored = [version["name"] for version in spec["versions"] if version["storage"]]
    if len(stored) != 1:
        yield f"storage: exactly one version is stored, not {stored}: set `storage = True` in one class"
    first, *others = spec["versions"]
    same_schema = all(version["schema"] == first["schema"] for version in others)
    if same_schema and any(v.get("selectableFields") != first.get("selectableFields") for v in others):
        # The server moves equal schemas to one place, and then misses the schema of the version with the fields.
        yield "selectable_fields: versions with equal schemas need equal ones: the server refuses the definition"


# ------------------------------------------------------------------ paths of a version
def _paths(version: JsonObject, schema: JsonObject) -> Iterator[str]:
    """Yield the problems of the JSON paths of columns, selectable fields and the scale subresource."""
    for column in version.get("additionalPrinterColumns", ()):
        where = f" printer column {column['name']!r}:"
        if column["type"] not in _COLUMN_TYPES:
            yield f"{where} type {column['type']!r} is not one of {', '.join(_COLUMN_TYPES)}"
        if not column["jsonPath"].startswith("."):
            yield f"{where} the path {column['jsonPath']!r} must start with a dot, as in .spec.image"
    for field in version.get("selectableFields", ()):
        target = _resolve(schema, field["jsonPath"])
        if target is None or target.get("type") not in ("string", "integer", "boolean"):
            yield f" selectable field {field['jsonPath']!r}: must be the path of a string, integer or boolean field"
    scale = version.get("subresources", {}).get("scale", {})
    for key, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        path = scale.get(key)
        if path and (not path.startswith(roots) or _resolve(schema, path) is None):
            yield f" scale {key} {path!r}: must be the path of a field below {' or '.join(roots)}"
    if version.get("deprecationWarning") and not version.get("deprecated"):
        yield " deprecation_warning: needs `deprecated = True`"


def _resolve(schema: JsonObject, path: str) -> JsonObject | None:
    """Return the schema of the field at a simple path such as ``.spec.color``."""
    node: Any = schema
    if not _PATH.fullmatch(path):
        return None
    for step in path.removeprefix(".").split("."):
        node = node.get("properties", {}).get(step)
        if node is None:
            return None
    return dict(node)


# ------------------------------------------------------------------ schemas
def _schema(schema: JsonObject) -> Iterator[str]:
    for place, _, part in _parts(schema):
        yield from (f"{place}: {text}" for text in [*_list_type(part), *_limits(part), *_rules(part)])


def _parts(schema: JsonObject, path: str = "", name: str = "") -> Iterator[tuple[str, str, JsonObject]]:
    """Yield a schema and all schemas below it, each with its path and the name of its field, which elements lack."""
    yield path, name, schema
    for field, below in schema.get("properties", {}).items():
        yield from _parts(below, f"{path}.{field}", field)
    for keyword, step in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(keyword), Mapping):
            yield from _parts(schema[keyword], f"{path}{step}")


def _quoted_names(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield path and name of the fields whose names are no strings in YAML without quotes, such as ``y`` and ``on``."""
    for path, name, _ in _parts(schema):
        if name and resolve(name)[0] != "str":
            yield path, name


def _list_type(schema: JsonObject) -> Iterator[str]:
    """Yield the problems of list and map types: their keys, and the types of their elements."""
    kind, items = schema.get(LIST_TYPE), schema.get("items", {})
    if kind is not None and schema.get("type") != "array":
        yield f"list_type({kind!r}) needs a list"
    if schema.get(MAP_TYPE) is not None and schema.get("type") != "object":
        yield f"map_type({schema[MAP_TYPE]!r}) needs an object"
    atomic = items.get(LIST_TYPE) == "atomic" or items.get(MAP_TYPE) == "atomic"
    if kind == "set" and items.get("type") not in _SCALARS and not items.get(INT_OR_STRING) and not atomic:
        yield "elements of a set must be scalars, or atomic lists or maps"
    keys = schema.get(LIST_KEYS, [])
    if (kind == "map") != bool(keys):
        yield 'list_type("map", keys=(...,)) needs keys, and other list types have none'
    if kind == "map" and items.get("type") != "object":
        yield "elements of a list of type map must be objects"
    for key in keys:
        part = items.get("properties", {}).get(key)
        if part is None:
            names = ", ".join(items.get("properties", {}))
            yield f"the list map key {key!r} is not a field of the elements: choose among {names}"
        elif key not in items.get("required", ()) and "default" not in part:
            yield f"the list map key {key!r} must be required or have a default"
        elif part.get("type") not in _SCALARS and not part.get(INT_OR_STRING):
            yield f"the list map key {key!r} must be a scalar"


def _limits(schema: JsonObject) -> Iterator[str]:
    for low, high in (
        ("minimum", "maximum"),
        ("minLength", "maxLength"),
        ("minItems", "maxItems"),
        ("minProperties", "maxProperties"),
    ):
        if low in schema and high in schema and schema[low] > schema[high]:
            yield f"{low} {schema[low]} exceeds {high} {schema[high]}: no value is valid"


def _rules(schema: JsonObject) -> Iterator[str]:
    for rule in schema.get(RULES, ()):
        where = f"the rule {rule['rule']!r}"
        if not rule["rule"].strip():
            yield "a rule must not be empty"
        if "\n" in rule["rule"] and not rule.get("message") and not rule.get("messageExpression"):
            yield f"{where} has several lines: it needs a message"
        if "\n" in rule.get("message", ""):
            yield f"the message of {where} must be one line"
        path = rule.get("fieldPath")
        if path and (not path.startswith((".", "[")) or _missing_field(schema, path)):
            yield f"the field_path {path!r} of {where} must be the path of a field below it, such as .name"


def _missing_field(schema: JsonObject, path: str) -> bool:
    """Report whether a path of plain names does not exist; the server resolves paths through maps and lists."""
    return "[" not in path and "properties" in schema and _resolve(schema, path) is None
