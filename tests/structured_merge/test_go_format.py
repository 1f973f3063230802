"""Values as Go prints them."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.structured_merge.go_format import go_json, go_quote, go_syntax, go_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, "x y"], "a": None}, "map[a:<nil> b:[1 x y]]"),
        ({}, "map[]"),
        (True, "true"),
        (1.0, "1"),
        (0.25, "0.25"),
        (1e21, "1e+21"),
        (1.5e-7, "1.5e-07"),
        (123456789.125, "1.23456789125e+08"),
        (-0.0, "-0"),
        (2**63, "9223372036854775808"),
    ],
)
def test_values_are_printed_like_percent_v(value: Any, text: str) -> None:
    """Values are printed as Go's ``%v`` prints them."""
    assert go_value(value) == text


def test_strings_are_quoted_like_percent_q() -> None:
    """Strings are quoted as Go's ``%q`` quotes them."""
    assert go_quote('a"b\\\n\x01é\u200b') == '"a\\"b\\\\\\n\\x01é\\u200b"'


def test_values_are_written_like_percent_sharp_v() -> None:
    """Values are written as Go's ``%#v`` writes them."""
    assert go_syntax({"a": [1, "x"], "b": {}}) == (
        'map[string]interface {}{"a":[]interface {}{1, "x"}, "b":map[string]interface {}{}}'
    )


def test_json_is_written_like_json_marshal() -> None:
    """JSON is written as Go's ``json.Marshal`` writes it."""
    assert go_json({"b": 1.0, "a": ["<&>", None, 1.5]}) == '{"a":["\\u003c\\u0026\\u003e",null,1.5],"b":1}'
