"""The types of fields: the merge rules of a field, and the form in which the server writes its values.

A `FieldType` combines a `Schema`, the merge rules, with information of the Go types: quantities, times, bytes,
pointers, and fields that are always written. Types compile at their first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

from opsdk.apimachinery.crd import schema_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.children.kinds import REF, built_in_kind, type_schemas
from opsdk.structured_merge.schema import UNKNOWN, Schema, SchemaSet, structural_schema
from opsdk.structured_merge.value import JsonObject, JsonValue


class Form(Enum):
    """The form in which the server writes a value."""

    TEXT = "text"
    """As it is."""
    BYTES = "bytes"
    """Base64 without line ends."""
    NUMBER = "number"
    """Integers, floats: a float without fraction becomes an integer."""
    BOOLEAN = "boolean"
    QUANTITY = "quantity"
    """Canonical: the largest suffix without a fraction."""
    TIME = "time"
    """UTC, whole seconds."""
    MICRO_TIME = "micro time"
    """UTC, six decimals."""
    INT_OR_STRING = "int or string"
    STRUCT = "struct"
    """An object with declared fields."""
    MAP = "map"
    """An object whose keys are data."""
    LIST = "list"
    SCHEMA = "schema or another value"
    """JSONSchemaProps, or a boolean, list or text in its place."""
    ANY = "any"
    """As it is."""

    __hash__ = object.__hash__  # members are singletons; an enum's own hash is ten times slower


_NAMED: Final = {
    "Quantity": Form.QUANTITY,
    "Time": Form.TIME,
    "MicroTime": Form.MICRO_TIME,
    "IntOrString": Form.INT_OR_STRING,
}
_FORMS: Final = {"integer": Form.NUMBER, "number": Form.NUMBER, "boolean": Form.BOOLEAN, "array": Form.LIST}
_JSON_TYPES_PREFIX: Final = "apiextensions.v1."
"""The server keeps these types as JSON, where an empty list differs from none."""


class FieldType:
    """The type of one field, list item or map entry.

    Attributes:
        schema: the merge rules.
        form: the form of written values.
        name: the name of a declared type such as ``core.v1.Container``, or "".
        mark: "" for a field that is omitted while empty, ``*`` for a pointer, ``=`` for a field that is always written,
            ``?`` for one that is written as null while empty.
        custom: whether the value belongs to a custom resource, where empty values are kept.
        nullable: whether a custom resource's field may be null.
        keeps_empty: whether an empty list is written as such, not as null.
    """

    __slots__ = (
        "_always_written",
        "_fields",
        "_item",
        "_properties",
        "_raw",
        "custom",
        "form",
        "keeps_empty",
        "mark",
        "name",
        "nullable",
        "schema",
    )

    def __init__(self, raw: Mapping[str, JsonValue], schema: Schema, *, custom: bool, parent: str = "") -> None:
        """Compile one level of `raw`, an OpenAPI schema that may be a reference. `parent` is the name of the struct."""
        reference = raw.get("$ref")
        self.name: str = reference.removeprefix(REF) if isinstance(reference, str) else ""
        self.mark: str = raw.get("x-go") or ""
        self._raw = type_schemas()[self.name] if self.name else raw
        self._properties: Mapping[str, JsonValue] = self._raw.get("properties") or {}
        self._fields: dict[str, FieldType] = {}
        self._item: FieldType | None = None
        self._always_written: tuple[str, ...] | None = None
        self.schema = schema
        self.custom = custom
        self.nullable = bool(raw.get("nullable"))
        self.keeps_empty = parent.startswith(_JSON_TYPES_PREFIX)
        self.form = self._form()

    def _form(self) -> Form:
        short = self.name.rpartition(".")[2]
        if short in _NAMED:
            return _NAMED[short]
        if short.startswith("JSONSchemaPropsOr"):
            return Form.SCHEMA
        kind = self._raw.get("type")
        if self._properties:
            return Form.STRUCT
        if kind == "object":
            return Form.MAP if isinstance(self._raw.get("additionalProperties"), Mapping) else Form.ANY
        if kind == "string":
            return Form.BYTES if self._raw.get("format") == "byte" and not self.custom else Form.TEXT
        return _FORMS.get(kind or "", Form.ANY)

    def __repr__(self) -> str:
        return f"FieldType({self.name or self.form.value})"

    @property
    def default(self) -> JsonValue:
        """The default that the schema declares, or None."""
        return self._raw.get("default")

    @property
    def defaults(self) -> Mapping[str, JsonValue]:
        """The declared defaults of a custom resource's fields."""
        return {name: part["default"] for name, part in self._properties.items() if "default" in part}

    @property
    def always_written(self) -> tuple[str, ...]:
        """The fields that the server writes even while they are empty."""
        if self._always_written is None:
            self._always_written = tuple(
                name for name, part in self._properties.items() if part.get("x-go") in ("=", "?")
            )
        return self._always_written

    def declares(self, name: str) -> bool:
        """Whether `name` is a declared field."""
        return name in self._properties

    def field(self, name: str) -> FieldType:
        """Return the type of an object's entry; `UNTYPED` if none is declared."""
        field_type = self._fields.get(name)
        if field_type is not None:
            return field_type
        part = self._properties.get(name)
        if part is None:
            return self.item()
        schema = self.schema.field(name)
        if self.custom and name == "metadata" and part is _OBJECT_META:
            field_type = FieldType(part, schema, custom=False)
        else:
            field_type = FieldType(
                _with_metadata(part) if self.custom else part, schema, custom=self.custom, parent=self.name
            )
        self._fields[name] = field_type
        return field_type

    def item(self) -> FieldType:
        """Return the type of a list's items, or of a map's entries; `UNTYPED` if none is declared."""
        if self._item is None:
            part = self._raw.get("items" if self.form is Form.LIST else "additionalProperties")
            if isinstance(part, Mapping):
                part = _with_metadata(part) if self.custom else part
                self._item = FieldType(part, self.schema.item(), custom=self.custom)
            else:
                self._item = UNTYPED
        return self._item


