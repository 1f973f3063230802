"""Structural schemas at work: pruning, defaulting, validating."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.structural.schema import RULES_SKIPPED, StructuralSchema
from opsdk.structured_merge.value import JsonObject


def spec(**properties: Any) -> StructuralSchema:
    """A schema whose spec has these properties."""
    return of({"type": "object", "properties": properties})


def of(schema: JsonObject, **options: Any) -> StructuralSchema:
    """A schema whose spec is this."""
    return StructuralSchema({"type": "object", "properties": {"spec": schema}}, **options)


def texts(schema: StructuralSchema, value: Any, old: Any = None) -> list[str]:
    """The errors of a spec, readable."""
    return [str(error) for error in schema.validate({"spec": value}, None if old is None else {"spec": old})]


INTEGER, STRING = {"type": "integer"}, {"type": "string"}
SUB = {"type": "object", "properties": {"id": INTEGER}}
FREE = spec(
    a=STRING,
    free={"type": "object", "additionalProperties": STRING},
    any={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": SUB}},
    raw={"x-kubernetes-preserve-unknown-fields": True},
    list={"type": "array", "items": SUB},
    map={"type": "object", "additionalProperties": SUB},
    open={"type": "object", "additionalProperties": True},
    closed={"type": "object"},
    embedded={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": SUB}},
)


# ------------------------------------------------------------------ pruning
@pytest.mark.parametrize(
    ("value", "kept", "unknown"),
    [
        ({"a": "x", "z": 1}, {"a": "x"}, ["spec.z"]),
        ({"free": {"k": "v"}}, {"free": {"k": "v"}}, []),
        (
            {"any": {"known": {"id": 1, "y": 2}, "more": {"x": 1}}},
            {"any": {"known": {"id": 1}, "more": {"x": 1}}},
            ["spec.any.known.y"],
        ),
        ({"raw": [1, {"a": None}]}, {"raw": [1, {"a": None}]}, []),
        ({"list": [{"id": 1}, {"bad": 1}]}, {"list": [{"id": 1}, {}]}, ["spec.list[1].bad"]),
        ({"map": {"k": {"bad": 1}}}, {"map": {"k": {}}}, ["spec.map.k.bad"]),
        ({"open": {"q": {"r": 1}, "s": 1}}, {"open": {"q": {}, "s": 1}}, ["spec.open.q.r"]),
        ({"closed": {"s": 1}}, {"closed": {}}, ["spec.closed.s"]),
        (
            {"embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "bad": 1}, "other": 1}},
            {"embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}}},
            ["spec.embedded.metadata.bad", "spec.embedded.other"],
        ),
    ],
)
def test_unknown_fields_are_dropped_and_named(value: JsonObject, kept: JsonObject, unknown: list[str]) -> None:
    """Unknown fields are dropped and reported unless the schema preserves them."""
    before = copy.deepcopy(value)
    assert FREE.prune({"spec": value}) == ({"spec": kept}, unknown)
    assert value == before


def test_an_object_keeps_its_identity() -> None:
    """The fields apiVersion, kind and metadata need no schema and are kept."""
    whole = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "managedFields": [{"manager": "m"}]}}
    assert FREE.prune(whole) == (whole, [])


# ------------------------------------------------------------------ defaulting
DEFAULTS = spec(
    mode={**STRING, "default": "auto"},
    on={"type": "boolean", "default": False},
    deep={"type": "object", "default": {}, "properties": {"level": {**INTEGER, "default": 1}}},
    list={"type": "array", "items": {"type": "object", "properties": {"port": {**INTEGER, "default": 80}}}},
    map={"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {**INTEGER, "default": 7}}}},
    plain=STRING,
    maybe={**STRING, "nullable": True},
    maybe_default={**STRING, "nullable": True, "default": "d"},
)
BASE = {"mode": "auto", "on": False, "deep": {"level": 1}, "maybe_default": "d"}


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ({}, {}),
        ({"mode": ""}, {"mode": ""}),
        ({"mode": None}, {}),
        ({"list": [{}, {"port": 1}]}, {"list": [{"port": 80}, {"port": 1}]}),
        ({"map": {"k": {}}}, {"map": {"k": {"v": 7}}}),
        ({"deep": {"level": 5}}, {"deep": {"level": 5}}),
        ({"plain": None, "map": {"k": None}}, {"map": {}}),
        ({"maybe": None, "maybe_default": None}, {"maybe": None, "maybe_default": None}),
    ],
)
def test_absent_fields_get_their_defaults(value: JsonObject, filled: JsonObject) -> None:
    """A null counts as absent if null is not allowed, and gets the default."""
    before = copy.deepcopy(value)
    assert DEFAULTS.default({"spec": value}) == {"spec": {**BASE, **filled}}
    assert value == before


def test_defaults_are_not_shared() -> None:
    """Changing a defaulted object changes no other."""
    DEFAULTS.default({"spec": {}})["spec"]["deep"]["level"] = 9
    assert DEFAULTS.default({"spec": {}})["spec"] == BASE


def test_absent_objects_are_not_made() -> None:
    """Defaults below an absent object apply only once the object exists."""
    assert DEFAULTS.default({}) == {}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda below: (
        st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(["a", "list", "map", "id", "any"]), below)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_pruning_and_defaulting_are_idempotent(value: Any) -> None:
    """Pruning or defaulting twice changes nothing more."""
    for schema in (FREE, DEFAULTS):
        pruned, _ = schema.prune({"spec": value})
        assert schema.prune(pruned) == (pruned, [])
        filled = schema.default(pruned)
        assert schema.default(filled) == filled


# ------------------------------------------------------------------ validating
@pytest.mark.parametrize(
    ("schema", "value", "error"),
    [
        (STRING, 1, 'Invalid value: "integer": spec.x in body must be of type string: "integer"'),
        (INTEGER, "1", 'Invalid value: "string": spec.x in body must be of type integer: "string"'),
        ({"type": "boolean"}, 1, 'Invalid value: "integer": spec.x in body must be of type boolean: "integer"'),
        ({"type": "object"}, [], 'Invalid value: "array": spec.x in body must be of type object: "array"'),
        ({"type": "number"}, 1, None),
        (INTEGER, 1.0, None),
        ({"x-kubernetes-int-or-string": True}, 1, None),
        ({"x-kubernetes-int-or-string": True}, "1", None),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"',
        ),
        ({**STRING, "nullable": True}, None, None),
        (STRING, None, 'Invalid value: "null": spec.x in body must be of type string: "null"'),
        ({**STRING, "enum": ["A", "B"]}, "C", 'Unsupported value: "C": supported values: "A", "B"'),
        ({**INTEGER, "enum": [1, 2]}, 3, 'Unsupported value: 3: supported values: "1", "2"'),
        ({**INTEGER, "minimum": 1}, 0, "Invalid value: 0: spec.x in body should be greater than or equal to 1"),
        ({**INTEGER, "maximum": 1}, 2, "Invalid value: 2: spec.x in body should be less than or equal to 1"),
        (
            {**INTEGER, "minimum": 1, "exclusiveMinimum": True},
            1,
            "Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            {**INTEGER, "maximum": 5, "exclusiveMaximum": True},
            5,
            "Invalid value: 5: spec.x in body should be less than 5",
        ),
        ({"type": "number", "maximum": 2.5}, 3, "Invalid value: 3: spec.x in body should be less than or equal to 2"),
        (
            {"type": "number", "minimum": 0.5},
            0.25,
            "Invalid value: 0.25: spec.x in body should be greater than or equal to 0.5",
        ),
        ({**INTEGER, "multipleOf": 5}, 7, "Invalid value: 7: spec.x in body should be a multiple of 5"),
        ({**STRING, "minLength": 2}, "a", 'Invalid value: "a": spec.x in body should be at least 2 chars long'),
        ({**STRING, "maxLength": 4}, "abcde", "Too long: may not be more than 4 bytes"),
        ({**STRING, "maxLength": 4}, "äöüß", None),
        (
            {**STRING, "pattern": "^[a-z]+$"},
            "low\n",
            "Invalid value: \"low\\n\": spec.x in body should match '^[a-z]+$'",
        ),
        (
            {"type": "array", "items": INTEGER, "minItems": 1},
            [],
            "Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        ({"type": "array", "items": INTEGER, "maxItems": 1}, [1, 2], "Too many: 2: must have at most 1 item"),
        (
            {"type": "object", "minProperties": 1},
            {},
            "Invalid value: 0: spec.x in body should have at least 1 properties",
        ),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "Too many: 2: must have at most 1 item"),
        (
            {**STRING, "format": "date"},
            "2020-1-2",
            'Invalid value: "2020-1-2": spec.x in body must be of type date: "2020-1-2"',
        ),
        ({**STRING, "format": "no-such-format"}, "x", None),
    ],
)
def test_each_keyword_gives_one_error(schema: JsonObject, value: Any, error: str | None) -> None:
    """A violated keyword is one error with upstream's text at the field."""
    errors = texts(spec(x=schema), {"x": value})
    assert errors == ([] if error is None else [f"spec.x: {error}"])


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        (
            INTEGER,
            1.5,
            [
                'spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x',
            ],
        ),
        (
            {**INTEGER, "format": "int32"},
            2**31,
            ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x'],
        ),
        (
            {**INTEGER, "format": "int64"},
            2**63,
            [
                'spec.x: Invalid value: "float64": spec.x in body must be of type int64: "float64"',
                '<nil>: Invalid value: "": Checked value must be of type integer with format int64 in spec.x',
            ],
        ),
        (
            {"type": "number", "format": "float"},
            1e39,
            ['<nil>: Invalid value: "": Checked value must be of type number with format float in spec.x'],
        ),
    ],
)
def test_numbers_out_of_range(schema: JsonObject, value: Any, errors: list[str]) -> None:
    """The range of a number is checked separately from its type, and reported without a path."""
    assert texts(spec(x=schema), {"x": value}) == errors


