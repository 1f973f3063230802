"""Validation of rules in definitions: errors, paths and messages."""

from __future__ import annotations

import pytest

from opsdk.apiserver.structural.schema_validation import check_structural
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject

INTEGER, STRING = {"type": "integer"}, {"type": "string"}
SPEC = "schema.properties[spec]"
HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
    " declared)"
)


REASONS = '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'


def obj(**properties: JsonObject) -> JsonObject:
    """The schema of an object."""
    return {"type": "object", "properties": properties}


def check(spec: JsonObject) -> list[str]:
    """Return the errors of a schema as text."""
    return [str(error) for error in check_structural(obj(spec=spec), FieldPath("schema"))]


def rule_of(rule: JsonObject, **properties: JsonObject) -> list[str]:
    """Return the errors of one rule on an object."""
    return check({**obj(**(properties or {"n": INTEGER, "s": STRING})), "x-kubernetes-validations": [rule]})


@pytest.mark.parametrize(
    ("rule", "field", "said"),
    [
        ({"rule": ""}, "rule", "Required value: rule is not specified"),
        ({"rule": "true", "message": " "}, "message", 'Invalid value: " ": must be non-empty if specified'),
        ({"rule": "true", "message": "a\nb"}, "message", 'Invalid value: "a\\nb": must not contain line breaks'),
        ({"rule": "true\n"}, "", ""),
        (
            {"rule": "true ||\nfalse"},
            "message",
            "Required value: message must be specified if rule contains line breaks",
        ),
        (
            {"rule": "true", "messageExpression": " "},
            "messageExpression",
            "Required value: messageExpression must be non-empty if specified",
        ),
        (
            {"rule": "true", "reason": "Why"},
            "reason",
            f'Unsupported value: "Why": supported values: {REASONS}',
        ),
        ({"rule": "true", "fieldPath": ".nope"}, "fieldPath", 'Invalid value: ".nope": must be a valid path'),
        ({"rule": "true", "fieldPath": "n"}, "fieldPath", 'Invalid value: "n": must be a valid path'),
        ({"rule": "true", "fieldPath": "['n"}, "fieldPath", 'Invalid value: "[\'n": must be a valid path'),
        ({"rule": "true", "fieldPath": "['n']"}, "", ""),
        (
            {"rule": "true", "optionalOldSelf": True},
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ],
)
def test_how_rules_are_written(rule: JsonObject, field: str, said: str) -> None:
    """Each entry of a rule has its own demands."""
    expected = [f"{SPEC}.x-kubernetes-validations[0].{field}: {said}"] if field else []
    assert rule_of(rule) == expected


def test_compile_errors_show_the_rule_and_the_place() -> None:
    """The whole entry is the offending value, as the server's own form of it looks."""
    (error,) = rule_of({"rule": "self.x > 1", "message": "m", "reason": "FieldValueInvalid", "fieldPath": ".n"})
    assert error == (
        f'{SPEC}.x-kubernetes-validations[0].rule: Invalid value: {{"Rule":"self.x \\u003e 1","Message":"m",'
        '"MessageExpression":"","Reason":"FieldValueInvalid","FieldPath":".n","OptionalOldSelf":null}: compilation '
        "failed: ERROR: <input>:1:5: undefined field 'x'\n | self.x > 1\n | ....^"
    )


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("self.n + 1", "cel expression must evaluate to a bool"),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("duration('x') > duration('1h')", "1:10: invalid duration argument"),
        ("self.s.matches('(')", "1:16: invalid matches argument"),
        ("[1, 'a'].size() == 2", "1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'}.size() == 2", "1:15: expected type 'int' but found 'string'"),
        ("self.n.contains('a')", "1:16: found no matching overload for 'contains' applied to 'int.(string)'"),
        ("self.n.all(x, true)", "1:5: expression of type 'int' cannot be range of a comprehension"),
        ("self.s == 1 && nope", "1:16: undeclared reference to 'nope' (in container '')"),
        ("has(self.s.x)", "1:4: type 'string' does not support field selection"),
        ("self.n == null", "found no matching overload for '_==_' applied to '(int, null)'"),
        ("Foo{a: 1} == 1", "1:4: undeclared reference to 'Foo' (in container '')"),
    ],
)
def test_rules_must_fit_the_schema(rule: str, said: str) -> None:
    """Rules are compiled with the schema's types, and errors have their positions."""
    (error,) = rule_of({"rule": rule})
    assert said in error


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("self.n", "messageExpression must evaluate to a string"),
        ("self.z", "messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'z'"),
    ],
)
def test_messages_must_be_strings(expression: str, said: str) -> None:
    """Message expressions are compiled too."""
    (error,) = rule_of({"rule": "true", "messageExpression": expression})
    assert f"{SPEC}.x-kubernetes-validations[0].messageExpression: Invalid value: {{" in error
    assert said in error


