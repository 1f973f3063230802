"""Mappers that inline nested objects, and that turn lists into maps.

Upstream: github.com/rancher/norman/types/mapper (embed.go, union_embed.go, slice_to_map.go)
Deviates: `Embed` keeps a field with the name of the object that it was in; an `Embed` without schema does nothing,
but norman drops the object; norman has no `unless_clash`; `SliceToMap` turns an empty list into an empty map.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from opsdk.errors import UsageError
from opsdk.norman.codes import ErrorCode
from opsdk.norman.mappers.paths import BaseMapper, check_field, claim_nested
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject

__all__ = ["Embed", "SliceToMap", "UnionEmbed", "UnionMapping"]

# Every object of the API has these fields, so another field with such a name cannot be shown.
_RESERVED: Final = frozenset({"actions", "baseType", "id", "links", "type"})


@dataclasses.dataclass(slots=True, kw_only=True)
class Embed:
    """Shows the fields of a nested object as fields of the object itself.

    Fields that the nested schema does not declare are lost outward, and so is an empty nested object.

    Attributes:
        field: the name of the nested object.
        optional: do nothing if the field, or the schema of its type, is missing.
        read_only: clients neither create nor update the fields.
        ignore: fields that are neither shown nor kept.
        empty_value_ok: inward, set null if there are no fields.
        unless_clash: leave the nested object where it is if another field of the object has the name of one of its
            fields. All objects have ``actions``, ``baseType``, ``id``, ``links`` and ``type``.
    """

    field: str
    optional: bool = False
    read_only: bool = False
    ignore: Sequence[str] = ()
    empty_value_ok: bool = False
    unless_clash: bool = False
    _embedded: tuple[str, ...] = dataclasses.field(default=(), init=False, repr=False)
    _active: bool = dataclasses.field(default=False, init=False, repr=False)

    @property
    def embedded_fields(self) -> tuple[str, ...]:
        """The names of the fields; empty before `modify_schema`."""
        return self._embedded

    def from_internal(self, data: JsonObject) -> None:
        """Replace the nested object with its fields."""
        if not self._active:
            return
        nested = data.pop(self.field, None)
        if isinstance(nested, dict):
            data.update((name, nested[name]) for name in self._embedded if name in nested)

    def to_internal(self, data: JsonObject) -> None:
        """Collect the fields in a nested object. Without fields, there is no nested object."""
        if not self._active:
            return
        nested = {name: data.pop(name) for name in self._embedded if name in data}
        if nested or self.empty_value_ok:
            data[self.field] = nested or None

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Declare the fields instead of the object.

        Raises:
            UsageError: the field or its schema is missing, or the schema has a field of the same name.
        """
        self._embed(schema, schemas, frozenset())

    def modify_union(self, schema: Schema, schemas: SchemaLookup, shared: frozenset[str]) -> None:
        """Declare the fields instead of the object; those in `shared` may be declared already."""
        self._embed(schema, schemas, shared)

    def _embed(self, schema: Schema, schemas: SchemaLookup, shared: frozenset[str]) -> None:
        """Replace the declaration of the object by those of its fields, or do nothing where the options say so."""
        self._active, self._embedded = False, ()
        if self.optional and self.field not in schema.resource_fields:
            return
        kind = check_field(self.field, schema).type
        target = TypeExpression.parse(kind).target
        nested = schemas.schema(schema.version, target) if target and not TypeExpression.parse(kind).container else None
        if nested is None:
            if self.optional:
                return
            raise UsageError(f"failed to find schema {kind} for embedding {self.field} on {schema.id}")
        fields = {name: each for name, each in nested.resource_fields.items() if name not in self.ignore}
        remaining = {name: each for name, each in schema.resource_fields.items() if name != self.field}
        if self.unless_clash and not (_RESERVED | remaining.keys()).isdisjoint(fields):
            return
        for name, each in fields.items():
            if name in remaining and name not in shared:
                raise UsageError(f"embedding field {self.field} on {schema.id} will overwrite the field {name}")
            remaining[name] = replace(each, create=False, update=False) if self.read_only else each
        schema.resource_fields.clear()
        schema.resource_fields.update(remaining)
        self._active, self._embedded = True, tuple(fields)


