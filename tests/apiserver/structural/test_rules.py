"""Validation rules on objects: when they run, their errors, and ratcheting."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.apiserver.structural.schema import StructuralSchema
from opsdk.structured_merge.value import JsonObject

INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def with_rules(schema: JsonObject, *rules: str | JsonObject) -> JsonObject:
    """A schema with rules; a text is just the rule."""
    return {**schema, "x-kubernetes-validations": [{"rule": one} if isinstance(one, str) else one for one in rules]}


def obj(**properties: JsonObject) -> JsonObject:
    """The schema of an object."""
    return {"type": "object", "properties": properties}


def check(schema: JsonObject, value: Any, old: Any = None, warnings: list[str] | None = None) -> list[str]:
    """Return the errors of a spec as text."""
    whole = StructuralSchema(obj(spec=schema))
    before = None if old is None else {"spec": old}
    warn = None if warnings is None else warnings.append
    return [str(error) for error in whole.validate({"spec": value}, before, warn=warn)]


# ------------------------------------------------------------------ what is said
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"rule": "self.a > 5"}, "spec: Invalid value: failed rule: self.a > 5"),
        ({"rule": " self.a > 5 ", "message": " small "}, "spec: Invalid value: small"),
        ({"rule": "self.a > 5", "reason": "FieldValueForbidden"}, "spec: Forbidden: failed rule: self.a > 5"),
        (
            {"rule": "self.a > 5", "reason": "FieldValueRequired", "fieldPath": ".a"},
            "spec.a: Required value: failed rule: self.a > 5",
        ),
        ({"rule": "self.a > 5", "reason": "FieldValueDuplicate", "fieldPath": "['a']"}, "spec.a: Duplicate value"),
        ({"rule": "self.a > 5", "messageExpression": "'got ' + string(self.a)"}, "spec: Invalid value: got 1"),
        ({"rule": "self.a > 5", "messageExpression": "''", "message": "m"}, "spec: Invalid value: m"),
        ({"rule": "self.a > 5", "messageExpression": "'a\\nb'"}, "spec: Invalid value: failed rule: self.a > 5"),
        ({"rule": "self.a > 5", "messageExpression": "self.b", "message": "m"}, "spec: Invalid value: m"),
        ({"rule": "self.b == ''"}, "spec: Invalid value: \"object\": no such key: b evaluating rule: self.b == ''"),
        (
            {"rule": "1 / (self.a - 1) > 0", "message": "m"},
            'spec: Invalid value: "object": division by zero evaluating rule: m',
        ),
    ],
)
def test_what_is_said(rule: JsonObject, said: str) -> None:
    """Message, expression, reason and path shape the error; a failing message gives way to the plain one."""
    assert check(with_rules(obj(a=INTEGER, b=STRING), rule), {"a": 1}) == [said]


def test_scalars_show_their_values() -> None:
    """Objects and lists are too long to show; numbers and strings are not."""
    assert check(obj(a=with_rules(INTEGER, "self < 5")), {"a": 7}) == [
        "spec.a: Invalid value: 7: failed rule: self < 5"
    ]
    items = {"type": "array", "items": with_rules(STRING, "self != 'x'")}
    assert check(obj(l=items), {"l": ["a", "x"]}) == ["spec.l[1]: Invalid value: \"x\": failed rule: self != 'x'"]
    entries = {"type": "object", "additionalProperties": with_rules(obj(a=INTEGER), "self.a > 0")}
    assert check(obj(m=entries), {"m": {"k": {"a": 0}}}) == ["spec.m[k]: Invalid value: failed rule: self.a > 0"]


def test_nulls_have_no_rules() -> None:
    """A nullable value is only judged when there is one; a field that is null is not there."""
    schema = obj(a=with_rules({**INTEGER, "nullable": True}, "self > 0"))
    assert check(schema, {"a": None}) == []
    assert check(schema, {"a": 0}) == ["spec.a: Invalid value: 0: failed rule: self > 0"]
    assert check(with_rules(obj(a={**INTEGER, "nullable": True}), "!has(self.a)"), {"a": None}) == []


DATE = {**STRING, "format": "date-time"}
SET = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}
MISFITS: list[tuple[JsonObject, str, Any, Any]] = [
    (STRING, "self.a.size() > oldSelf.a.size()", "x", 5),
    (STRING, "self.a + oldSelf.a == 'x' || oldSelf.a.startsWith('x')", "x", 5),
    (STRING, "oldSelf.a.matches('x') || oldSelf.a.upperAscii() == 'X'", "x", [1]),
    (SET, "oldSelf.a.all(x, x in self.a) && oldSelf.a == self.a", ["x"], "no list"),
    (obj(b=STRING), "oldSelf.a.b == self.a.b", {"b": "x"}, [1]),
    (SET, "oldSelf.a + self.a == self.a", ["x"], 7),
    (DATE, "oldSelf.a < self.a", "2024-01-01T00:00:00Z", 7),
    (INTEGER, "oldSelf.a + 1 == self.a", 1, "x"),
    ({**INTEGER, "nullable": True}, "self.a + 1 > 0 && oldSelf.a == 1", None, 1),
    ({**STRING, "nullable": True}, "self.a.matches('x') && oldSelf.a == ''", None, ""),
    ({**obj(b=STRING), "nullable": True}, "has(self.a.b) && has(oldSelf.a.b)", None, {}),
    ({**SET, "nullable": True}, "self.a.all(x, true) && oldSelf.a == []", None, []),
]


@pytest.mark.parametrize(("schema", "rule", "new", "old"), MISFITS, ids=[rule for _, rule, _, _ in MISFITS])
def test_values_that_do_not_fit_are_errors_of_the_rule(schema: JsonObject, rule: str, new: Any, old: Any) -> None:
    """Nulls, and what was stored under another schema, are no overload that a function has; never a crash."""
    (error,) = check(with_rules(obj(a=schema), rule), {"a": new}, {"a": old})
    assert error.startswith("spec: Invalid value: ")


def test_whole_numbers_are_integers() -> None:
    """``1.0`` in an integer's field is one."""
    schema = with_rules(obj(a=INTEGER, l={"type": "array", "items": INTEGER}), "self.a + self.l[0] == 3 && 2 in self.l")
    assert check(schema, {"a": 1.0, "l": [2.0]}) == []


