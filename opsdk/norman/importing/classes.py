"""Schemas from classes.

Upstream: github.com/rancher/norman/types/reflection.go
Deviates: two classes with one id are an error, norman takes the first; None in an annotation makes a field nullable, in
norman most fields are; a field without default is required.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec

from opsdk.apimachinery.duration import Duration
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apimachinery.object import TypedObject
from opsdk.apimachinery.plurals import plural_of
from opsdk.apimachinery.quantity import Quantity
from opsdk.errors import UsageError
from opsdk.norman.importing.characters import allowed_characters
from opsdk.norman.importing.class_fields import ClassField, fields_of, is_structured, unwrap
from opsdk.norman.importing.field_options import FieldOptions
from opsdk.norman.importing.names import container_type, lower_title
from opsdk.norman.importing.openapi import number_limits
from opsdk.norman.importing.registration import (
    COLLECTION_METHODS,
    RESOURCE_METHODS,
    Customize,
    finish,
    internal_copy,
)
from opsdk.norman.mappers.kubernetes import GVK
from opsdk.norman.mappers.paths import CHANGED_BY
from opsdk.norman.model import Schema
from opsdk.norman.rbac_access import RESOURCE
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion, Field, Scope
from opsdk.norman.type_expression import TypeExpression

CLASS: Final = "class"
"""The key in `Schema.attributes` of the class that the schema was imported from."""

_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "int",
    float: "float",
    str: "string",
    bytes: "base64",
    bytearray: "base64",
    dt.date: "date",
    Quantity: "string",
    Duration: "string",
    Decimal: "string",
    uuid.UUID: "string",
    msgspec.Raw: "json",
    object: "json",
}
_LISTS = (list, tuple, set, frozenset, Collection, Iterable, Sequence)


class ClassImporter:
    """Imports classes into a registry.

    >>> class Port(msgspec.Struct):
    ...     number: int
    >>> registry = SchemaRegistry()
    >>> v3 = ApiVersion(group="example.com", version="v3", path="/v3")
    >>> ClassImporter(registry).import_class(v3, Port)
    <Schema /v3/schemas/port with 1 fields>

    Args:
        registry: gets the schemas.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._names: dict[type, str] = {}
        self._importing: dict[str, Schema] = {}

    def type_name(self, cls: type, schema_id: str) -> None:
        """Set the id of the schema of a class; by default it is the name of the class."""
        self._names[cls] = schema_id

    def schema_id(self, cls: type) -> str:
        """Return the id of the schema of a class."""
        return self._names.get(cls) or lower_title(cls.__name__)

    def import_class(
        self,
        version: ApiVersion,
        cls: type,
        customize: Customize | None = None,
        *,
        overrides: Sequence[type] = (),
        root: bool | None = None,
    ) -> Schema:
        """Return the schema of a class, and import it and the classes of its fields where that is not done yet.

        See `opsdk.norman.schemas.NormanSchemas.import_class`.
        """
        schema_id = self.schema_id(cls)
        full_type = version.full_type(schema_id)
        if full_type in self._importing:
            return self._check_origin(self._importing[full_type], cls)
        existing = self._registry.schema(version, full_type)
        if existing is not None and existing.id == schema_id:
            self._check_origin(existing, cls)
            if customize is not None:
                customize(existing)
            return existing
        schema = Schema(id=schema_id, version=version, attributes={CLASS: cls})
        is_kind = issubclass(cls, TypedObject)
        if is_kind if root is None else root:
            schema.collection_methods, schema.resource_methods = COLLECTION_METHODS, RESOURCE_METHODS
        if is_kind:
            _describe_kind(schema, cls)
        self._importing[full_type] = schema
        try:
            self._read_fields(schema, cls)
            schema.internal = internal_copy(schema)
            for override in overrides:
                self._read_fields(schema, override)
            return finish(self._registry, schema, customize)
        finally:
            del self._importing[full_type]

    def _check_origin(self, schema: Schema, cls: type) -> Schema:
        other = schema.attributes.get(CLASS)
        if other is not cls:
            origin = other.__qualname__ if isinstance(other, type) else "another source"
            advice = f'set another id with type_name({cls.__name__}, "...")'
            raise UsageError(f"{schema.full_type} is the schema of {origin}, not of {cls.__qualname__}: {advice}")
        return schema

    def _read_fields(self, schema: Schema, cls: type) -> None:
        for each in fields_of(cls):
            if unwrap(each.annotation).types:
                schema.resource_fields[each.name] = self._field(schema, cls, each)

    def _field(self, schema: Schema, cls: type, declared: ClassField) -> Field:
        """Return the declaration of a field: its annotation, then the metadata, of which the outermost counts most."""
        unwrapped = unwrap(declared.annotation)
        metadata = (*declared.metadata, *unwrapped.metadata)
        options = [each for each in metadata if isinstance(each, FieldOptions)]
        explicit = next((each.type for each in options if each.type), "")
        try:
            # A class that has no schema may be described by the options.
            kind = explicit or self._type(schema, unwrapped.types)
            # The server returns null for an unset reference, and a client may send it back.
            is_optional_reference = TypeExpression.parse(kind).is_reference and not declared.required
            field = Field(
                type=kind,
                default=declared.default,
                nullable=unwrapped.nullable or is_optional_reference,
                required=declared.required and not unwrapped.nullable,
                options=() if explicit else _choices(unwrapped.types),
                description=declared.description,
                code_name=declared.attribute,
            )
            for each in reversed(metadata):
                field = each.applied_to(field) if isinstance(each, FieldOptions) else _constrained(field, each)
        except UsageError as error:
            raise UsageError(f"{cls.__name__}.{declared.attribute}: {error}") from error
        return field

    def _type(self, schema: Schema, types: Sequence[Any]) -> str:
        """Return the type expression of a union of types."""
        if len(types) != 1:
            both = set(types) if all(isinstance(each, type) for each in types) else set()
            return {frozenset({int, str}): "intOrString", frozenset({int, float}): "float"}.get(frozenset(both), "json")
        annotation = types[0]
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Literal:
            return _type_of_values(arguments)
        container = origin if isinstance(origin, type) else annotation
        if annotation is Any or isinstance(annotation, TypeVar) or not isinstance(container, type):
            return "json"
        if is_structured(container):
            return self._nested(schema, container).id
        if issubclass(container, Mapping):
            element = self._type(schema, unwrap(arguments[1]).types) if len(arguments) > 1 else "json"
            return container_type("map", element)
        if container in _LISTS or issubclass(container, list | set | frozenset):
            elements = [each for each in arguments if each is not Ellipsis]
            element = self._type(schema, unwrap(elements[0]).types) if len(elements) == 1 else "json"
            return container_type("array", element)
        if issubclass(container, Enum):
            return _type_of_values([member.value for member in container])
        name = next((_TYPES[base] for base in container.__mro__ if base in _TYPES and base is not object), "")
        if not name and container is not object:
            raise UsageError(f"{container.__name__} has no type in a schema: set one with FieldOptions(type=...)")
        return name or "json"

    def _nested(self, schema: Schema, cls: type) -> Schema:
        nested = self.import_class(schema.version, cls)
        owner = nested.attributes.get(CHANGED_BY, schema.full_type)
        if owner != schema.full_type:
            advice = f"add the mapper to {nested.id} itself"
            raise UsageError(f"a mapper of {owner} changed the fields of {nested.id}: {advice}")
        return nested


