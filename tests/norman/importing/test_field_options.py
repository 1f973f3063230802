"""Options of fields."""

from __future__ import annotations

import pytest

from opsdk.errors import UsageError
from opsdk.norman.importing.field_options import FieldOptions
from opsdk.norman.schema_parts import Field

FIELD = Field(type="string", required=True, code_name="name")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (FieldOptions(), FIELD),
        (FieldOptions(type="password"), Field(type="password", required=True, code_name="name")),
        (FieldOptions(code_name="Other"), Field(type="string", required=True, code_name="Other")),
        (FieldOptions(default="x"), Field(type="string", default="x", code_name="name")),
        (FieldOptions(nullable=True), Field(type="string", nullable=True, required=True, code_name="name")),
        (FieldOptions(no_create=True), Field(type="string", create=False, code_name="name")),
        (FieldOptions(no_update=True), Field(type="string", update=False, required=True, code_name="name")),
        (FieldOptions(write_only=True), Field(type="string", write_only=True, required=True, code_name="name")),
        (FieldOptions(required=True, default="x"), Field(type="string", default="x", required=True, code_name="name")),
        (FieldOptions(min_length=1), Field(type="string", min_length=1, required=True, code_name="name")),
        (FieldOptions(max_length=9), Field(type="string", max_length=9, required=True, code_name="name")),
        (FieldOptions(min=0), Field(type="string", min=0, required=True, code_name="name")),
        (FieldOptions(max=9), Field(type="string", max=9, required=True, code_name="name")),
        (FieldOptions(options=("a",)), Field(type="enum", options=("a",), required=True, code_name="name")),
        (
            FieldOptions(options=("a",), type="string"),
            Field(type="string", options=("a",), required=True, code_name="name"),
        ),
        (FieldOptions(valid_chars="ab"), Field(type="string", valid_chars="ab", required=True, code_name="name")),
        (FieldOptions(invalid_chars="/"), Field(type="string", invalid_chars="/", required=True, code_name="name")),
        (FieldOptions(pointer=True), Field(type="string", pointer=True, required=True, code_name="name")),
    ],
)
def test_each_option(options: FieldOptions, expected: Field) -> None:
    """Each option changes only its part of the field."""
    assert options.applied_to(FIELD) == expected


def test_not_nullable() -> None:
    """The option not_nullable removes null from the values, and excludes nullable."""
    assert not FieldOptions(not_nullable=True).applied_to(Field(type="int", nullable=True)).nullable
    with pytest.raises(UsageError, match="mutually exclusive"):
        FieldOptions(not_nullable=True, nullable=True).applied_to(FIELD)
    with pytest.raises(UsageError, match="does not parse"):
        FieldOptions(type="array[").applied_to(FIELD)