def test_int_or_string_is_known_at_run_time() -> None:
    """An int-or-string has a dynamic type, so a wrong overload fails at run time."""
    either = {"x-kubernetes-int-or-string": True}
    schema = with_rules(obj(a=either), "type(self.a) == int ? self.a < 5 : self.a.endsWith('%')")
    assert [check(schema, {"a": a}) == [] for a in (3, 7, "5%", "5")] == [True, False, True, False]
    reason = (
        "'no such overload': call arguments did not match a supported operator, function or macro signature for rule"
    )
    assert check(with_rules(obj(a=either), "self.a > 1"), {"a": "x"}) == [
        f'spec: Invalid value: "object": {reason}: self.a > 1'
    ]


def test_the_whole_object_has_names() -> None:
    """At the root, kind, apiVersion and the names are always known."""
    rule = "self.metadata.name.size() <= 5 && self.kind == 'Widget' && !has(self.metadata.generateName)"
    schema = StructuralSchema(with_rules(obj(spec=obj()), rule))
    tree = {"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "ok"}}
    assert schema.validate(tree) == []
    long = {**tree, "metadata": {"name": "longer"}}
    assert [error.field for error in schema.validate(long)] == ["<nil>"]


def test_names_are_escaped() -> None:
    """Properties that are not identifiers are still seen."""
    schema = obj(**{"a-b": INTEGER, "x.y/z": INTEGER, "namespace": INTEGER, "a__b": INTEGER})
    rule = "self.a__dash__b + self.x__dot__y__slash__z + self.__namespace__ + self.a__underscores__b == 10"
    assert check(with_rules(schema, rule), {"a-b": 1, "x.y/z": 2, "namespace": 3, "a__b": 4}) == []


def test_formats_have_types() -> None:
    """Dates, durations and bytes are what they mean."""
    schema = obj(
        at={**STRING, "format": "date-time"},
        day={**STRING, "format": "date"},
        wait={**STRING, "format": "duration"},
        raw={**STRING, "format": "byte"},
        number={"type": "number"},
    )
    rules = (
        "self.at.getFullYear() == 2024",
        "self.day < self.at",
        "self.wait == duration('36h')",
        "self.raw == b'hi'",
        "self.number == 2.0 && type(self.number) == double",
    )
    value = {"at": "2024-05-01T10:00:00Z", "day": "2024-05-01", "wait": "1d 12h", "raw": "aGk=", "number": 2}
    assert check(with_rules(schema, *rules), value) == []


LIST_MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}


