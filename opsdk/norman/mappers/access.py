"""Mappers that change only the declaration of fields, and no objects.

Upstream: github.com/rancher/norman/types/mapper (access.go, changetype.go, enum.go, read_only.go, required.go)
Deviates: `Access` rejects unknown letters.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from opsdk.errors import UsageError
from opsdk.norman.mappers.paths import BaseMapper, check_field
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.type_expression import TypeExpression

__all__ = ["Access", "ChangeTypeMapper", "EnumMapper", "ReadOnly", "Required"]


class Access(BaseMapper, frozen=True, kw_only=True):
    """Sets the access of clients to fields. A missing letter denies that access.

    >>> from opsdk.norman.schema_parts import ApiVersion, Field
    >>> site = Schema(id="site", version=ApiVersion(), resource_fields={"name": Field(type="string")})
    >>> Access(fields={"name": "cr"}).modify_schema(site, None)
    >>> site.resource_fields["name"].create, site.resource_fields["name"].update
    (True, False)

    Attributes:
        fields: name -> letters: ``c`` create, ``u`` update, ``o`` write-only; ``r`` has no effect.
        optional: skip fields that the schema lacks.
    """

    fields: Mapping[str, str]
    optional: bool = False

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the fields. Raises `UsageError` for unknown letters and missing fields."""
        for name, letters in self.fields.items():
            if unknown := set(letters) - set("cruo"):
                raise UsageError(
                    f"the access {letters!r} of {name} has the unknown letters {sorted(unknown)}: use c, r, u, o"
                )
            if self.optional and name not in schema.resource_fields:
                continue
            schema.resource_fields[name] = replace(
                check_field(name, schema), create="c" in letters, update="u" in letters, write_only="o" in letters
            )


class ChangeTypeMapper(BaseMapper, frozen=True, kw_only=True):
    """Changes the declared type of a field (``ChangeType`` in norman).

    Attributes:
        field: the name.
        type: the new type, see `opsdk.norman.type_expression`.
    """

    field: str
    type: str

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the type. Raises `UsageError` for a missing field and a type that does not parse."""
        TypeExpression.parse(self.type)
        schema.resource_fields[self.field] = replace(check_field(self.field, schema), type=self.type)


class EnumMapper(BaseMapper, frozen=True, kw_only=True):
    """Makes a field an enum (``Enum`` in norman).

    Attributes:
        field: the name.
        options: the strings that are allowed.
    """

    field: str
    options: tuple[str, ...]

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the field. Raises `UsageError` if it is missing."""
        schema.resource_fields[self.field] = replace(
            check_field(self.field, schema), type="enum", options=tuple(self.options)
        )


class ReadOnly(BaseMapper, frozen=True, kw_only=True):
    """Marks fields that clients neither create nor update.

    Attributes:
        field: the name, or ``*`` for all fields.
        optional: do nothing if the field is missing.
        sub_fields: also mark the fields of the field's schema, for every schema that uses that schema.
    """

    field: str
    optional: bool = False
    sub_fields: bool = False

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the fields. Raises `UsageError` if the field is missing."""
        if self.optional and self.field != "*" and self.field not in schema.resource_fields:
            return
        for name in list(schema.resource_fields) if self.field == "*" else [self.field]:
            field = check_field(name, schema)
            schema.resource_fields[name] = replace(field, create=False, update=False)
            target = TypeExpression.parse(field.type).target
            nested = schemas.schema(schema.version, target) if self.sub_fields and target else None
            if nested is not None:
                for inner, declared in nested.resource_fields.items():
                    nested.resource_fields[inner] = replace(declared, create=False, update=False)


class Required(BaseMapper, frozen=True, kw_only=True):
    """Marks fields that a create must set.

    Attributes:
        fields: the names.
    """

    fields: tuple[str, ...]

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Change the fields. Raises `UsageError` if one is missing."""
        for name in self.fields:
            schema.resource_fields[name] = replace(check_field(name, schema), required=True)