def test_old_values_need_a_place() -> None:
    """Inside lists without keys nothing can be found again."""
    inner = {**obj(n=INTEGER), "x-kubernetes-validations": [{"rule": "self.n == oldSelf.n"}]}
    path = f"{SPEC}.properties[l].items.x-kubernetes-validations[0].rule"
    (error,) = check(obj(l={"type": "array", "items": inner, "maxItems": 5}))
    assert error == (
        f'{path}: Invalid value: "self.n == oldSelf.n": oldSelf cannot be used on the uncorrelatable portion of the'
        f" schema within {SPEC}.properties[l]"
    )
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]}
    assert check(obj(l={"type": "array", "items": {**inner, "required": ["n"]}, "maxItems": 5, **keyed})) == []


TOTAL = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of"
UNBOUNDED = {"type": "array", "items": STRING}


def test_expensive_rules_are_refused_three_times() -> None:
    """An expensive rule exceeds its own budget and the budget of the schema, and both are reported."""
    errors = rule_of({"rule": "self.l.all(a, self.l.all(b, a == b))"}, l=UNBOUNDED)
    path = f"{SPEC}.x-kubernetes-validations[0].rule: Forbidden:"
    assert errors == [
        f"{path} estimated rule cost exceeds budget by factor of more than 100x {HINT}",
        f"{path} contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        f"schema: Forbidden: {TOTAL} more than 100x {HINT}",
    ]


def test_bounds_make_rules_cheap() -> None:
    """An expensive rule is accepted if the schema bounds the values."""
    bounded = {**UNBOUNDED, "maxItems": 20, "items": {**STRING, "maxLength": 20}}
    assert rule_of({"rule": "self.l.all(a, self.l.all(b, a == b))"}, l=bounded) == []


def test_rules_inside_lists_count_for_each_element() -> None:
    """A cheap rule is dear where it may run a million times."""
    inner = {**obj(s={**STRING, "maxLength": 50}), "x-kubernetes-validations": [{"rule": "self.s.matches('^[a-z]+$')"}]}
    (error, *_) = check(obj(l={"type": "array", "items": inner}))
    assert "estimated rule cost exceeds budget by factor of " in error
    assert check(obj(l={"type": "array", "items": inner, "maxItems": 100})) == []


def test_small_excess_is_shown_exactly() -> None:
    """Between one and one and a half times, six digits say by how much."""
    items = {"type": "array", "items": INTEGER, "maxItems": 2_100_000}
    (error,) = rule_of({"rule": "self.l.all(a, a > 0)"}, l=items)
    assert f"exceeds budget by factor of 1.050000x {HINT}" in error


def test_defaults_must_keep_the_rules() -> None:
    """A default that breaks a rule is refused with the rule's message."""
    broken = {**INTEGER, "default": 5, "x-kubernetes-validations": [{"rule": "self < 5", "message": "small"}]}
    assert check(obj(a=broken)) == [f"{SPEC}.properties[a].default: Invalid value: 5: small"]


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_logic_has_no_rules(keyword: str) -> None:
    """Rules and metadata restrictions are forbidden inside allOf, anyOf and oneOf."""
    nested = {"x-kubernetes-validations": [{"rule": "true"}], "properties": {"metadata": {}}}
    path = f"{SPEC}.{keyword}[0]"
    assert check({**obj(metadata=obj()), keyword: [nested]}) == [
        f"{path}.properties[metadata]: Forbidden: must not be specified in a nested context",
        f"{path}.x-kubernetes-validations: Forbidden: must be empty to be structural",
    ]


def test_what_has_no_type_has_no_rules() -> None:
    """A rule on a value without type is an error."""
    (error,) = check(
        obj(a={"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "true"}]})
    )
    assert error.endswith("rules: unable to convert structural schema to CEL declarations")
