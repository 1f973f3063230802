"""Schemas for strategic merge patch and server-side apply.

A `Schema` describes how the parts of a value merge: whether fields and list elements are granular or atomic, by which
keys list elements are identified, and how a strategic merge patch merges them. Schemas compile lazily, so recursive
types work.

Upstream: sigs.k8s.io/structured-merge-diff/v6/schema, k8s.io/kube-openapi/pkg/schemaconv
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from opsdk.structured_merge.value import JsonObject, JsonValue

_REF: Final = "#/components/schemas/"


class Topology(Enum):
    """The granularity of a value: which of its parts have owners of their own."""

    SCALAR = "scalar"
    """A string, a number or a boolean."""
    STRUCT = "struct"
    """An object with declared fields, each owned separately."""
    MAP = "map"
    """An object whose keys are data, each entry owned separately."""
    MAP_ATOMIC = "map-atomic"
    """An object that is replaced as a whole."""
    LIST_ATOMIC = "list-atomic"
    """A list that is replaced as a whole."""
    LIST_SET = "list-set"
    """A list of unique scalars, each owned separately."""
    LIST_MAP = "list-map"
    """A list of objects identified by `Schema.list_keys`."""
    UNKNOWN = "unknown"
    """Untyped: objects are maps with untyped entries, lists are atomic (``deducedDef``)."""

    __hash__ = object.__hash__  # members are singletons; an enum's own hash is ten times slower

    is_list: bool
    """Whether values of this topology are lists."""


for _topology_member in Topology:  # attributes of the members: a property would be a call for each value
    _topology_member.is_list = _topology_member.name.startswith("LIST_")

# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_STRUCT = Topology.STRUCT
_OBJECTS: Final = frozenset({_STRUCT, Topology.MAP, Topology.MAP_ATOMIC})

Resolve = Callable[[Mapping[str, JsonValue]], "Schema"]


class Schema:
    """The schema of one type. Created by `SchemaSet` or `structural_schema`.

    Attributes:
        topology: the granularity of the value.
        scalar_type: OpenAPI type of a SCALAR ("string", "integer", "number", "boolean"); "" allows any scalar.
        list_keys: the fields that identify the elements of a LIST_MAP.
        patch_strategies: any of "merge", "replace", "retainKeys" (strategic merge patch).
        patch_merge_key: the field by which a strategic merge patch matches list elements.
        preserve_unknown: whether a STRUCT keeps undeclared fields; they are UNKNOWN.
        embedded: whether the value is an object with its own apiVersion, kind and metadata.
        used_fields: the schemas of declared fields that `field` has returned: a look-up there costs no call.
    """

    __slots__ = (
        "_item",
        "_key_defaults",
        "_properties",
        "_resolve",
        "_schema",
        "_zeros",
        "embedded",
        "list_keys",
        "patch_merge_key",
        "patch_strategies",
        "preserve_unknown",
        "scalar_type",
        "topology",
        "used_fields",
    )

    def __init__(
        self, schema: Mapping[str, JsonValue], resolve: Resolve, *, context: Mapping[str, JsonValue] | None = None
    ) -> None:
        """Compile one level. `context` holds the extensions next to the reference that leads to `schema`."""
        self._schema = schema
        self._resolve = resolve
        self._properties: Mapping[str, JsonValue] = schema.get("properties") or {}
        self.used_fields: dict[str, Schema] = {}
        self._item: Schema | None = None
        self._key_defaults: JsonObject | None = None
        self._zeros: Mapping[str, JsonValue | Schema] | None = None
        site = {**schema, **(context or {})}
        self.list_keys: tuple[str, ...] = tuple(site.get("x-kubernetes-list-map-keys") or ())
        strategies = str(site.get("x-kubernetes-patch-strategy") or "")
        self.patch_strategies: frozenset[str] = frozenset(part for part in strategies.split(",") if part)
        self.patch_merge_key: str = site.get("x-kubernetes-patch-merge-key") or ""
        self.embedded: bool = bool(schema.get("x-kubernetes-embedded-resource"))
        self.preserve_unknown: bool = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.topology = _topology(schema, site)
        kind = schema.get("type")
        # A string with a format may have another JSON form, so any type fits.
        formatted = kind == "string" and schema.get("format", "") not in ("", "byte")
        self.scalar_type: str = kind if kind in _SCALARS and not formatted else ""

    def __repr__(self) -> str:
        return f"Schema({self.topology.value}{', keys=' + ','.join(self.list_keys) if self.list_keys else ''})"

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the declared fields."""
        return tuple(self._properties)

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the required fields."""
        return tuple(self._schema.get("required") or ())

    @property
    def default(self) -> JsonValue:
        """The declared default, or None."""
        return self._schema.get("default")

    def declares(self, name: str) -> bool:
        """Whether `name` is a declared field."""
        return name in self._properties

    def admitted(self, name: str) -> Schema | None:
        """Return the schema of an object's entry; None if the object may not have one of this name."""
        schema_of_field = self.used_fields.get(name)  # declared, and used before
        if schema_of_field is not None:
            return schema_of_field
        is_open = self.topology is not _STRUCT or self.preserve_unknown or name in self._properties
        return self.field(name) if is_open else None

    def field(self, name: str) -> Schema:
        """Return the schema of an object's entry; UNKNOWN if none is declared."""
        schema_of_field = self.used_fields.get(name)
        if schema_of_field is None:
            schema = self._properties.get(name)
            if schema is None:
                return self._entry()
            schema_of_field = self.used_fields[name] = self._resolve(schema)
        return schema_of_field

    def item(self) -> Schema:
        """Return the schema of a list's elements, or of a map's entries."""
        if not self.topology.is_list:
            return self._entry()
        if self._item is None:
            schema = self._schema.get("items")
            self._item = self._resolve(schema) if isinstance(schema, Mapping) else UNKNOWN
        return self._item

    def _entry(self) -> Schema:
        if self._item is None:
            schema = self._schema.get("additionalProperties")
            self._item = self._resolve(schema) if isinstance(schema, Mapping) else UNKNOWN
        return self._item

    @property
    def key_defaults(self) -> Mapping[str, JsonValue]:
        """The defaults of `list_keys`. An element without a key is identified by the default."""
        if self._key_defaults is None:
            element = self.item()._properties  # noqa: SLF001 (the same class)
            defaults = {key: element[key].get("default") for key in self.list_keys if key in element}
            self._key_defaults = {key: value for key, value in defaults.items() if value is not None}
        return self._key_defaults

    def zero(self, like: JsonValue = None) -> JsonValue:
        """Return Go's zero value of the type, as the server encodes it.

        Fields that are not pointers are present: objects, empty strings, zeros; a required list is null. The schema
        does not say which times are null, so those follow `like`. For a custom resource the zero value is ``{}``.
        """
        if self.topology is not _STRUCT:
            return {} if self.topology in _OBJECTS else None
        if self._zeros is None:
            self._zeros = self._zero_fields()
        live_fields = like if isinstance(like, dict) else {}
        value: JsonObject = {name: None for name, item in live_fields.items() if item is None}
        for name, part in self._zeros.items():
            value[name] = part.zero(live_fields.get(name)) if isinstance(part, Schema) else part
        return value

    def _zero_fields(self) -> Mapping[str, JsonValue | Schema]:
        """Return the zero value of each field that is always written; the schema of one that is a struct."""
        zeros: dict[str, JsonValue | Schema] = {}
        for name, schema in self._properties.items():
            default = schema.get("default")
            if isinstance(default, dict):
                zeros[name] = self.field(name)
            elif default is not None and (not default or name in self.required):
                zeros[name] = type(default)()
            elif name in self.required and not self._omits_empty:
                zeros[name] = None
        return zeros

    @property
    def _omits_empty(self) -> bool:
        """Whether the type omits required fields while they are empty; else required strings have a default."""
        declared = (self._properties.get(name) or {} for name in self.required)
        texts = [schema for schema in declared if schema.get("type") == "string"]
        return bool(texts) and all(schema.get("default") is None for schema in texts)