class UnionMapping(msgspec.Struct, frozen=True, kw_only=True):
    """One nested object of a `UnionEmbed`.

    Attributes:
        field_name: its name.
        check_fields: an external object belongs to this mapping if none of them is absent, null, false, 0 or empty;
            never without check fields.
    """

    field_name: str
    check_fields: tuple[str, ...] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class UnionEmbed:
    """Shows the fields of several nested objects, of which one is set, as fields of the object itself.

    Inward, the first mapping whose check fields all have values gets its fields. Fields without such a mapping stay
    where they are.

    Attributes:
        fields: the nested objects, in the order in which they are tried.
    """

    fields: Sequence[UnionMapping]
    _embeds: dict[str, Embed] = dataclasses.field(default_factory=dict, init=False, repr=False)

    def from_internal(self, data: JsonObject) -> None:
        """Replace the nested objects with their fields."""
        for embed in self._embeds.values():
            embed.from_internal(data)

    def to_internal(self, data: JsonObject) -> None:
        """Collect the fields of the first mapping that fits."""
        for mapping in self.fields:
            if mapping.check_fields and all(data.get(name) for name in mapping.check_fields):
                self._embeds[mapping.field_name].to_internal(data)
                return

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Declare the fields of all objects.

        Raises:
            UsageError: an object, its schema or a check field is missing, or a field that is not part of the union
                has the same name.
        """
        self._embeds, shared = {}, frozenset[str]()
        for mapping in self.fields:
            embed = Embed(field=mapping.field_name)
            embed.modify_union(schema, schemas, shared)
            shared |= set(embed.embedded_fields)
            for name in mapping.check_fields:
                check_field(name, schema)
            self._embeds[mapping.field_name] = embed


class SliceToMap(BaseMapper, frozen=True, kw_only=True):
    """Shows a list of objects as a map by one of their fields.

    >>> site = {"ports": [{"name": "web", "port": 80}]}
    >>> SliceToMap(field="ports", key="name").from_internal(site); site
    {'ports': {'web': {'port': 80}}}

    Elements that are not objects are lost outward. Of several elements with the same key, or without a key, only the
    last one stays.

    Attributes:
        field: the name of the list.
        key: the field of its elements that becomes the key.
    """

    field: str
    key: str

    def from_internal(self, data: JsonObject) -> None:
        """Turn the list into a map, in its order."""
        items = data.get(self.field)
        if isinstance(items, list):
            objects = [item for item in items if isinstance(item, dict)]
            data[self.field] = {str(item.pop(self.key, None) or ""): item for item in objects}

    def to_internal(self, data: JsonObject) -> None:
        """Turn the map into a list, in its order. Raises `NormanError` InvalidFormat unless each value is an object."""
        items = data.get(self.field)
        if not isinstance(items, dict):
            return
        for key, item in items.items():
            if not isinstance(item, dict):
                raise ErrorCode.INVALID_FORMAT.error("the value is not an object", field_name=f"{self.field}.{key}")
            item[self.key] = key
        data[self.field] = list(items.values())

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the type to a map, and remove the key from the schema of the elements.

        Raises:
            UsageError: the field or the key is missing, the field is not an array of objects, or another schema uses
                the schema of its elements.
        """
        declared = check_field(self.field, schema)
        expression = TypeExpression.parse(declared.type)
        element = expression.element
        if not expression.is_array or element is None:
            raise UsageError(f"field {self.field} on {schema.id} is not an array")
        nested = schemas.schema(schema.version, element.target) if element.target else None
        if nested is None or element.is_reference:
            raise UsageError(f"failed to find a schema for the elements of {self.field}, a {declared.type}")
        check_field(self.key, nested)
        claim_nested(schema, nested, schemas)
        del nested.resource_fields[self.key]
        schema.resource_fields[self.field] = replace(declared, type=f"map[{element}]")
