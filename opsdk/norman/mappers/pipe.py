"""Several mappers as one.

Upstream: github.com/rancher/norman/types/mapper.go (Mappers)
Deviates: the first error ends `to_internal`; norman runs the other mappers and joins the errors.
"""

from __future__ import annotations

from opsdk.norman.model import Mapper, Schema, SchemaLookup
from opsdk.structured_merge.value import JsonObject

__all__ = ["Mappers"]


class Mappers:
    """Runs mappers in order outward and in reverse order inward.

    >>> from opsdk.norman.mappers.moves import Move
    >>> mappers = Mappers(Move(source="name", to="id"), Move(source="displayName", to="name"))
    >>> site = {"name": "s-1", "displayName": "Shop"}
    >>> mappers.from_internal(site); site
    {'id': 's-1', 'name': 'Shop'}
    >>> mappers.to_internal(site); site
    {'displayName': 'Shop', 'name': 's-1'}

    Args:
        mappers: in the order of `from_internal`.
    """

    def __init__(self, *mappers: Mapper) -> None:
        self.mappers = mappers

    def from_internal(self, data: JsonObject) -> None:
        """Run all mappers in their order."""
        for mapper in self.mappers:
            mapper.from_internal(data)

    def to_internal(self, data: JsonObject) -> None:
        """Run all mappers in reverse order. Stops at the first error."""
        for mapper in reversed(self.mappers):
            mapper.to_internal(data)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Let all mappers change the schema, in their order. Raises their `UsageError`s."""
        for mapper in self.mappers:
            mapper.modify_schema(schema, schemas)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.mappers))})"
