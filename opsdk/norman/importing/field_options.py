"""Options of a field in an annotation.

Upstream: github.com/rancher/norman/types/reflection.go (applyTag)
"""

from __future__ import annotations

from msgspec.structs import replace

from opsdk.base.options import Options
from opsdk.errors import UsageError
from opsdk.norman.schema_parts import Field, FieldRules
from opsdk.norman.type_expression import TypeExpression

__all__ = ["FieldOptions"]


class FieldOptions(FieldRules, Options, frozen=True, kw_only=True):
    """Options of a field, as in ``Annotated[int, FieldOptions(min=1)]``. They match norman's struct tag.

    The others are `FieldRules`. A field with a default is not required. With `options`, the type is enum, unless `type`
    is set.

    >>> field = FieldOptions(min=1, no_update=True).applied_to(Field(type="int"))
    >>> field.min, field.update
    (1, False)

    Attributes:
        type: the type, see `opsdk.norman.type_expression`; empty for that of the annotation.
        not_nullable: null is not a value.
        no_create: a create must not set it.
        no_update: an update must not set it.
    """

    type: str = ""
    not_nullable: bool = False
    no_create: bool = False
    no_update: bool = False

    def applied_to(self, field: Field) -> Field:
        """Return a field with these options. Raises `UsageError` for mutually exclusive options."""
        if self.nullable and self.not_nullable:
            raise UsageError("nullable and not_nullable are mutually exclusive: remove one")
        if self.type:
            TypeExpression.parse(self.type)
        kind = self.type or ("enum" if self.options and not field.type.endswith("enum]") else field.type)
        defaults = FieldRules()
        changes = {
            name: value
            for name in FieldRules.__struct_fields__
            if (value := getattr(self, name)) != getattr(defaults, name)
        }
        changes["required"] = self.required or (field.required and self.default is None and not self.no_create)
        changes["nullable"] = (field.nullable or self.nullable) and not self.not_nullable
        return replace(
            field,
            type=kind,
            create=field.create and not self.no_create,
            update=field.update and not self.no_update,
            **changes,
        )
