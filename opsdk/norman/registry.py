"""All schemas of an API, by version, with the fields that refer to each.

Upstream: github.com/rancher/norman/types/schemas.go
Deviates: embedding a schema twice, or removing it, keeps the fields that the target had before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opsdk.apimachinery.plurals import guess_plural
from opsdk.errors import UsageError
from opsdk.norman.model import BackReference, Mapper, Schema, SchemaLookup
from opsdk.norman.schema_parts import ApiVersion, Field, Filter, Modifier
from opsdk.norman.type_expression import TypeExpression

__all__ = ["SchemaRegistry"]

SchemaHook = Callable[[Schema], None]
"""Called with each schema before it is added; may change it."""


class SchemaRegistry(SchemaLookup):
    """Schemas by version and id.

    Errors are collected, so that a program can add all its schemas first and then see every error: `raise_errors`.

    ::

        registry = SchemaRegistry()
        registry.add(Schema(id="catalog", version=V3))
        registry.raise_errors()

    Attributes:
        hook: called with each schema before it is added, or None.
        default_mappers: created for each imported schema, and run before its own mappers.
        default_post_mappers: created for each imported schema, and run after its own mappers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hook: SchemaHook | None = None
        self.default_mappers: Callable[[], Sequence[Mapper]] = tuple
        self.default_post_mappers: Callable[[], Sequence[Mapper]] = tuple
        self._embeds: dict[str, dict[str, Schema]] = {}
        self._own_fields: dict[str, dict[str, Field]] = {}
        self._mappers: dict[tuple[str, str], list[Mapper]] = {}
        self._errors: list[UsageError] = []

    # -------------------------------------------------------------- changes
    def add(self, schema: Schema) -> Schema:
        """Add a schema unless its id is taken; returns the registered schema.

        The schema must have an id and a version with a path; otherwise `raise_errors` reports it.
        """
        if not self._prepare(schema):
            return schema
        if (existing := self._schemas.get(schema.version.path, {}).get(schema.id)) is not None:
            return existing
        return self._insert(schema)

    def force_add(self, schema: Schema) -> Schema:
        """Add a schema, or replace the one with its id if `dynamic_schema_version` differs."""
        if not self._prepare(schema):
            return schema
        existing = self._schemas.get(schema.version.path, {}).get(schema.id)
        if existing is not None and existing.dynamic_schema_version == schema.dynamic_schema_version:
            return existing
        return self._insert(schema)

    def add_schemas(self, other: SchemaRegistry) -> None:
        """Add all schemas of another registry, and its errors."""
        self._errors += other._errors
        for schema in other.schemas():
            self.add(schema)

    def remove(self, schema: Schema) -> None:
        """Remove a schema, the references from it, and the fields that it embeds. Unknown schemas are ignored."""
        path = schema.version.path
        existing = self._schemas.get(path, {}).pop(schema.id, None)
        if existing is None:
            return
        self._by_plural[path].pop(existing.plural_name, None)
        self._drop_references(existing)
        if existing.embed:
            target = self._target(existing)
            self._embeds.get(target, {}).pop(existing.id, None)
            self._merge_embeds(target)

    def add_mapper(self, version: ApiVersion, schema_id: str, *mappers: Mapper) -> None:
        """Add mappers for a schema that is imported later. They run in this order from the internal form.

        Raises:
            UsageError: the schema already exists, so its fields cannot follow the mapper.
        """
        if schema_id in self._schemas.get(version.path, {}):
            raise UsageError(f"{version.full_type(schema_id)} already exists: add its mappers before the import")
        self._mappers.setdefault((version.path, schema_id), []).extend(mappers)

    # ---------------------------------------------------------------- reads
    def mappers(self, version: ApiVersion, schema_id: str) -> Sequence[Mapper]:
        """Return the mappers that were added for a schema."""
        return tuple(self._mappers.get((version.path, schema_id), ()))

    def raise_errors(self) -> None:
        """Raise `UsageError` with all errors so far: schemas without id or version, field types, missing targets."""
        errors = [str(error) for error in self._errors]
        for schema in self.schemas():
            for name, field in schema.resource_fields.items():
                leaf = TypeExpression.parse(field.type).leaf
                if leaf.is_reference or not leaf.target:
                    continue
                if self.schema(schema.version, leaf.target) is None:
                    errors.append(
                        f"{schema.full_type}: the field {name} has the type {field.type}, which no schema describes"
                    )
        if errors:
            raise UsageError("; ".join(errors))

    # --------------------------------------------------------------- inside
    def _prepare(self, schema: Schema) -> bool:
        """Set defaults and check the schema. Returns False if it cannot be added."""
        if not schema.id:
            self._errors.append(UsageError(f"ID is not set on schema: {schema!r}"))
            return False
        if not schema.version.path or not schema.version.version:
            self._errors.append(UsageError(f"version is not set on schema: {schema.id}"))
            return False
        for name, field in schema.resource_fields.items():
            try:
                TypeExpression.parse(field.type)
            except UsageError as error:
                self._errors.append(UsageError(f"{schema.full_type}: field {name}: {error}"))
                return False
        schema.plural_name = schema.plural_name or guess_plural(schema.id)
        schema.base_type = schema.base_type or schema.id
        if self.hook is not None:
            self.hook(schema)
        return True

    def _insert(self, schema: Schema) -> Schema:
        """Add a checked schema, or replace the one with its id, with its references and the fields that it embeds."""
        path = schema.version.path
        self._versions.setdefault(path, schema.version)
        schemas = self._schemas.setdefault(path, {})
        plurals = self._by_plural.setdefault(path, {})
        if (existing := schemas.get(schema.id)) is not None:
            self._drop_references(existing)
            plurals.pop(existing.plural_name, None)
        schemas[schema.id] = plurals[schema.plural_name] = schema
        if schema.embed:
            target = self._target(schema)
            self._embeds.setdefault(target, {})[schema.id] = schema
            self._merge_embeds(target)
            return schema
        self._own_fields[schema.full_type] = schema.resource_fields
        self._add_references(schema)
        self._merge_embeds(schema.full_type)
        return schema

    def _target(self, schema: Schema) -> str:
        kind = schema.embed_type
        return kind if "/schemas/" in kind else schema.version.full_type(kind)

    def _merge_embeds(self, target: str) -> None:
        """Give the schema `target` its own fields and those of all schemas that are embedded in it."""
        schema, own = self.schema(None, target), self._own_fields.get(target)
        if schema is None or own is None:
            return
        fields = dict(own)
        for embedded in self._embeds.get(target, {}).values():
            fields |= embedded.resource_fields
        if fields == schema.resource_fields:
            return
        self._drop_references(schema)
        # Create a new dict, so that running requests keep their fields.
        schema.resource_fields = fields
        self._add_references(schema)

    def _add_references(self, schema: Schema) -> None:
        for name, field in schema.resource_fields.items():
            leaf = TypeExpression.parse(field.type).leaf
            if leaf.is_reference and (kind := leaf.target):
                full = kind if "/schemas/" in kind else schema.version.full_type(kind)
                self._references.setdefault(full, []).append(BackReference(name, schema))
                # The link of the other object to this collection is a filter.
                schema.collection_filters.setdefault(name, Filter(modifiers=(Modifier.EQ,)))

    def _drop_references(self, schema: Schema) -> None:
        for full, references in self._references.items():
            self._references[full] = [r for r in references if r.schema.full_type != schema.full_type]
