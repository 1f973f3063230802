"""Fields that are computed by an expression."""

from __future__ import annotations

import pytest

from opsdk.errors import UsageError
from opsdk.norman.mappers.computed import FromCel
from opsdk.norman.schema_parts import Field
from opsdk.structured_merge.value import JsonObject, JsonValue
from tests.norman.mappers.kit import NO_SCHEMAS, inward, outward, schema, types


def mapper(expression: str, **fields: str) -> tuple[FromCel, str]:
    """Return a mapper of the field ``value``, and the type that it declares."""
    site = schema(**fields)
    result = FromCel(field="value", expression=expression)
    result.modify_schema(site, NO_SCHEMAS)
    field = site.resource_fields["value"]
    assert not field.create
    assert not field.update
    return result, field.type


@pytest.mark.parametrize(
    ("expression", "fields", "data", "kind", "value"),
    [
        ("a + 1", {"a": "int"}, {"a": 1}, "int", 2),
        ("a > 0.5", {"a": "float"}, {"a": 1}, "boolean", True),
        ("name.upperAscii()", {"name": "string"}, {"name": "a"}, "string", "A"),
        ("ports.map(p, string(p))", {"ports": "array[int]"}, {"ports": [1, 2]}, "array[string]", ["1", "2"]),
        ("labels", {"labels": "map[string]"}, {"labels": {"a": "b"}}, "map[string]", {"a": "b"}),
        ("self.namespace", {"namespace": "string"}, {"namespace": "x"}, "json", "x"),
        ("has(self.b) ? 1 : 0", {"b": "int"}, {}, "int", 0),
        (
            "timestamp(created)",
            {"created": "date"},
            {"created": "2026-01-01T00:00:00Z"},
            "date",
            "2026-01-01T00:00:00Z",
        ),
        ("spec.size", {"spec": "json"}, {"spec": {"size": 9007199254740993}}, "json", 9007199254740993),
        ("quantity(memory).asInteger()", {"memory": "string"}, {"memory": "1Ki"}, "int", 1024),
    ],
)
def test_a_value_is_computed_outward(
    expression: str, fields: dict[str, str], data: JsonObject, kind: str, value: JsonValue
) -> None:
    """The field has the type of the expression; inward it is removed."""
    computed, declared = mapper(expression, **fields)
    assert declared == kind
    external = outward(computed, data)
    assert external == {**data, "value": value}
    assert inward(computed, external) == data


def test_an_expression_without_value_gives_no_field() -> None:
    """An absent field, a failed conversion and a value without JSON form leave the field away."""
    for expression in ("a + 1", "int(self.text)", "type(self)"):
        computed, _ = mapper(expression, a="int")
        assert outward(computed, {"text": "x"}) == {"text": "x"}


@pytest.mark.parametrize("expression", ["a + missing", "a +", "a + 'text'"])
def test_a_compile_error_has_a_position(expression: str) -> None:
    """An unknown field, a syntax error and types that do not fit are errors at the schema, with line and column."""
    with pytest.raises(UsageError, match=r"value on site does not compile: ERROR: <input>:1:\d+"):
        mapper(expression, a="int")


def test_the_field_must_be_new_and_a_type_may_be_given() -> None:
    """An existing field of that name is an error; `type` replaces the type of the expression."""
    with pytest.raises(UsageError, match="value already exists"):
        mapper("1", value="int")
    site = schema()
    FromCel(field="value", expression="'a'", type="enum", description="A state.").modify_schema(site, NO_SCHEMAS)
    assert types(site) == {"value": "enum"}
    assert site.resource_fields["value"].description == "A state."


def test_null_is_allowed_where_the_field_is_nullable() -> None:
    """A nullable field may be compared with null."""
    site = schema()
    site.resource_fields["a"] = Field(type="string", nullable=True)
    computed = FromCel(field="value", expression="a == null")
    computed.modify_schema(site, NO_SCHEMAS)
    assert outward(computed, {"a": None})["value"] is True