def test_sets_and_maps_compare_without_order() -> None:
    """Sets and maps compare and add without regard to order."""
    sets = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}
    maps = {"type": "array", "items": {**obj(k=STRING, v=INTEGER), "required": ["k"]}, **LIST_MAP}
    schema = with_rules(
        obj(s=sets, t=sets, m={"type": "array", "items": maps}),
        "self.s == self.t && self.s + self.t == self.s && self.s + ['z'] != self.s",
        "self.m[0] == self.m[1] && self.m[0] + self.m[1] == self.m[0] && self.m[0][0] in self.m[1]",
        "(self.m[0] + self.m[1].filter(e, e.k == 'a')).size() == 2",
        "self.m[0] + self.m[2] == self.m[2] + self.m[0].filter(e, e.k == 'b') && self.m[0] != self.m[2]",
    )
    one, other = {"k": "a", "v": 1}, {"k": "b", "v": 2}
    value = {"s": ["a", "b"], "t": ["b", "a"], "m": [[one, other], [other, one], [{"k": "a", "v": 9}]]}
    assert check(schema, value) == []


# ------------------------------------------------------------------ transitions
def test_transition_rules_need_both_values() -> None:
    """A transition rule runs only on updates of a field that exists before and after."""
    schema = obj(a=with_rules(INTEGER, {"rule": "self >= oldSelf", "message": "no way back"}))
    assert check(schema, {"a": 1}) == []
    assert check(schema, {"a": 1}, {}) == []
    assert check(schema, {"a": 1}, {"a": 2}) == ["spec.a: Invalid value: 1: no way back"]
    assert check(schema, {"a": 2}, {"a": 2}) == []


def test_transition_rules_follow_keys() -> None:
    """Elements of list maps are compared with those of the same key; entries of maps by theirs; others never."""
    element = with_rules({**obj(k=STRING, v=INTEGER), "required": ["k"]}, "self.v == oldSelf.v")
    schema = obj(l={"type": "array", "items": element, **LIST_MAP})
    old = {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
    assert check(schema, {"l": [{"k": "b", "v": 2}, {"k": "c", "v": 3}, {"k": "a", "v": 1}]}, old) == []
    assert check(schema, {"l": [{"k": "b", "v": 1}]}, old) == [
        "spec.l[0]: Invalid value: failed rule: self.v == oldSelf.v"
    ]
    entries = {"type": "object", "additionalProperties": with_rules(INTEGER, "self == oldSelf")}
    assert check(obj(m=entries), {"m": {"a": 2, "b": 1}}, {"m": {"a": 1}}) == [
        "spec.m[a]: Invalid value: 2: failed rule: self == oldSelf"
    ]
    atomic = {**entries, "x-kubernetes-map-type": "atomic"}
    assert check(obj(m=atomic), {"m": {"a": 2}}, {"m": {"a": 1}}) == [
        "spec.m[a]: Invalid value: 2: failed rule: self == oldSelf"
    ]


@pytest.mark.parametrize(
    ("schema", "value", "kind", "said"),
    [
        (STRING, True, "string", "invalid data, expected string, got bool"),
        (STRING, [1], "string", "invalid data, expected string, got []interface {}"),
        (INTEGER, 1.5, "integer", "invalid data, expected int, got float64"),
        ({"type": "number"}, "x", "number", "invalid data, expected float, got string"),
        ({"type": "boolean"}, {"a": 1}, "boolean", "invalid data, expected bool, got map[string]interface {}"),
        (obj(), 1, "object", "invalid data, expected a map for the provided schema with type=object"),
        (
            {"type": "array", "items": STRING},
            "x",
            "array",
            "invalid data, expected an array for the provided schema with type=array",
        ),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            "",
            "invalid data, expected XIntOrString value to be either a string or integer",
        ),
        (
            {**STRING, "format": "date"},
            "x",
            "string",
            'Invalid date formatted string x: parsing time "x" as "2006-01-02": cannot parse "x" as "2006"',
        ),
        ({**STRING, "format": "duration"}, "x", "string", "Invalid duration x: unable to parse x as duration"),
        (
            {**STRING, "format": "byte"},
            "zz!",
            "string",
            "Invalid byte formatted string zz!: illegal base64 data at input byte 2",
        ),
    ],
)
def test_values_of_another_type_fail_at_run_time(schema: JsonObject, value: Any, kind: str, said: str) -> None:
    """A stored value of another type than the schema's fails the rule at run time."""
    whole = StructuralSchema({"type": "object", "properties": {"spec": obj(a=with_rules(schema, "self == self"))}})
    tree = {"spec": {"a": value}}
    assert [str(error) for error in whole.validate(tree, tree)] == [
        f'spec.a: Invalid value: "{kind}": {said} evaluating rule: self == self'
    ]


