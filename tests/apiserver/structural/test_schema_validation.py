"""Validation of the schemas of CRDs."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.apiserver.structural.schema_validation import check_structural
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject

STRING = {"type": "string"}
P = "s.properties[spec]"
PA = f"{P}.properties[a]"
SUPPORTED = '"array", "boolean", "integer", "number", "object", "string"'
UNIQUE = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
KEYS = "x-kubernetes-list-map-keys"
METADATA = "must not specify anything other than name and generateName, but metadata is implicitly specified"


def root(**properties: Any) -> JsonObject:
    """A whole schema."""
    return {"type": "object", "properties": properties}


def field(a: JsonObject, **more: Any) -> JsonObject:
    """A schema with one field below spec."""
    return root(spec={"type": "object", "properties": {"a": a}, **more})


def keyed(items: JsonObject, *keys: str) -> JsonObject:
    """A schema with a keyed list below spec."""
    kind = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return field({**kind, "items": items})


ITEM = {"type": "object", "properties": {"k": STRING}, "required": ["k"]}


@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        ({}, ["s.type: Required value: must not be empty at the root"]),
        (STRING, ['s.type: Invalid value: "string": must be object at the root']),
        (field({}), [f"{PA}.type: Required value: must not be empty for specified object fields"]),
        (
            field({"type": "array", "items": {}}),
            [f"{PA}.items.type: Required value: must not be empty for specified array items"],
        ),
        (field({"type": "array"}), [f"{PA}.items: Required value: must be specified"]),
        (field({"type": "unicorn"}), [f'{PA}.type: Unsupported value: "unicorn": supported values: {SUPPORTED}']),
        (field({"$ref": "#/x"}), [f"{PA}.$ref: Forbidden: $ref is not supported"]),
        (
            field({"type": "array", "items": [STRING]}),
            [f"{PA}.items: Forbidden: items must be a schema object and not an array"],
        ),
        (
            field({"type": "array", "items": STRING, "uniqueItems": True}),
            [f"{PA}.uniqueItems: Forbidden: {UNIQUE}"],
        ),
        (
            field(STRING, additionalProperties=STRING),
            [f"{P}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (field({"type": "object", "additionalProperties": False}), []),
        (
            {"type": "object", "additionalProperties": True},
            ["s.additionalProperties: Forbidden: must not be used at the root"],
        ),
        ({**field(STRING), "nullable": True}, ["s.nullable: Forbidden: nullable cannot be true at the root"]),
        (
            field(STRING, anyOf=[{"properties": {"a": STRING}}, {"description": "x"}]),
            [
                f"{P}.anyOf[0].properties[a].type: Forbidden: must be empty to be structural",
                f"{P}.anyOf[1].description: Forbidden: must be empty to be structural",
            ],
        ),
        (
            field(STRING, **{"not": {"default": "x"}}),
            [f"{P}.not.default: Forbidden: must be undefined to be structural"],
        ),
        (
            {**field(STRING), "anyOf": [{"properties": {"b": {"minLength": 1}}}]},
            ["s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]"],
        ),
        (field(STRING, anyOf=[{"properties": {"b": {"minLength": 1}}}]), []),
        (root(metadata={"type": "object", "required": ["name"]}), [f"s.properties[metadata]: Forbidden: {METADATA}"]),
        (
            root(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
            [f"s.properties[metadata]: Forbidden: {METADATA}"],
        ),
        (root(metadata={"type": "object", "properties": {"name": {**STRING, "pattern": "^a"}}}), []),
        (field({"x-kubernetes-preserve-unknown-fields": True}), []),
        (field({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, STRING]}), []),
        (
            field({**STRING, "x-kubernetes-list-type": "set"}),
            [
                f'{PA}.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
            ],
        ),
        (keyed(ITEM, "k"), []),
        (
            keyed(ITEM),
            [f"{PA}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
        ),
        (
            keyed(ITEM, "z"),
            [f'{PA}.x-kubernetes-list-map-keys: Invalid value: ["z"]: entries must all be names of item properties'],
        ),
        (
            keyed({"type": "object", "properties": {"k": STRING}}, "k"),
            [
                (
                    f"{PA}.items.properties[k].default: Required value: this property is in {KEYS}, "
                    "so it must have a default or be a required property"
                )
            ],
        ),
        (
            field({**STRING, "default": 5}),
            [f'{PA}.default: Invalid value: "integer":  in body must be of type string: "integer"'],
        ),
        (
            field({**STRING, "enum": ["x"], "default": "y"}),
            [f'{PA}.default: Unsupported value: "y": supported values: "x"'],
        ),
        (
            field({"type": "object", "properties": {"x": STRING}, "default": {"y": 2}}),
            [f'{PA}.default: Invalid value: {{"y":2}}: must not have unknown fields'],
        ),
        (
            field(
                {
                    "type": "object",
                    "properties": {"x": {"type": "integer", "default": 2}},
                    "required": ["x"],
                    "default": {},
                }
            ),
            [f"{PA}.default.x: Required value"],
        ),
        (
            field({"type": "array", "items": STRING, "default": ["a", 1]}),
            [f'{PA}.default.[1]: Invalid value: "integer": [1] in body must be of type string: "integer"'],
        ),
        (
            root(metadata={"type": "object", "properties": {"name": {**STRING, "default": "x"}}}),
            ["s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata"],
        ),
        (
            {**field(STRING), "default": {"spec": {}}},
            ["s.default.apiVersion: Required value", "s.default.kind: Required value"],
        ),
        (field({**STRING, "default": None}), []),
    ],
)
def test_schema_errors_name_the_field(schema: JsonObject, errors: list[str]) -> None:
    """Each violation is an error at its path, with upstream's text."""
    assert [str(error) for error in check_structural(schema, FieldPath("s"))] == errors


def test_a_pattern_must_compile() -> None:
    """A pattern that RE2 rejects is an error with the reason."""
    (error,) = check_structural(field({**STRING, "pattern": "("}), FieldPath("s"))
    assert str(error).startswith(f'{PA}.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: ')
