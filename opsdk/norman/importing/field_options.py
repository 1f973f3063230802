"""Options of a field in an annotation.

Upstream: github.com/rancher/norman/types/reflection.go (applyTag)
"""

from __future__ import annotations

from msgspec.structs import replace

from opsdk.base.options import Options
from opsdk.errors import UsageError
from opsdk.norman.schema_parts import Field
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonValue

__all__ = ["FieldOptions"]


class FieldOptions(Options, frozen=True, kw_only=True):
    """Options of a field, as in ``Annotated[int, FieldOptions(min=1)]``. They match norman's struct tag.

    >>> FieldOptions(min=1, no_update=True).applied_to(Field(type="int"))
    Field(type='int', default=None, nullable=False, create=True, update=False, required=False, write_only=False, \
min_length=None, max_length=None, min=1, max=None, options=(), valid_chars='', invalid_chars='', description='', \
code_name='', dynamic_field=False, pointer=False)

    Attributes:
        type: the type, see `opsdk.norman.type_expression`; empty for that of the annotation.
        code_name: the name in code; by default the attribute.
        default: set on create if the body has no value; by default the default of the class. Such a field is not
            required.
        nullable: null is a value.
        not_nullable: null is not a value.
        no_create: a create must not set it.
        no_update: an update must not set it.
        write_only: never returned.
        required: a create must set it.
        min_length: of a string, in characters.
        max_length: of a string, in characters.
        min: of a number.
        max: of a number.
        options: the strings that are allowed; the type is then enum, unless `type` is set.
        valid_chars: the characters that are allowed; empty for all.
        invalid_chars: the characters that are not allowed.
        pointer: absent and null differ from the zero value.
    """

    type: str = ""
    code_name: str = ""
    default: JsonValue = None
    nullable: bool = False
    not_nullable: bool = False
    no_create: bool = False
    no_update: bool = False
    write_only: bool = False
    required: bool = False
    min_length: int | None = None
    max_length: int | None = None
    min: int | None = None
    max: int | None = None
    options: tuple[str, ...] = ()
    valid_chars: str = ""
    invalid_chars: str = ""
    pointer: bool = False

    def applied_to(self, field: Field) -> Field:
        """Return a field with these options. Raises `UsageError` for mutually exclusive options."""
        if self.nullable and self.not_nullable:
            raise UsageError("nullable and not_nullable are mutually exclusive: remove one")
        if self.type:
            TypeExpression.parse(self.type)
        kind = self.type or ("enum" if self.options and not field.type.endswith("enum]") else field.type)
        changes: dict[str, JsonValue] = {
            name: value
            for name in ("min_length", "max_length", "min", "max")
            if (value := getattr(self, name)) is not None
        }
        changes |= {
            name: value
            for name in ("code_name", "options", "valid_chars", "invalid_chars", "write_only", "pointer")
            if (value := getattr(self, name))
        }
        required = field.required and self.default is None and not self.no_create
        return replace(
            field,
            type=kind,
            default=field.default if self.default is None else self.default,
            nullable=(field.nullable or self.nullable) and not self.not_nullable,
            create=field.create and not self.no_create,
            update=field.update and not self.no_update,
            required=required or self.required,
            **changes,
        )