def test_optional_old_values() -> None:
    """With `optionalOldSelf` a rule also runs where there is nothing to compare with."""
    rule = {"rule": "oldSelf.hasValue() ? self == oldSelf.value() : self == 1", "optionalOldSelf": True, "message": "m"}
    schema = obj(a=with_rules(INTEGER, rule))
    assert check(schema, {"a": 1}) == []
    assert check(schema, {"a": 2}) == ["spec.a: Invalid value: 2: m"]
    assert check(schema, {"a": 2}, {"a": 2}) == []
    assert check(schema, {"a": 1}, {"a": 2}) == ["spec.a: Invalid value: 1: m"]


def test_messages_never_see_optional_old_values() -> None:
    """A messageExpression with optionalOldSelf compiles but fails at run time, so the plain message is used."""
    rule = {"rule": "oldSelf.hasValue() && self > 1", "optionalOldSelf": True, "message": "plain"}
    schema = obj(a=with_rules(INTEGER, {**rule, "messageExpression": "'was ' + string(oldSelf.orValue(0))"}))
    assert check(schema, {"a": 1}, {"a": 2}) == ["spec.a: Invalid value: 1: plain"]
    assert check(schema, {"a": 1}) == ["spec.a: Invalid value: 1: plain"]


# ------------------------------------------------------------------ what may stay wrong
def test_what_was_broken_may_stay_broken() -> None:
    """A violated rule on an unchanged value is a warning; errors of other kinds stay."""
    schema = with_rules(obj(a=with_rules(INTEGER, "self < 5"), b=INTEGER), "self.b < 5")
    warnings: list[str] = []
    assert check(schema, {"a": 9, "b": 1}, {"a": 9, "b": 0}, warnings) == []
    assert warnings == ["spec.a: Invalid value: 9: failed rule: self < 5"]
    assert check(schema, {"a": 9, "b": 9}, {"a": 9, "b": 9}) == []
    assert check(schema, {"a": 8, "b": 9}, {"a": 9, "b": 9}) == [
        "spec: Invalid value: failed rule: self.b < 5",
        "spec.a: Invalid value: 8: failed rule: self < 5",
    ]


def test_elements_without_keys_are_judged_with_their_list() -> None:
    """An invalid element without key is tolerated only while its list is unchanged."""
    schema = obj(l={"type": "array", "items": with_rules(INTEGER, "self < 5")}, b=INTEGER)
    assert check(schema, {"l": [9], "b": 1}, {"l": [9], "b": 0}) == []
    assert check(schema, {"l": [9, 1]}, {"l": [9]}) == ["spec.l[0]: Invalid value: 9: failed rule: self < 5"]


# ------------------------------------------------------------------ budgets
def test_one_call_may_not_cost_too_much() -> None:
    """A call over its limit ends the evaluation for the whole object."""
    schema = with_rules(
        obj(l={"type": "array", "items": INTEGER}),
        {"rule": "self.l.all(i, self.l.all(j, self.l.all(k, i + j + k >= 0)))", "message": "m"},
        "false",
    )
    reason = "no further validation rules will be run due to call cost exceeds limit for rule: m"
    assert check(schema, {"l": list(range(200))}) == [
        f"spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': {reason}"
    ]


@pytest.mark.slow
def test_all_calls_together_may_not_cost_too_much() -> None:
    """Cheap calls of one object share a budget."""
    element = with_rules({"type": "array", "items": INTEGER}, "self.all(i, self.all(j, i + j >= 0))")
    schema = obj(l={"type": "array", "items": element})
    errors = check(schema, {"l": [list(range(250))] * 30})
    text = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert [error.partition(": ")[2] for error in errors] == [f'Invalid value: "array": {text}']


