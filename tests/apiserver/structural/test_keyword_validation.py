"""Allowed keywords of CRD schemas at each level, and the order of errors."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.apiserver.structural.schema_validation import check_structural
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject

STRING = {"type": "string"}
A = "s.properties[a]"
LIST, KEYS, MAP = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
RULES = "x-kubernetes-validations"
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
ITEM = {"type": "object", "properties": {"a": STRING, "b": {"type": "object"}}, "required": ["a"]}


def root(**properties: Any) -> JsonObject:
    """A whole schema."""
    return {"type": "object", "properties": properties}


def told(schema: JsonObject, *, has_status: bool = False) -> list[str]:
    """All that is wrong."""
    return [str(error) for error in check_structural(schema, FieldPath("s"), has_status=has_status)]


def listed(list_type: str, items: JsonObject | None, *keys: str) -> JsonObject:
    """A list with a type."""
    tree: JsonObject = {"type": "array", LIST: list_type, **({KEYS: list(keys)} if keys else {})}
    return tree if items is None else {**tree, "items": items}


SCALAR = f"must be a scalar type if parent array's {LIST} is map"
KEYED = f"this property is in {KEYS}, so it"
ATOMIC = f"must be atomic as item of a list with {LIST}=set"


@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        (listed("map", ITEM), [f"{KEYS}: Required value: must not be empty if {LIST} is map"]),
        (
            listed("map", ITEM, "a", "b", "b", "c"),
            [
                f'items.properties[b].type: Invalid value: "object": {SCALAR}',
                f'items.properties[b].type: Invalid value: "object": {SCALAR}',
                f'{KEYS}: Invalid value: ["a","b","b","c"]: must not contain duplicate entries',
                f'{KEYS}: Invalid value: ["a","b","b","c"]: entries must all be names of item properties',
                f"items.properties[b].default: Required value: {KEYED} must have a default or be a required property",
                f"items.properties[b].default: Required value: {KEYED} must have a default or be a required property",
            ],
        ),
        (
            listed("map", {**ITEM, "nullable": True}, "a"),
            [f"items.nullable: Forbidden: cannot be nullable when {LIST} is map"],
        ),
        (
            listed("map", STRING, "a"),
            [f'items.type: Invalid value: "string": must be object if parent array\'s {LIST} is map'],
        ),
        (
            listed("map", None, "a"),
            [
                "items: Required value: must be specified",
                f"items: Required value: must have a schema if {LIST} is map",
            ],
        ),
        (listed("set", None), ["items: Required value: must be specified"]),
        (listed("set", {"type": "object"}), [f"items.{MAP}: Invalid value: null: {ATOMIC}"]),
        (listed("set", {"type": "object", MAP: "granular"}), [f"items.{MAP}: Invalid value: null: {ATOMIC}"]),
        (listed("set", {"type": "array", "items": STRING}), []),
        (listed("set", listed("set", STRING)), [f'items.{LIST}: Invalid value: "set": {ATOMIC}']),
        (
            listed("set", {**STRING, "nullable": True}),
            [f"items.nullable: Forbidden: cannot be nullable when {LIST} is set"],
        ),
        (
            listed("foo", ITEM, "a"),
            [
                f'{LIST}: Unsupported value: "foo": supported values: "atomic", "set", "map"',
                f'{LIST}: Invalid value: "foo": must be map if {KEYS} is non-empty',
            ],
        ),
        ({**STRING, LIST: "set"}, [f'type: Invalid value: "string": must be array if {LIST} is specified']),
        ({"type": "object", MAP: ""}, [f'{MAP}: Unsupported value: "": supported values: "atomic", "granular"']),
        (
            {"type": "array", "items": STRING, KEYS: ["a"]},
            [f"{LIST}: Required value: must be map if {KEYS} is non-empty"],
        ),
        ({"type": "object", "properties": {"x": STRING}, "additionalProperties": True}, []),
        (
            {"type": "object", "properties": {"x": STRING}, "additionalProperties": False},
            ["additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        ({**STRING, "pattern": "("}, [r'pattern: Invalid value: "(": %s missing closing ): `(`']),
        (
            {**STRING, "pattern": "\\"},
            [r'pattern: Invalid value: "\\": %s trailing backslash at end of expression: ``'],
        ),
        ({"type": "integer", "anyOf": [{"type": "integer"}, STRING]}, []),
        (
            {"type": "integer", "not": {"anyOf": [{"type": "integer"}, STRING]}},
            [f"not.anyOf[{index}].type: Forbidden: must be empty to be structural" for index in (0, 1)],
        ),
        (
            {"type": "object", "anyOf": [{"additionalProperties": {}}, {"additionalProperties": False}]},
            ["anyOf[0].additionalProperties: Forbidden: must be undefined to be structural"],
        ),
    ],
)
def test_what_a_level_may_say(schema: JsonObject, errors: list[str]) -> None:
    """Lists, maps, patterns and logic have their own rules."""
    regexp = "must be a valid regular expression, but isn't: error parsing regexp:"
    assert told(root(a=schema)) == [f"{A}.{error.replace('%s', regexp)}" for error in errors]


def test_structural_errors_come_before_keyword_errors() -> None:
    """Structural errors come first in alphabetical order, and then keyword errors level by level."""
    bad = {
        "type": "null",
        "uniqueItems": True,
        "x-kubernetes-int-or-string": True,
        "x-kubernetes-embedded-resource": True,
    }
    fields = [error.partition(": ")[0].removeprefix(f"{A}.") for error in told(root(a=bad))]
    embedded, types = "x-kubernetes-embedded-resource", "type"
    assert fields == ["properties", types, embedded, types, types, "uniqueItems"]


STRANGE = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")


@pytest.mark.parametrize("keyword", STRANGE)
def test_unsupported_keywords_hide_structural_errors(keyword: str) -> None:
    """A schema with an unsupported keyword gets no structural errors."""
    value: Any = {"x": STRING} if keyword.endswith("s") and keyword != "additionalItems" else "x"
    assert told(root(a={keyword: value})) == [f"{A}.{keyword}: Forbidden: {keyword} is not supported"]


def test_a_dialect_is_reported_last() -> None:
    """An unsupported ``$schema`` is reported without path, and only if there is no other error."""
    assert told(root(a={"$schema": "x"})) == ["s: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"]


@pytest.mark.parametrize("name", ["apiVersion", "kind"])
def test_server_set_fields_have_no_default(name: str) -> None:
    """Fields that the server sets have no default, at the top level and in embedded metadata."""
    assert told(root(**{name: {**STRING, "default": "x"}})) == [
        f"s.properties[{name}].default: Forbidden: must not be set in top-level {name}"
    ]
    labels = {
        "type": "object",
        "properties": {"labels": {"type": "object", "additionalProperties": {**STRING, "default": "x"}}},
    }
    (error,) = told(root(a={**EMBEDDED, "properties": {"metadata": labels}}))
    assert error.endswith("Forbidden: must not be set inside additionalProperties applying to object metadata")


def test_metadata_has_no_embedded_object() -> None:
    """An embedded object inside metadata is an error."""
    name = {"type": "object", "properties": {"a": EMBEDDED}}
    metadata = {"type": "object", "properties": {"name": name}}
    path = "s.properties[metadata].properties[name].properties[a].x-kubernetes-embedded-resource"
    assert told(root(metadata=metadata)) == [f"{path}: Forbidden: must not be used inside of resource meta"]


def test_rules_are_compiled_where_all_is_well() -> None:
    """A mistake keeps the rules of its level and of those around it from being looked at, and no others."""
    wrong = {"type": "array", "items": STRING, "uniqueItems": True, RULES: [{"rule": "self.c"}]}
    inner = {**STRING, RULES: [{"rule": "self.b"}]}
    outer = {"type": "object", "properties": {"b": inner, "c": wrong}, RULES: [{"rule": "self.a"}]}
    unique, rule = told(root(a=outer))
    assert unique.startswith(f"{A}.properties[c].uniqueItems: Forbidden")
    assert rule.startswith(f"{A}.properties[b].{RULES}[0].rule: Invalid value: ")


def test_without_structure_no_rule_is_compiled() -> None:
    """In a schema with structural errors, rules are not compiled, but their fields are validated."""
    rules = [{"rule": "self.x", "fieldPath": "bad"}]
    assert told(root(a={"type": "object", RULES: rules}, b={})) == [
        "s.properties[b].type: Required value: must not be empty for specified object fields",
        f'{A}.{RULES}[0].fieldPath: Invalid value: "bad": must be a valid path',
    ]


@pytest.mark.parametrize(
    ("schema", "start", "end"),
    [
        ({"type": "object", "minProperties": 0}, 's: Invalid value: {"ID":"","Schema":"","Ref":null,', "is enabled"),
        ({"type": "string", "enum": [1]}, 's.type: Invalid value: "string": only "object"', "is enabled"),
    ],
)
def test_with_a_status_little_is_said_of_the_whole(schema: JsonObject, start: str, end: str) -> None:
    """The status is looked at for itself, so the rest must not depend on it."""
    first = told(schema, has_status=True)[0]
    assert first.startswith(start)
    assert first.endswith(end)
    assert told(root(), has_status=True) == []


def test_a_schema_is_shown_with_every_field() -> None:
    """In the order of the server's own form."""
    schema = {**root(b={"type": "array", "items": STRING}), "not": {"additionalProperties": False}}
    message = told(schema, has_status=True)[0]
    assert '"Items":{"Schema":{"ID":"",' in message
    assert '"AdditionalProperties":{"Allows":false,"Schema":null}' in message
    assert '"XMapType":null,"XValidations":null}: only [Description Type Format' in message


@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        ({"x-kubernetes-int-or-string": True, "default": 1.5}, []),
        ({"type": "object", "additionalProperties": {**STRING, "default": 1}}, []),
        (
            {**EMBEDDED, "required": ["a"], "default": {}},
            ["default.apiVersion: Required value", "default.kind: Required value"],
        ),
        ({**EMBEDDED, "required": ["a"], "default": {"apiVersion": "v1", "kind": "K"}}, ["default.a: Required value"]),
    ],
)
def test_what_is_asked_of_defaults(schema: JsonObject, errors: list[str]) -> None:
    """Entries and integers-or-strings are not looked at; whole objects must say first what they are."""
    assert told(root(a=schema)) == [f"{A}.{error}" for error in errors]