def _describe_kind(schema: Schema, cls: type[TypedObject]) -> None:
    schema.scope = Scope.NAMESPACE if cls.namespaced else Scope.CLUSTER
    schema.status = any(each.name == "status" and unwrap(each.annotation).types for each in fields_of(cls))
    plural = plural_of(cls)
    resource = GroupVersionResource(cls.gvk.group, cls.gvk.version, plural)
    schema.attributes |= {GVK: cls.gvk, RESOURCE: resource}


def _type_of_values(values: Sequence[object]) -> str:
    for cls, name in ((str, "enum"), (bool, "boolean"), (int, "int")):
        if all(type(value) is cls for value in values):
            return name
    return "json"


def _choices(types: Sequence[Any]) -> tuple[str, ...]:
    """Return the strings of a Literal or an Enum, or of the items of a list; () for other types."""
    if len(types) != 1:
        return ()
    origin, arguments = get_origin(types[0]), get_args(types[0])
    if origin is Literal:
        values = list(arguments)
    elif isinstance(types[0], type) and issubclass(types[0], Enum):
        values = [member.value for member in types[0]]
    else:
        items = unwrap(arguments[0]).types if len(arguments) == 1 and isinstance(origin, type) else ()
        return _choices(items) if items and get_origin(items[0]) in (None, Literal) else ()
    return tuple(values) if _type_of_values(values) == "enum" else ()


def _constrained(field: Field, constraint: Any) -> Field:
    """Return a field with the limits of ``msgspec.Meta``, of pydantic's ``Field``, or of annotated_types."""
    read = {name: getattr(constraint, name, None) for name in ("ge", "gt", "le", "lt", "min_length", "max_length")}
    numbers = {name: value for name, value in read.items() if isinstance(value, int | float) and math.isfinite(value)}
    changes: dict[str, Any] = {
        **number_limits(
            numbers.get("ge", numbers.get("gt")),
            numbers.get("le", numbers.get("lt")),
            excludes_low="ge" not in numbers,
            excludes_high="le" not in numbers,
            is_whole=field.type != "float",
        )
    }
    if field.type == "string":
        changes |= {name: numbers[name] for name in ("min_length", "max_length") if name in numbers}
        if isinstance(pattern := getattr(constraint, "pattern", None), str):
            changes["valid_chars"] = allowed_characters(pattern)
    if isinstance(text := getattr(constraint, "description", None), str):
        changes["description"] = text
    return msgspec.structs.replace(field, **changes)