LOGIC = of(
    {
        "type": "object",
        "properties": {"a": STRING, "b": INTEGER, "c": SUB},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "not": {"required": ["a", "c"]},
        "anyOf": [{"properties": {"b": {"minimum": 10}}}, {"properties": {"b": {"maximum": 5}}}],
        "allOf": [{"properties": {"a": {"maxLength": 3}}}],
    }
)
NONE = '<nil>: Invalid value: "": "spec" must'


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ({"a": "x"}, []),
        ({}, [f"{NONE} validate one and only one schema (oneOf). Found none valid", "spec.a: Required value"]),
        ({"a": "x", "b": 1}, [f"{NONE} validate one and only one schema (oneOf). Found 2 valid alternatives"]),
        (
            {"b": 7},
            [
                f"{NONE} validate at least one schema (anyOf)",
                "spec.b: Invalid value: 7: spec.b in body should be greater than or equal to 10",
            ],
        ),
        (
            {"a": "long"},
            [
                "spec.a: Too long: may not be more than 3 bytes",
                f"{NONE} validate all the schemas (allOf). None validated",
            ],
        ),
        ({"a": "x", "c": {}}, [f"{NONE} not validate the schema (not)"]),
    ],
)
def test_oneof_and_anyof_errors_include_the_closest_alternative(value: JsonObject, errors: list[str]) -> None:
    """An error of oneOf or anyOf comes with the errors of the alternative that matched best."""
    assert texts(LOGIC, value) == errors


