"""Completes an import: runs mappers, sets filters, and adds the schema to the registry.

Upstream: github.com/rancher/norman/types/reflection.go (importType, setupFilters)
Deviates: every schema has an internal one; mappers are copied for each import, so that one may serve several schemas.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from opsdk.errors import UsageError
from opsdk.norman.mappers.type_mapper import TypeMapper
from opsdk.norman.model import Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Filter, Modifier
from opsdk.norman.type_expression import TypeExpression

Customize = Callable[[Schema], None]
"""Changes a schema after its import: actions, handlers, a store."""

COLLECTION_METHODS: Final = ("GET", "POST")
RESOURCE_METHODS: Final = ("GET", "PUT", "DELETE")
_EQUALITY_MODIFIERS: Final = Filter().modifiers
_MODIFIERS: Final[Mapping[str, tuple[Modifier, ...]]] = {
    "boolean": (Modifier.EQ, Modifier.NE),
    **dict.fromkeys(("date", "dnsLabel", "enum", "hostname", "int", "string"), _EQUALITY_MODIFIERS),
}


def internal_copy(schema: Schema) -> Schema:
    """Return the internal schema of a schema: the same fields, not changed by mappers."""
    return dataclasses.replace(schema, resource_fields=dict(schema.resource_fields), attributes=dict(schema.attributes))


def prepare(registry: SchemaRegistry, schema: Schema) -> None:
    """Run the mappers of a schema that was read, and set its filters. It changes nothing but the schema.

    First the default mappers of the registry run, for a schema that can be listed; then those that were added for it;
    then the default post mappers.

    Raises:
        UsageError: a mapper needs a field or schema that is missing.
    """
    is_root = "GET" in schema.collection_methods
    mappers = [copy.deepcopy(mapper) for mapper in registry.mappers(schema.version, schema.id)]
    if is_root:
        mappers = [*registry.default_mappers(), *mappers]
    mapper = TypeMapper([*mappers, *registry.default_post_mappers()], root=is_root)
    mapper.modify_schema(schema, registry)
    schema.mapper = mapper
    if is_root:
        set_filters(schema)


def register(registry: SchemaRegistry, schema: Schema, customize: Customize | None = None) -> Schema:
    """Customize a schema that is prepared, and add it to the registry. Raises `UsageError` if its id is taken."""
    if customize is not None:
        customize(schema)
    if registry.add(schema) is not schema:
        raise UsageError(f"{schema.full_type} already exists: give one of the two another id")
    return schema


def finish(registry: SchemaRegistry, schema: Schema, customize: Customize | None = None) -> Schema:
    """Complete the import of a schema that was read: `prepare`, then `register`."""
    prepare(registry, schema)
    return register(registry, schema, customize)


def set_filters(schema: Schema) -> None:
    """Give each field the filters of its type, unless it has some."""
    for name, field in schema.resource_fields.items():
        is_reference = TypeExpression.parse(field.type).is_reference
        modifiers = _EQUALITY_MODIFIERS if is_reference else _MODIFIERS.get(field.type)
        if modifiers is not None:
            schema.collection_filters.setdefault(name, Filter(modifiers=modifiers))
