"""Mappers that run other mappers under a condition.

Upstream: github.com/rancher/norman/types/mapper (condition.go, root.go, scope.go)
Deviates: the schema of a `ConditionMapper` declares both forms of the object, because both occur.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from opsdk.norman.mappers.pipe import Mappers
from opsdk.norman.model import Mapper, Schema, SchemaLookup
from opsdk.norman.schema_parts import Scope
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["ConditionMapper", "ListableOnly", "ScopeMapper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionMapper:
    """Runs a mapper for objects whose field has a value (``Condition`` in norman).

    >>> from opsdk.norman.mappers.moves import Drop
    >>> mapper = ConditionMapper(field="kind", value="local", mapper=Drop(field="address"))
    >>> local = {"kind": "local", "address": "::1"}
    >>> mapper.from_internal(local); local
    {'kind': 'local'}

    Attributes:
        field: the name. The inner mapper must not change this field; otherwise the mapper does not run inward.
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
        """Run the mapper if the field has the value. Raises the errors of the mapper."""
        if data.get(self.field) == self.value:
            self.mapper.to_internal(data)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the schema, and keep the fields that the mapper removes. Raises the errors of the mapper."""
        before = [(each, dict(each.resource_fields)) for each in (schema, *schemas.schemas_for_version(schema.version))]
        self.mapper.modify_schema(schema, schemas)
        for each, fields in before:
            for name, declared in fields.items():
                each.resource_fields.setdefault(name, declared)


class _SelectedSchemas(Mappers, ABC):
    """Runs mappers only for the schemas that `selects` chooses; for others, and before `modify_schema`, none.

    Args:
        mappers: in the order of `from_internal`.
    """

    def __init__(self, *mappers: Mapper) -> None:
        super().__init__()
        self._own_mappers = mappers

    @abstractmethod
    def selects(self, schema: Schema) -> bool:
        """Whether the mappers run for a schema."""

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Choose the mappers, and let them change the schema. Raises `UsageError` as they do."""
        self.mappers = self._own_mappers if self.selects(schema) else ()
        super().modify_schema(schema, schemas)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._own_mappers))})"


class ListableOnly(_SelectedSchemas):
    """Runs a mapper only for schemas whose objects can be listed (``Root`` in norman).

    Args:
        mapper: runs for them.
    """

    def __init__(self, *, mapper: Mapper) -> None:
        super().__init__(mapper)

    def selects(self, schema: Schema) -> bool:
        """Whether the objects can be listed."""
        return "GET" in schema.collection_methods


class ScopeMapper(_SelectedSchemas):
    """Runs mappers for schemas of one scope (``Scope`` in norman).

    Args:
        if_scope: run for schemas of this scope; None for no condition.
        if_not_scope: run for schemas of another scope; None for no condition.
        mappers: in the order of `from_internal`.
    """

    def __init__(
        self, *, if_scope: Scope | None = None, if_not_scope: Scope | None = None, mappers: Sequence[Mapper] = ()
    ) -> None:
        super().__init__(*mappers)
        self._if_scope = if_scope
        self._if_not_scope = if_not_scope

    def selects(self, schema: Schema) -> bool:
        """Whether the scope of the schema matches."""
        return self._if_scope in (None, schema.scope) and schema.scope is not self._if_not_scope
