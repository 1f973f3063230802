"""Mappers that move, copy and drop fields.

Upstream: github.com/rancher/norman/types/mapper (move.go, batchmove.go, untyped_move.go, copy.go, drop.go,
display_name.go, rename_reference.go)
Deviates: moving inward removes parents that are empty then, and `Copy` removes the copy, so that an object keeps its
form; a nested source is no longer declared; `Copy` does not overwrite a declared field unless `dest_defined` is set.
"""

from __future__ import annotations

from msgspec.structs import replace

from opsdk.errors import UsageError
from opsdk.norman.mappers.access import Access
from opsdk.norman.mappers.paths import (
    BaseMapper,
    check_field,
    claim_nested,
    copy_value,
    declare,
    find_field,
    move_inward,
    move_outward,
)
from opsdk.norman.mappers.pipe import Mappers
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject

__all__ = ["BatchMove", "Copy", "DisplayName", "Drop", "Move", "RenameReference", "SliceMerge", "UntypedMove"]


class Move(BaseMapper, frozen=True, kw_only=True):
    """Moves a field, even into and out of nested objects.

    >>> site = {"spec": {"replicas": 3, "image": "nginx"}}
    >>> move = Move(source="spec/replicas", to="scale")
    >>> move.from_internal(site); site
    {'spec': {'image': 'nginx'}, 'scale': 3}
    >>> move.to_internal(site); site
    {'spec': {'image': 'nginx', 'replicas': 3}}

    An empty object above `to` is lost inward, if the field was the only one in it.

    Attributes:
        source: the internal path, with ``/`` between names (``From`` in norman).
        to: the external path.
        code_name: of the moved field; by default its new name with a capital letter.
        dest_defined: the schema declares `to` already, or its name begins with a dot and clients do not see it.
        no_delete_from_field: the schema keeps the declaration of `source`.
    """

    source: str
    to: str
    code_name: str = ""
    dest_defined: bool = False
    no_delete_from_field: bool = False

    def from_internal(self, data: JsonObject) -> None:
        """Move the value to `to`, unless a parent there is not an object."""
        move_outward(data, self.source.split("/"), self.to.split("/"))

    def to_internal(self, data: JsonObject) -> None:
        """Move the value back. Raises `NormanError` InvalidFormat if a parent of `source` is not an object."""
        move_inward(data, self.source.split("/"), self.to.split("/"))

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Move the declaration. Raises `UsageError` for a missing source, and a destination that exists."""
        source = find_field(schema, schemas, self.source.split("/"))
        to = find_field(schema, schemas, self.to.split("/"))
        moved = check_field(source.name, source.schema)
        if self.dest_defined and not to.name.startswith("."):
            check_field(to.name, to.schema)
        if not self.no_delete_from_field and self.source != self.to:
            claim_nested(schema, source.schema, schemas)
            del source.schema.resource_fields[source.name]
        if not self.dest_defined:
            claim_nested(schema, to.schema, schemas)
            name = self.code_name or to.name[:1].upper() + to.name[1:]
            declare(to.schema, to.name, replace(moved, code_name=name))


class BatchMove(Mappers):
    """Moves several fields below one destination.

    Args:
        source: the internal paths.
        to: the external path that they move below.
        dest_defined: see `Move`.
        no_delete_from_field: see `Move`.
    """

    def __init__(
        self, *, source: tuple[str, ...], to: str, dest_defined: bool = False, no_delete_from_field: bool = False
    ) -> None:
        keep = no_delete_from_field
        super().__init__(
            *(
                Move(source=name, to=f"{to.rstrip('/')}/{name}", dest_defined=dest_defined, no_delete_from_field=keep)
                for name in source
            )
        )


class UntypedMove(BaseMapper, frozen=True, kw_only=True):
    """Moves a value, and leaves the schema unchanged.

    Attributes:
        source: the internal path.
        to: the external path.
        separator: between the names of both paths.
    """

    source: str
    to: str
    separator: str = "/"

    def from_internal(self, data: JsonObject) -> None:
        """Move the value outward, unless a parent there is not an object."""
        move_outward(data, self.source.split(self.separator), self.to.split(self.separator))

    def to_internal(self, data: JsonObject) -> None:
        """Move the value back. Raises `NormanError` InvalidFormat if a parent of `source` is not an object."""
        move_inward(data, self.source.split(self.separator), self.to.split(self.separator))


class Copy(BaseMapper, frozen=True, kw_only=True):
    """Shows a field under a second name too.

    Inward, the copy sets the field if the client sent only the copy.

    Attributes:
        source: the name of the field.
        to: the second name.
        dest_defined: the schema declares `to` already.
    """

    source: str
    to: str
    dest_defined: bool = False

    def from_internal(self, data: JsonObject) -> None:
        """Copy the value."""
        if self.source in data:
            data[self.to] = copy_value(data[self.source])

    def to_internal(self, data: JsonObject) -> None:
        """Remove the copy; it becomes the source where that is absent."""
        if self.to in data:
            data.setdefault(self.source, data.pop(self.to))

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Declare the copy. Raises `UsageError` for a missing source, and a destination that exists."""
        source = check_field(self.source, schema)
        if not self.dest_defined:
            declare(schema, self.to, source)
        check_field(self.to, schema)