# ------------------------------------------------------------------ what people write
UNIQUE_LISTENERS = (
    "self.listeners.all(a, self.listeners.exists_one(b, a.port == b.port && (has(a.hostname) && has(b.hostname)"
    " ? a.hostname == b.hostname : !has(a.hostname) && !has(b.hostname))))"
)
REAL: list[tuple[JsonObject, str, JsonObject, JsonObject]] = [
    (
        obj(type=STRING, exact=STRING, prefix=STRING),
        "has(self.type) && self.type == 'Exact' ? has(self.exact) : !has(self.exact)",
        {"type": "Exact", "exact": "x"},
        {"type": "Prefix", "exact": "x"},
    ),
    (
        obj(value={**STRING, "maxLength": 64}),
        r"self.value.matches('^(?:[-A-Za-z0-9/._~!$&\'()*+,;=:@]|[%][0-9a-fA-F]{2})+$')",
        {"value": "/a%20b"},
        {"value": "a b"},
    ),
    (
        obj(
            rules={
                "type": "array",
                "maxItems": 16,
                "items": obj(filters={"type": "array", "maxItems": 16, "items": obj(type=STRING)}),
            }
        ),
        "self.rules.all(r, !has(r.filters) || r.filters.filter(f, f.type == 'Redirect').size() <= 1)",
        {"rules": [{"filters": [{"type": "Redirect"}, {"type": "Header"}]}, {}]},
        {"rules": [{"filters": [{"type": "Redirect"}, {"type": "Redirect"}]}]},
    ),
    (
        obj(listeners={"type": "array", "maxItems": 64, "items": obj(name=STRING, port=INTEGER, hostname=STRING)}),
        UNIQUE_LISTENERS,
        {"listeners": [{"port": 80, "hostname": "a"}, {"port": 80, "hostname": "b"}, {"port": 80}]},
        {"listeners": [{"port": 80}, {"port": 80}]},
    ),
    (
        obj(size={**STRING, "maxLength": 20}, limit={**STRING, "maxLength": 20}),
        "quantity(self.size).compareTo(quantity(self.limit)) <= 0 && quantity(self.size).isInteger()",
        {"size": "1Gi", "limit": "2G"},
        {"size": "2Gi", "limit": "2G"},
    ),
    (
        obj(
            cidrs={"type": "array", "maxItems": 8, "items": {**STRING, "maxLength": 43}}, ip={**STRING, "maxLength": 39}
        ),
        "self.cidrs.all(c, cidr(c).masked() == cidr(c)) && self.cidrs.exists(c, cidr(c).containsIP(self.ip))",
        {"cidrs": ["10.0.0.0/8", "fd00::/8"], "ip": "fd00::1"},
        {"cidrs": ["10.0.0.0/8"], "ip": "192.168.0.1"},
    ),
    (
        obj(url={**STRING, "maxLength": 256}),
        "isURL(self.url) && url(self.url).getScheme() in ['http', 'https'] && url(self.url).getHostname() != ''",
        {"url": "https://[::1]:8443/x?q=1"},
        {"url": "ftp://x"},
    ),
    (
        obj(version={**STRING, "maxLength": 32}),
        "self.version.startsWith('v') && semver(self.version, true).isGreaterThan(semver('1.29.0-rc.1'))",
        {"version": "v1.29"},
        {"version": "v1.28.9"},
    ),
    (
        obj(schedule={**STRING, "maxLength": 64}),
        "self.schedule.split(' ').size() == 5 || self.schedule in ['@daily', '@hourly']",
        {"schedule": "0 0 * * *"},
        {"schedule": "@never"},
    ),
    (
        obj(labels={"type": "object", "maxProperties": 8, "additionalProperties": {**STRING, "maxLength": 63}}),
        "self.labels.all(k, !k.startsWith('internal/') && !format.labelValue().validate(self.labels[k]).hasValue())",
        {"labels": {"a": "b"}},
        {"labels": {"a": "not a label!"}},
    ),
    (
        obj(min=INTEGER, max=INTEGER),
        "self.?min.orValue(0) <= self.?max.orValue(10) && [self.?min, self.?max].unwrapOpt().all(i, i >= 0)",
        {"min": 3},
        {"min": 11},
    ),
    (
        obj(a=STRING, b=STRING, c=STRING),
        "[has(self.a), has(self.b), has(self.c)].filter(x, x).size() == 1",
        {"b": "x"},
        {"a": "x", "b": "x"},
    ),
]


@pytest.mark.parametrize(("schema", "rule", "good", "bad"), REAL, ids=[rule[:40] for _, rule, _, _ in REAL])
def test_rules_as_people_write_them(schema: JsonObject, rule: str, good: JsonObject, bad: JsonObject) -> None:
    """Rules as in well-known projects: one object satisfies them, another violates them."""
    assert check(with_rules(schema, {"rule": rule, "message": "m"}), good) == []
    assert check(with_rules(schema, {"rule": rule, "message": "m"}), bad) == ["spec: Invalid value: m"]


def test_embedded_objects_have_names() -> None:
    """Rules of an embedded object can read kind and name; other fields need a schema."""
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    schema = obj(template=with_rules(embedded, "self.kind == 'Pod' && self.metadata.name.startsWith('p')"))
    assert check(schema, {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}) == []
    assert len(check(schema, {"template": {"apiVersion": "v1", "kind": "Job", "metadata": {"name": "p"}}})) == 1