def test_required_fields_come_after_the_errors_of_present_ones() -> None:
    """Errors of present fields come before those of missing fields."""
    schema = of({"type": "object", "required": ["r", "s"], "properties": {"r": STRING, "s": STRING, "a": INTEGER}})
    assert texts(schema, {"a": "x"}) == [
        'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"',
        "spec.r: Required value",
        "spec.s: Required value",
    ]


SETS = spec(
    tags={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    ports={
        "type": "array",
        "items": {"type": "object", "properties": {"port": INTEGER, "proto": STRING}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "proto"],
    },
)


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ({"tags": ["a", "b"]}, []),
        (
            {"tags": ["a", "a", "a", "b", "b"]},
            ['spec.tags[1]: Duplicate value: "a"', 'spec.tags[4]: Duplicate value: "b"'],
        ),
        (
            {"ports": [{"port": 1, "proto": "T"}, {"proto": "T", "port": 1}]},
            ['spec.ports[1]: Duplicate value: {"port":1,"proto":"T"}'],
        ),
        ({"ports": [{"port": 1}, {"port": 1, "proto": "T"}]}, []),
    ],
)
def test_lists_without_duplicates(value: JsonObject, errors: list[str]) -> None:
    """Each duplicate element is reported once."""
    assert texts(SETS, value) == errors


