"""Validation of numbers: ranges, multiples, bounds, and floats that count as integers."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.apiserver.structural.numbers import in_range, is_integral
from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.structured_merge.value import JsonObject

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
EITHER = {"x-kubernetes-int-or-string": True}


def told(schema: JsonObject, value: Any) -> list[str]:
    """Return the errors of a field ``x``."""
    result = StructuralSchema({"type": "object", "properties": {"x": schema}}).validate({"x": value})
    return [str(error).removeprefix("x: Invalid value: ").removeprefix("<nil>: Invalid value: ") for error in result]


def bad(what: str, kind: str = "integer", form: str = "(default format)") -> str:
    """A number that does not fit its type."""
    return f'"": {what} value must be of type {kind} {form} in x'


def typed(found: str, wanted: str) -> str:
    """A value of another type."""
    return f'"{found}": x in body must be of type {wanted}: "{found}"'


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        ({**INTEGER, "minimum": 1.5}, 2, [bad("Minimum boundary")]),
        (
            {**INTEGER, "minimum": 1.5},
            1,
            [bad("Minimum boundary"), "1: x in body should be greater than or equal to 1.5"],
        ),
        (
            {**INTEGER, "format": "int32", "maximum": 3_000_000_000},
            4_000_000_000,
            [
                bad("Checked", form="with format int32"),
                bad("Maximum boundary", form="with format int32"),
                "4e+09: x in body should be less than or equal to 3e+09",
            ],
        ),
        ({**INTEGER, "multipleOf": 1.5}, 3, [bad("MultipleOf")]),
        ({**INTEGER, "multipleOf": 0}, 3, ["0: factor MultipleOf declared for x must be positive: 0"]),
        ({**INTEGER, "multipleOf": -2}, 4, ["-2: factor MultipleOf declared for x must be positive: -2"]),
        ({**NUMBER, "multipleOf": 0.1}, 3, ["0: factor MultipleOf declared for x must be positive: 0"]),
        ({**NUMBER, "multipleOf": 0.1}, 0.3, []),
        ({**NUMBER, "multipleOf": 1.5}, 2.5, ["2.5: x in body should be a multiple of 1.5"]),
        ({**NUMBER, "multipleOf": 5}, 3.4e39, ["3.4e+39: x in body should be a multiple of 5"]),
        ({**NUMBER, "minimum": 2.5, "exclusiveMinimum": True}, 2, ["2: x in body should be greater than 2"]),
        ({**NUMBER, "maximum": 2.5}, 2.75, ["2.75: x in body should be less than or equal to 2.5"]),
        ({**NUMBER, "format": "float"}, 4e38, [bad("Checked", "number", "with format float")]),
        (INTEGER, 3.0, []),
        (INTEGER, 3.0000000001, [bad("Checked")]),
        (INTEGER, 1.5, [typed("number", "integer"), bad("Checked")]),
        ({**INTEGER, "format": "int64"}, 1.5, [typed("float64", "int64"), bad("Checked", form="with format int64")]),
        ({**INTEGER, "format": "uint32"}, -1, []),
        ({"type": "string"}, 7.0, [typed("number", "string")]),
        ({"type": "string", "format": "int64"}, 7, [typed("integer", "string")]),
        ({**EITHER, "format": "int64"}, 1.5, [typed("number", "integer,string")]),
        ({**EITHER, "format": "ipv4"}, "a", [typed("a", "ipv4")]),
    ],
)
def test_bounds_of_numbers(schema: JsonObject, value: Any, errors: list[str]) -> None:
    """Bounds must fit the type as values must; integers are compared with the whole part of a bound."""
    assert told(schema, value) == errors


@pytest.mark.parametrize(
    ("value", "whole"),
    [(3.0, True), (3.0000000001, True), (2.9999999999, False), (2.9, False), (0.1, False), (2.0**53, False)],
)
def test_floats_that_are_as_good_as_integers(value: float, *, whole: bool) -> None:
    """Steps like 0.1 have no exact form, so a little is forgiven."""
    assert is_integral(value) is whole


@pytest.mark.parametrize(
    ("value", "kind", "form", "fits"),
    [
        (2**31, "integer", "int32", False),
        (2**31 - 1, "integer", "int32", True),
        (2**63, "integer", "", False),
        (-1, "integer", "uint32", False),
        (1e308, "number", "double", True),
        (1e39, "number", "float", False),
        (1e308, "", "", True),
    ],
)
def test_ranges_of_formats(value: float, kind: str, form: str, *, fits: bool) -> None:
    """A format without a type limits no range."""
    assert in_range(value, kind, form) is fits


def test_an_error_is_reported_once() -> None:
    """However many alternatives find it."""
    short = {"maxLength": 1}
    errors = told({"type": "string", "maxLength": 1, "allOf": [short, short]}, "ab")
    assert errors == [
        "x: Too long: may not be more than 1 byte",
        '"": "x" must validate all the schemas (allOf). None validated',
    ]


def test_too_many_fields_are_looked_at_all_the_same() -> None:
    """The number of entries is one thing, the entries are another."""
    schema = {"type": "object", "maxProperties": 0, "required": ["b"], "properties": {"a": INTEGER}}
    assert told(schema, {"a": "1"}) == [
        "x: Too many: 1: must have at most 0 items",
        'x.a: Invalid value: "string": x.a in body must be of type integer: "string"',
        "x.b: Required value",
    ]


def test_the_alternative_with_most_checks_is_reported() -> None:
    """Of several failed alternatives, the one with most checks is reported."""
    last = {"not": {}, "oneOf": [{"maxLength": 3}, {"minLength": 9}]}
    schema = {"type": "string", "anyOf": [{"pattern": "z"}, {"enum": ["b"]}, last]}
    assert told(schema, "a")[1:] == ['"": "x" must not validate the schema (not)']


@pytest.mark.parametrize(
    ("items", "errors"),
    [
        ([{"k": "a"}, 5, {"k": "a"}], ["x[1]: Invalid value: 5: must be an object for an array of list-type map"]),
        ([None, None], ["x[1]: Duplicate value: {}"]),
    ],
)
def test_maps_are_made_of_objects(items: list[Any], errors: list[str]) -> None:
    """The first element that is not an object ends the search for duplicates; null counts as an object without keys."""
    item = {"type": "object", "properties": {"k": {"type": "string"}}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    schema = StructuralSchema({"type": "object", "properties": {"x": keyed}})
    assert [str(error) for error in schema.check_lists({"x": items})] == errors
