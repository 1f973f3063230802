"""Coerces and validates embedded objects (``x-kubernetes-embedded-resource``). Pure.

Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_
from typing import Final

from msgspec.structs import replace

from opsdk.apimachinery import validation
from opsdk.apimachinery.serializer.documents import json_kind
from opsdk.apiserver import api_errors
from opsdk.apiserver.field_errors import OMITTED, FieldError, FieldErrorType, required
from opsdk.apiserver.registry import metadata
from opsdk.apiserver.structural.node import SchemaNode
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue

Change = Callable[[JsonObject, str], JsonObject]
"""Maps an object and its path to the new object."""


def change_embedded(value: JsonValue, node: SchemaNode | None, change: Change, path: str = "") -> JsonValue:
    """Return `value` with each embedded object replaced by `change`, innermost first; the rest is shared."""
    if node is None or not node.nests:
        return value
    if isinstance(value, list):
        items = [change_embedded(one, node.items, change, f"{path}[{index}]") for index, one in enumerate(value)]
        return value if all(map(is_, items, value)) else items
    if not isinstance(value, dict):
        return value
    entries: JsonObject = {}
    for key, one in value.items():
        below = (f"{path}.{key}" if path else key) if key in node.properties else f"{path}[{key}]"
        entries[key] = change_embedded(one, node.entry(key), change, below)
    result = value if all(map(is_, entries.values(), value.values())) else entries
    return change(result, path) if node.embedded and path else result


def check_embedded(value: JsonValue, node: SchemaNode) -> list[FieldError]:
    """Return the errors in types and metadata of the embedded objects in `value`, object by object."""
    errors: list[FieldError] = []

    def look(obj: JsonObject, path: str) -> JsonObject:
        errors.extend(check_object(obj, path))
        return obj

    change_embedded(value, node, look)
    return errors


def check_object(obj: JsonObject, path: str) -> Iterator[FieldError]:
    """Report missing and invalid values of the embedded object at `path`; types are right."""
    yield from (required(f"{path}.{key}") for key in ("apiVersion", "kind") if key not in obj)
    for cause in check_values(obj, path):
        _, _, detail = cause.message.partition(": ")
        yield FieldError(FieldErrorType(cause.reason), cause.field, OMITTED, detail)


_MEMBERS: Final[dict[str, tuple[type, str]]] = {
    **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "resourceVersion"), (str, "string")),
    "uid": (str, "types.UID"),
    "generation": (int, "int64"),
    **dict.fromkeys(("labels", "annotations"), (dict, "map[string]string")),
    "finalizers": (list, "[]string"),
    "ownerReferences": (list, "[]v1.OwnerReference"),
    "managedFields": (list, "[]v1.ManagedFieldsEntry"),
}


def check_types(obj: JsonObject, path: str = "") -> Iterator[Cause]:
    """Report type errors in apiVersion, kind and metadata of the embedded object at `path`."""
    prefix = f"{path}." if path else ""
    for key in ("apiVersion", "kind"):
        if obj.get(key) is not None and not isinstance(obj[key], str):
            yield api_errors.invalid_value(f"{prefix}{key}", obj[key], "must be a string")
    meta = obj.get("metadata")
    if meta is not None and (reason := _metadata_mismatch(meta)):
        yield api_errors.invalid_value(f"{prefix}metadata", meta, f"json: cannot unmarshal {reason}")


def _metadata_mismatch(meta: JsonValue) -> str:
    if not isinstance(meta, dict):
        return f"{json_kind(meta)} into Go value of type v1.ObjectMeta"
    for key, value in meta.items():
        expected_type, name = _MEMBERS.get(key, (object, ""))
        inner = value.values() if name == "map[string]string" and isinstance(value, dict) else ()
        strange = next((item for item in inner if item is not None and not isinstance(item, str)), None)
        if strange is not None:
            return f"{json_kind(strange)} into Go struct field ObjectMeta.{key} of type string"
        if value is not None and not isinstance(value, expected_type):
            return f"{json_kind(value)} into Go struct field ObjectMeta.{key} of type {name}"
    return ""


def check_values(obj: JsonObject, path: str = "") -> Iterator[Cause]:
    """Report invalid values in apiVersion, kind and metadata of the embedded object at `path`; types are right."""
    prefix = f"{path}." if path else ""
    for key, rule in (
        ("apiVersion", lambda text: f"unexpected GroupVersion string: {text}" if text.count("/") > 1 else ""),
        ("kind", _kind),
    ):
        if isinstance(obj.get(key), str):
            text = rule(obj[key]) if obj[key] else "must not be empty"
            if text:
                yield api_errors.invalid_value(f"{prefix}{key}", obj[key], text)
    meta = obj.get("metadata")
    if isinstance(meta, dict):
        yield from (replace(cause, field=f"{prefix}{cause.field}") for cause in metadata.validate_embedded(meta))


def _kind(text: str) -> str:
    wrong = validation.dns_1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {wrong[0]}" if wrong else ""