_OBJECT_META: Final[JsonObject] = {"$ref": f"{REF}meta.v1.ObjectMeta"}
_STRING: Final[JsonObject] = {"type": "string"}
UNTYPED: Final = FieldType({}, UNKNOWN, custom=True)
"""The type of a value about which nothing is known: objects are granular, lists are atomic, everything is kept."""


def _with_metadata(part: Mapping[str, Any], *, resource: bool = False) -> Mapping[str, Any]:
    if not resource and not part.get("x-kubernetes-embedded-resource"):
        return part
    own = {"apiVersion": _STRING, "kind": _STRING, "metadata": _OBJECT_META}
    return {**part, "properties": {**(part.get("properties") or {}), **own}}


@cache
def _built_in_schemas() -> SchemaSet:
    return SchemaSet(type_schemas())


@cache
def built_in_type(gvk: GroupVersionKind) -> FieldType | None:
    """Return the type of a built-in kind; None for custom resources.

    >>> deployment = built_in_type(GroupVersionKind("apps", "v1", "Deployment"))
    >>> deployment.field("spec").field("template").field("spec").field("containers").schema
    Schema(list-map, keys=name)
    """
    kind = built_in_kind(gvk)
    if kind is None:
        return None
    reference = {"$ref": f"{REF}{kind.type_name}"}
    return FieldType(reference, _built_in_schemas().of(kind.type_name), custom=False)


def custom_type(schema: Mapping[str, JsonValue]) -> FieldType:
    """Return the type of a custom resource with this structural schema (``openAPIV3Schema`` of a CRD's version)."""
    return FieldType(_with_metadata(schema, resource=True), structural_schema(schema), custom=True)


@cache
def class_type(kind: type[Any]) -> FieldType:
    """Return the type of a class's custom resources, from the schema that `crd_for` generates for it."""
    return custom_type(schema_for(kind))
