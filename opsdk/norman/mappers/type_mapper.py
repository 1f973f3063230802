"""The mapper of a schema: its own mappers, those of the schemas of its fields, and type and id.

Upstream: github.com/rancher/norman/types/mapper.go (typeMapper)
Deviates: it reaches objects in nested containers (``map[array[port]]``) too; inward it removes type and id again; a
field of the class that is called ``type`` keeps its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opsdk.norman.mappers.paths import get_value
from opsdk.norman.mappers.pipe import Mappers
from opsdk.norman.model import Mapper, Schema, SchemaLookup
from opsdk.norman.schema_parts import ApiVersion, Scope
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["TypeMapper"]

_Step = Callable[[Mapper, JsonObject], None]


class TypeMapper:
    """Maps the objects of one schema. The importer creates it.

    Outward: first the objects in fields that have a schema; then ``type`` is set to the full path of the schema, the
    mappers run, and ``id`` is set to ``name`` or ``namespace:name``. Inward the same in reverse order; ``type`` and
    ``id`` are removed.

    Args:
        mappers: the mappers of the schema, in the order of `from_internal`.
        root: objects have an id.
    """

    def __init__(self, mappers: Sequence[Mapper], *, root: bool) -> None:
        self.mappers = Mappers(*mappers)
        self._root = root
        self._type = ""
        self._namespaced = False
        self._own_id = False
        self._own_type = False
        self._nested: dict[str, TypeExpression] = {}
        self._version = ApiVersion()
        self._schemas: SchemaLookup | None = None

    def from_internal(self, data: JsonObject) -> None:
        """Change an internal object, and the objects in it, to the external form."""
        name = get_value(data, ["metadata", "name"])
        namespace = get_value(data, ["metadata", "namespace"])
        self._map_nested(data, lambda mapper, value: mapper.from_internal(value))
        if not self._own_type:
            data["type"] = self._type
        self.mappers.from_internal(data)
        if not self._root:
            return
        object_id = data.get("id") if self._own_id else name
        if isinstance(object_id, str) and object_id:
            is_in_namespace = isinstance(namespace, str) and namespace and self._namespaced
            data["id"] = f"{namespace}:{object_id}" if is_in_namespace else object_id
        if not self._own_type:
            data["type"] = self._type

    def to_internal(self, data: JsonObject) -> None:
        """Change an external object, and the objects in it, to the internal form.

        Raises:
            NormanError: a mapper cannot change a value.
        """
        if not self._own_type:
            data.pop("type", None)
        if self._root:
            object_id = data.get("id") if self._own_id else data.pop("id", None)
            if self._own_id and self._namespaced and isinstance(object_id, str):
                data["id"] = object_id.partition(":")[2] or object_id
        self.mappers.to_internal(data)
        self._map_nested(data, lambda mapper, value: mapper.to_internal(value))

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Find the fields that have schemas, and let the mappers change the schema. Raises their `UsageError`s."""
        internal = schema.internal or schema
        self._type = schema.full_type
        self._namespaced = schema.scope is Scope.NAMESPACE
        # The nested schemas are looked up later: one may be the schema itself, or may be replaced.
        expressions = {name: TypeExpression.parse(field.type) for name, field in internal.resource_fields.items()}
        self._nested = {name: e for name, e in expressions.items() if e.leaf.target and not e.leaf.is_reference}
        self._version, self._schemas = schema.version, schemas
        fields = set(internal.resource_fields)
        self.mappers.modify_schema(schema, schemas)
        fields |= set(schema.resource_fields)
        self._own_type = "type" in fields
        self._own_id = "id" in fields

    def _map_nested(self, data: JsonObject, step: _Step) -> None:
        if self._schemas is None:
            return
        for name, expression in self._nested.items():
            if not isinstance(data.get(name), dict | list):
                continue
            schema = self._schemas.schema(self._version, expression.leaf.target)
            if schema is not None and schema.mapper is not None:
                _apply(schema.mapper, expression, data[name], step)

    def __repr__(self) -> str:
        return f"<TypeMapper {self._type} with {self.mappers!r}>"


def _apply(mapper: Mapper, expression: TypeExpression, value: JsonValue, step: _Step) -> None:
    """Run a mapper for all objects in a value. Values of other types are not changed: the server validates them."""
    if expression.element is None:
        if isinstance(value, dict):
            step(mapper, value)
    elif expression.is_map and isinstance(value, dict):
        for each in value.values():
            _apply(mapper, expression.element, each, step)
    elif expression.is_array and isinstance(value, list):
        for each in value:
            _apply(mapper, expression.element, each, step)
