"""Values and fields at a path, such as ``spec/template/name``.

Upstream: github.com/rancher/norman/types/values/values.go, types/mapper/move.go (getField), types/mapper/check.go
Deviates: null counts as an absent parent; a parent of another type is an error where a client sent it; a path through
an array is an error, because values are not reached there; a nested schema that several schemas use is not changed.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from opsdk.errors import UsageError
from opsdk.norman.codes import ErrorCode
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.schema_parts import Field
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject, JsonValue

CHANGED_BY: Final = "norman.changed-by"
"""The key in `Schema.attributes` of a nested schema: the full path of the only schema that may use it."""


ABSENT: Final = msgspec.UNSET
"""The path has no value. None stands for JSON's null."""


class FieldLocation(NamedTuple):
    """The schema and name that declare a field.

    Attributes:
        schema: the schema, or a nested one.
        name: the name there.
        field: the declaration, or None.
    """

    schema: Schema
    name: str
    field: Field | None


def get_value(data: JsonObject, path: Sequence[str]) -> JsonValue:
    """Return the value at a path, or `ABSENT`.

    >>> get_value({"spec": {"replicas": 3}}, ["spec", "replicas"]), get_value({}, ["spec", "replicas"])
    (3, UNSET)
    """
    value: JsonValue = data
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return value


def put_value(data: JsonObject, path: Sequence[str], value: JsonValue) -> bool:
    """Set the value at a path, and create its parents. Returns False and changes nothing if a parent is not an object.

    >>> data = {"kind": "Site"}
    >>> put_value(data, ["spec", "replicas"], 3), put_value(data, ["kind", "name"], "a"), data
    (True, False, {'kind': 'Site', 'spec': {'replicas': 3}})
    """
    parent = data
    for position, name in enumerate(path[:-1]):
        child = parent.get(name)
        if child is None:
            for missing in path[position:-1]:
                parent[missing] = {}
                parent = parent[missing]
            break
        if not isinstance(child, dict):
            return False
        parent = child
    parent[path[-1]] = value
    return True


def remove_value(data: JsonObject, path: Sequence[str], *, prune: bool = False) -> JsonValue:
    """Remove and return the value at a path, or return `ABSENT`.

    Args:
        data: the object.
        path: the names.
        prune: remove parents that are empty then.

    >>> data = {"spec": {"replicas": 3}}
    >>> remove_value(data, ["spec", "replicas"], prune=True), data
    (3, {})
    """
    parents = [data]
    for name in path[:-1]:
        child = parents[-1].get(name)
        if not isinstance(child, dict):
            return ABSENT
        parents.append(child)
    value = parents[-1].pop(path[-1], ABSENT)
    if prune and value is not ABSENT:
        for parent, name in zip(parents[-2::-1], path[-2::-1], strict=True):
            if parent[name]:
                break
            del parent[name]
    return value


def move_outward(data: JsonObject, source: Sequence[str], to: Sequence[str]) -> None:
    """Move a value to the external path; leave it where it is if a parent of `to` is not an object."""
    value = get_value(data, source)
    # Remove the source first: it may be a parent of `to`.
    if value is not ABSENT and source != to:
        remove_value(data, source)
        if not put_value(data, to, value):
            put_value(data, source, value)


def move_inward(data: JsonObject, source: Sequence[str], to: Sequence[str]) -> None:
    """Move a value back from the external path. Raises `NormanError` if a parent of `source` is not an object."""
    value = ABSENT if source == to else remove_value(data, to, prune=True)
    if value is not ABSENT and not put_value(data, source, value):
        name = "/".join(to)
        raise ErrorCode.INVALID_FORMAT.error(f"{'/'.join(source[:-1])} is not an object", field_name=name)


def copy_value(value: JsonValue) -> JsonValue:
    """Return a copy of a JSON value that shares nothing with it."""
    return copy.deepcopy(value)


# ------------------------------------------------------------------ schemas
def check_field(name: str, schema: Schema) -> Field:
    """Return a field of a schema. Raises `UsageError` if the schema lacks it.

    >>> from opsdk.norman.schema_parts import ApiVersion
    >>> check_field("replicas", Schema(id="site", version=ApiVersion()))
    Traceback (most recent call last):
    ...
    opsdk.errors.UsageError: field replicas missing on schema site: it has no fields
    """
    field = schema.resource_fields.get(name)
    if field is None:
        names = ", ".join(sorted(schema.resource_fields)) or "no fields"
        raise UsageError(f"field {name} missing on schema {schema.id}: it has {names}")
    return field


def find_field(schema: Schema, schemas: SchemaLookup, path: Sequence[str]) -> FieldLocation:
    """Return where the last name of a path is declared.

    Raises:
        UsageError: a parent is not declared, or is not an object with a schema.
    """
    owner = schema
    for name in path[:-1]:
        field = check_field(name, owner)
        expression = TypeExpression.parse(field.type)
        if expression.container is not None:
            advice = "add the mapper to the schema of its elements"
            raise UsageError(f"the path {'/'.join(path)} on {schema.id} leads through {name}, a {field.type}: {advice}")
        nested = schemas.schema(owner.version, expression.target) if expression.target else None
        if nested is None:
            advice = "use UntypedMove for values without a schema"
            raise UsageError(f"failed to find a schema for {name}, a {field.type}, on {owner.id}: {advice}")
        owner = nested
    return FieldLocation(owner, path[-1], owner.resource_fields.get(path[-1]))


def claim_nested(schema: Schema, nested: Schema, schemas: SchemaLookup) -> None:
    """Reserve a nested schema for `schema`, before a mapper of `schema` changes its fields.

    Raises:
        UsageError: another schema uses it, whose objects the mapper does not change.
    """
    if nested is schema:
        return
    for other in schemas.schemas_for_version(nested.version):
        if other not in (schema, nested) and any(
            schemas.schema(other.version, leaf.target) is nested
            for field in other.resource_fields.values()
            if (leaf := TypeExpression.parse(field.type).leaf).target and not leaf.is_reference
        ):
            raise UsageError(
                f"a mapper of {schema.id} cannot change the fields of {nested.id}, because {other.id} uses it too:"
                f" add a mapper to {nested.id} itself"
            )
    nested.attributes[CHANGED_BY] = schema.full_type


def declare(schema: Schema, name: str, field: Field) -> None:
    """Add a field to a schema. Raises `UsageError` if the name is taken."""
    if name in schema.resource_fields:
        raise UsageError(f"field {name} already exists on schema {schema.id}: drop or move it first")
    schema.resource_fields[name] = field


class BaseMapper(msgspec.Struct, frozen=True, kw_only=True):
    """A mapper that changes nothing; subclasses override what they need."""

    def from_internal(self, data: JsonObject) -> None:
        """Leave the object as it is."""

    def to_internal(self, data: JsonObject) -> None:
        """Leave the object as it is."""

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Leave the schema as it is."""
