"""Mappers that run other mappers under a condition.

Upstream: github.com/rancher/norman/types/mapper (condition.go, root.go, scope.go)
Deviates: the schema of a `ConditionMapper` declares both forms of the object, because both occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from opsdk.norman.mappers.pipe import Mappers
from opsdk.norman.model import Mapper, Schema, SchemaLookup
from opsdk.norman.schema_parts import Scope
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["ConditionMapper", "Root", "ScopeMapper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionMapper:
    """Runs a mapper for objects whose field has a value (``Condition`` in norman).

    >>> from opsdk.norman.mappers.moves import Drop
    >>> mapper = ConditionMapper(field="kind", value="local", mapper=Drop(field="address"))
    >>> local = {"kind": "local", "address": "::1"}
    >>> mapper.from_internal(local); local
    {'kind': 'local'}

    Attributes:
        field: the name. The inner mapper must not change it, or inward the mapper does not run.
        value: the value.
        mapper: runs for objects with that value.
    """

    field: str
    value: JsonValue
    mapper: Mapper

    def from_internal(self, data: JsonObject) -> None:
        """Run the mapper if the field has the value."""
        if data.get(self.field) == self.value:
            self.mapper.from_internal(data)

    def to_internal(self, data: JsonObject) -> None:
        """Run the mapper if the field has the value. Raises `NormanError` as that one does."""
        if data.get(self.field) == self.value:
            self.mapper.to_internal(data)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the schema, and keep the fields that the mapper removes. Raises `UsageError` as that one does."""
        before = [(each, dict(each.resource_fields)) for each in (schema, *schemas.schemas_for_version(schema.version))]
        self.mapper.modify_schema(schema, schemas)
        for each, fields in before:
            for name, declared in fields.items():
                each.resource_fields.setdefault(name, declared)


@dataclass(slots=True, kw_only=True)
class Root:
    """Runs a mapper only for schemas whose objects can be listed.

    Attributes:
        mapper: runs for them.
    """

    mapper: Mapper
    _enabled: bool = field(default=False, init=False, repr=False)

    def from_internal(self, data: JsonObject) -> None:
        """Run the mapper if the schema can be listed."""
        if self._enabled:
            self.mapper.from_internal(data)

    def to_internal(self, data: JsonObject) -> None:
        """Run the mapper if the schema can be listed. Raises `NormanError` as that one does."""
        if self._enabled:
            self.mapper.to_internal(data)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Learn whether the schema can be listed. Raises `UsageError` as the mapper does."""
        self._enabled = "GET" in schema.collection_methods
        if self._enabled:
            self.mapper.modify_schema(schema, schemas)


@dataclass(slots=True, kw_only=True)
class ScopeMapper:
    """Runs mappers for schemas of one scope (``Scope`` in norman).

    Attributes:
        if_scope: run for schemas of this scope; None for no condition.
        if_not_scope: run for schemas of another scope; None for no condition.
        mappers: run in this order outward.
    """

    if_scope: Scope | None = None
    if_not_scope: Scope | None = None
    mappers: Sequence[Mapper] = ()
    _active: Mappers = field(default_factory=Mappers, init=False, repr=False)

    def from_internal(self, data: JsonObject) -> None:
        """Run the mappers if the scope fits."""
        self._active.from_internal(data)

    def to_internal(self, data: JsonObject) -> None:
        """Run the mappers if the scope fits. Raises `NormanError` as they do."""
        self._active.to_internal(data)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Learn whether the scope fits: both conditions must hold. Raises `UsageError` as the mappers do."""
        fits = self.if_scope in (None, schema.scope) and self.if_not_scope is not schema.scope
        self._active = Mappers(*self.mappers) if fits else Mappers()
        self._active.modify_schema(schema, schemas)