def test_old_duplicates_are_tolerated() -> None:
    """Duplicates that the old list had are tolerated."""
    old = {"tags": ["a", "a"]}
    assert texts(SETS, {"tags": ["a", "a", "b"]}, old) == []
    assert texts(SETS, {"tags": ["b", "b"]}, {"tags": ["a"]}) == ['spec.tags[1]: Duplicate value: "b"']


# ------------------------------------------------------------------ ratcheting
LOWER = {**STRING, "pattern": "^[a-z]*$"}
STRICT = spec(
    name=LOWER,
    other=LOWER,
    list={
        "type": "array",
        "items": {"type": "object", "properties": {"id": STRING, "v": LOWER}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id"],
    },
    plain={"type": "array", "items": LOWER},
    sub={"type": "object", "properties": {"a": LOWER, "b": STRING}, "required": ["b"]},
)
OLD: JsonObject = {
    "name": "Bad",
    "other": "o",
    "list": [{"id": "x", "v": "Bad"}],
    "plain": ["Bad"],
    "sub": {"a": "Bad"},
}


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({}, []),
        ({"other": "fine"}, []),
        ({"other": "WORSE"}, ["spec.other"]),
        ({"name": "Other"}, ["spec.name"]),
        ({"list": [{"id": "z", "v": "ok"}, {"id": "x", "v": "Bad"}]}, []),
        ({"list": [{"id": "x", "v": "New"}]}, ["spec.list[0].v"]),
        ({"plain": ["Bad", "ok"]}, ["spec.plain[0]"]),
        ({"sub": {"a": "good"}}, ["spec.sub.b"]),
    ],
)
def test_what_did_not_change_is_not_held_against_the_writer(change: JsonObject, fields: list[str]) -> None:
    """Errors of unchanged values are suppressed on update; elements without keys cannot be matched."""
    errors = STRICT.validate({"spec": {**OLD, **change}}, {"spec": OLD})
    assert [error.field for error in errors] == fields


# ------------------------------------------------------------------ rules
def test_rules_run_on_what_the_schema_promises() -> None:
    """Rules see the new and the old object; blocking errors skip them, with an error that reports it."""
    rule = {"rule": "self.a != 1 && self.a != 11", "message": "no ones"}
    schema = of({"type": "object", "properties": {"a": {**INTEGER, "maximum": 10}}, "x-kubernetes-validations": [rule]})
    assert texts(schema, {"a": 2}) == []
    assert texts(schema, {"a": 1}) == ["spec: Invalid value: no ones"]
    assert texts(schema, {"a": 11})[1:] == ["spec: Invalid value: no ones"]
    assert texts(schema, {"a": "x"})[1:] == [str(RULES_SKIPPED)]
    assert str(RULES_SKIPPED).startswith("<nil>: Invalid value: null: some validation rules were not checked")


def test_the_status_is_looked_at_for_itself() -> None:
    """Errors of a status are reported below the subresource; the unchanged rest has none."""
    number = {"type": "integer", "maximum": 3}
    one = {"oneOf": [{"required": ["a"]}]}
    schema = StructuralSchema(
        {
            "type": "object",
            "properties": {"spec": {**STRING}, "status": {"type": "object", "properties": {"x": number}, **one}},
        }
    )
    old = {"spec": 5}
    assert [str(error) for error in schema.validate_status({**old, "status": {"x": 5}}, old)] == [
        'status: Invalid value: "": "" must validate one and only one schema (oneOf). Found none valid',
        "status.a: Required value",
        "status.x: Invalid value: 5: x in body should be less than or equal to 3",
    ]
    assert schema.validate_status(old, old) == []


def test_elements_without_keys_are_never_ratcheted() -> None:
    """An element without its keys has no old value, so its errors are reported even if nothing changed."""
    items = {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}
    listed = {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    schema = StructuralSchema({"type": "object", "properties": {"l": listed, "n": {"type": "integer"}}})
    before = {"l": [{}], "n": "x"}
    assert [error.field for error in schema.validate({**before, "m": 1}, before)] == ["l[0].k"]