class Drop(BaseMapper, frozen=True, kw_only=True):
    """Removes a field outward, and from the schema. The value is lost: inward, it is not restored.

    Attributes:
        field: the name.
        ignore_definition: the schema may lack the field.
    """

    field: str
    ignore_definition: bool = False

    def from_internal(self, data: JsonObject) -> None:
        """Remove the value."""
        data.pop(self.field, None)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Remove the declaration. Raises `UsageError` if it is missing."""
        if not self.ignore_definition:
            check_field(self.field, schema)
        schema.resource_fields.pop(self.field, None)


class DisplayName(Mappers):
    """Shows ``name`` as ``id``, and ``displayName`` as ``name``.

    >>> site = {"name": "s-1", "displayName": "Shop"}
    >>> DisplayName().from_internal(site); site
    {'id': 's-1', 'name': 'Shop'}
    """

    def __init__(self) -> None:
        super().__init__(
            Move(source="name", to="id"),
            Move(source="displayName", to="name"),
            Access(fields={"id": "", "name": "cru"}),
        )


class RenameReference(Mappers):
    """Renames references: ``clusterName`` to ``clusterId``, ``clusterNames`` to ``clusterIds``.

    Only fields of the type ``reference[...]`` and ``array[reference[...]]`` are renamed.
    """

    def __init__(self) -> None:
        super().__init__()

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Find the references, and rename their fields. Raises `UsageError` if a new name is taken."""
        moves = []
        for name, declared in schema.resource_fields.items():
            expression = TypeExpression.parse(declared.type)
            element = expression.element if expression.is_array else None
            for suffix, new_suffix, matches in (
                ("Name", "Id", expression.is_reference),
                ("Names", "Ids", element is not None and element.is_reference),
            ):
                if matches and name.endswith(suffix):
                    stem = name.removesuffix(suffix)
                    code_name = f"{stem[:1].upper()}{stem[1:]}{new_suffix.replace('Id', 'ID')}"
                    moves.append(Move(source=name, to=f"{stem}{new_suffix}", code_name=code_name))
        self.mappers = tuple(moves)
        super().modify_schema(schema, schemas)


class SliceMerge(BaseMapper, frozen=True, kw_only=True):
    """Joins several lists into one in the external form. `to_internal` does not split the list again.

    Deviates: the joined lists are removed outward; norman keeps them although it drops their declaration.

    Attributes:
        source: the names of the lists, in the order of the result.
        to: the name of the result; the schema declares it.
        ignore_definition: leave the schema as it is.
    """

    source: tuple[str, ...]
    to: str
    ignore_definition: bool = False

    def from_internal(self, data: JsonObject) -> None:
        """Join the lists. Values that are not lists are removed."""
        values = [data.pop(name, None) for name in self.source]
        lists = [value for value in values if isinstance(value, list)]
        if lists:
            data[self.to] = [item for items in lists for item in items]

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Remove the declarations of the sources. Raises `UsageError` if one of them, or `to`, is missing."""
        if self.ignore_definition:
            return
        for name in self.source:
            if not TypeExpression.parse(check_field(name, schema).type).is_array:
                raise UsageError(f"field {name} on {schema.id} is not an array")
        check_field(self.to, schema)
        for name in self.source:
            if name != self.to:
                del schema.resource_fields[name]
