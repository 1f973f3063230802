"""The parts of a schema: versions, fields, actions and filters.

Upstream: github.com/rancher/norman/types/types.go
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from opsdk.structured_merge.value import JsonValue

__all__ = ["Action", "ApiVersion", "Field", "Filter", "Modifier", "Scope"]


class Modifier(Enum):
    """The comparison of a filter."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    NOT_IN = "notin"
    NULL = "null"
    NOT_NULL = "notnull"


class Scope(Enum):
    """The scope of the objects of a schema."""

    NAMESPACE = "namespace"
    CLUSTER = ""


class ApiVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A version of the API.

    Attributes:
        group: the API group; the URL does not show it.
        version: the name, such as ``v3``.
        path: the prefix of its URLs, such as ``/v3`` or ``/v3/clusters``.
        sub_context: the next segment of the URL is an id by which all schemas of the version are filtered.
        sub_context_schema: the full path of the schema of that id, such as ``/v3/schemas/cluster``.
    """

    group: str = ""
    version: str = ""
    path: str = ""
    sub_context: bool = False
    sub_context_schema: str = msgspec.field(default="", name="filterField")

    def full_type(self, schema_id: str) -> str:
        """Return the full path of a schema.

        >>> ApiVersion(version="v3", path="/v3").full_type("cluster")
        '/v3/schemas/cluster'
        """
        return f"{self.path}/schemas/{schema_id}"


@dataclass(slots=True, kw_only=True)
class SchemaNames:
    """The names of a schema in URLs.

    Attributes:
        id: the name in singular.
        version: the API version.
        plural_name: the name of its collection.
    """

    id: str
    version: ApiVersion
    plural_name: str = ""


class FieldRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a field and its options in an annotation have in common.

    Attributes:
        default: set on create where the body has no value; None for no default.
        nullable: null is a value.
        required: a create must set it.
        write_only: never returned.
        min_length: of a string, in characters.
        max_length: of a string, in characters.
        min: of a number.
        max: of a number.
        options: the strings that are allowed; empty for all.
        valid_chars: the characters that are allowed; empty for all.
        invalid_chars: the characters that are not allowed.
        code_name: the name in the class that the schema was imported from.
        pointer: absent and null differ from the zero value.
    """

    default: JsonValue = None
    nullable: bool = False
    required: bool = False
    write_only: bool = False
    min_length: int | None = None
    max_length: int | None = None
    min: int | None = None
    max: int | None = None
    options: tuple[str, ...] = ()
    valid_chars: str = ""
    invalid_chars: str = ""
    code_name: str = ""
    pointer: bool = False


class Field(FieldRules, frozen=True, kw_only=True):
    """A field of a schema, with its `FieldRules`.

    Attributes:
        type: see `opsdk.norman.type_expression`.
        create: a create may set it.
        update: an update may set it.
        description: one sentence for people.
        dynamic_field: embedded by another schema; removed with it.
    """

    type: str
    create: bool = True
    update: bool = True
    description: str = ""
    dynamic_field: bool = False


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action of a resource or collection.

    Attributes:
        input: the id of the schema of the body, or empty.
        output: the id of the schema of the result, or empty.
    """

    input: str = ""
    output: str = ""


class Filter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The modifiers that a collection accepts for a field."""

    modifiers: tuple[Modifier, ...] = (Modifier.EQ, Modifier.NE, Modifier.IN, Modifier.NOT_IN)
