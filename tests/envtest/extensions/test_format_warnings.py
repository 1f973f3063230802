"""Warnings about unknown formats in schemas."""

from __future__ import annotations

from envtest.extensions.format_warnings import format_warnings
from opsdk.structured_merge.value import JsonObject


def definition(schema: JsonObject) -> JsonObject:
    """One with a version of this schema, and one without any."""
    return {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}, {}]}}


GOOD = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "format": "date-time"},
        "b": {"type": "integer", "format": "int64"},
        "c": {"type": "number", "format": "double"},
    },
}
ODD = {"type": "array", "format": "cidr", "items": {"type": "string", "format": "mine"}}


def test_unknown_formats_warn_once() -> None:
    """A new unknown format gives a warning; formats of the old definition give none."""
    assert format_warnings(definition(GOOD), None) == []
    created = definition({**GOOD, "additionalProperties": {"type": "object", "properties": {"x": ODD, "y": ODD}}})
    assert format_warnings(created, None) == ['unrecognized format "cidr"', 'unrecognized format "mine"']
    assert format_warnings(created, created) == []
    assert format_warnings(created, definition(GOOD)) == ['unrecognized format "cidr"', 'unrecognized format "mine"']