_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})


def _topology(schema: Mapping[str, JsonValue], site: Mapping[str, JsonValue]) -> Topology:
    """Return how values of the schema are merged. `site` is where the schema is used, with its own topology."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return Topology.UNKNOWN  # a CRD schema: validation checks the two types
    if kind in _SCALARS:
        return Topology.SCALAR
    if kind == "array":
        match site.get("x-kubernetes-list-type"):
            case "map":
                return Topology.LIST_MAP
            case "set":
                return Topology.LIST_SET
        return Topology.LIST_ATOMIC
    if kind == "object" or schema.get("properties") or schema.get("additionalProperties"):
        if site.get("x-kubernetes-map-type") == "atomic":
            return Topology.MAP_ATOMIC
        if schema.get("properties"):
            return _STRUCT
        typed = schema.get("additionalProperties") or schema.get("x-kubernetes-preserve-unknown-fields")
        return Topology.MAP if typed else Topology.MAP_ATOMIC  # free-form content is atomic
    options = schema.get("oneOf")
    scalars = isinstance(options, list) and bool(options) and all(option.get("type") in _SCALARS for option in options)
    if schema.get("format") == "int-or-string" or scalars:
        return Topology.SCALAR
    return Topology.UNKNOWN


class SchemaSet:
    """The schemas of OpenAPI components, compiled on first use.

    >>> tree = {"type": "object", "properties": {"left": {"$ref": "#/components/schemas/Tree"}}}
    >>> schemas = SchemaSet({"Tree": tree})
    >>> schemas.of("Tree").field("left") is schemas.of("Tree")
    True
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, JsonValue]]) -> None:
        self._schemas = schemas
        self._named: dict[str, Schema] = {}

    def of(self, name: str) -> Schema:
        """Return the schema called `name`. Raises ``KeyError``."""
        schema = self._named.get(name)
        if schema is None:
            schema = self._named[name] = Schema(self._schemas[name], self._resolve)
        return schema

    def _resolve(self, schema: Mapping[str, JsonValue]) -> Schema:
        """Return the schema of a property. Extensions next to a reference belong to the property, not to the type."""
        target = schema.get("$ref")
        if target is None:
            parts = schema.get("allOf")
            if isinstance(parts, list) and len(parts) == 1:
                target = parts[0].get("$ref")
        name = target.removeprefix(_REF) if isinstance(target, str) else None
        if name is None or name not in self._schemas:
            return Schema(schema, self._resolve)
        site = {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
        if not site:
            return self.of(name)
        return Schema(self._schemas[name], self._resolve, context=site)


def structural_schema(schema: Mapping[str, JsonValue], *, resource: bool = True) -> Schema:
    """Return the `Schema` of a CRD's structural schema.

    Lists are atomic unless the schema declares otherwise. ``metadata`` has the ObjectMeta schema at the root and in
    embedded resources.

    Args:
        schema: the structural schema.
        resource: whether the root is an object with metadata.
    """
    return _structural(schema, resource=resource)


def _structural(schema: Mapping[str, JsonValue], *, resource: bool = False) -> Schema:
    if resource or schema.get("x-kubernetes-embedded-resource"):
        schema = {
            **schema,
            "properties": {**(schema.get("properties") or {}), **_TYPE_META, "metadata": OBJECT_META_SCHEMA},
        }
    return _StructuralSchema(schema, _structural)


class _StructuralSchema(Schema):
    """The schema of a custom resource: the zero value of an object is empty."""

    __slots__ = ()

    def zero(self, like: JsonValue = None) -> JsonValue:
        del like
        return {} if self.topology in _OBJECTS else None


_STRING: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}
_STRING_MAP: Final = {"type": "object", "additionalProperties": _STRING}
_TYPE_META: Final = {"apiVersion": _STRING, "kind": _STRING}

OBJECT_META_SCHEMA: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "annotations": _STRING_MAP,
        "creationTimestamp": _STRING,
        "deletionGracePeriodSeconds": _INTEGER,
        "deletionTimestamp": _STRING,
        "finalizers": {
            "type": "array",
            "items": _STRING,
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "generateName": _STRING,
        "generation": _INTEGER,
        "labels": _STRING_MAP,
        "managedFields": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
        "name": _STRING,
        "namespace": _STRING,
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **_TYPE_META,
                    "blockOwnerDeletion": {"type": "boolean"},
                    "controller": {"type": "boolean"},
                    "name": _STRING,
                    "uid": _STRING,
                },
                "x-kubernetes-map-type": "atomic",
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "uid",
        },
        "resourceVersion": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
    },
}
"""The schema of ObjectMeta: the same for every kind."""

UNKNOWN: Final = Schema({}, _structural)
"""The schema of an untyped value."""
