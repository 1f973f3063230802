"""Admission policies as classes: their objects, their names, and what is refused at the declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from opsdk import GroupVersionKind, Model, Object, Operator, UsageError
from opsdk.api.admissionregistration.v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from opsdk.api.core.v1 import ConfigMap, Pod
from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.crd import json_schema
from opsdk.apimachinery.kinds import kind_of, metadata_only, unstructured_kind
from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.object import to_dict
from opsdk.apimachinery.quantity import Quantity
from opsdk.apimachinery.time import Time
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.policies import AdmissionRule, PolicyBinding, policy, policy_of

KINDS = {
    cls.gvk.kind: cls
    for cls in (
        MutatingAdmissionPolicy,
        MutatingAdmissionPolicyBinding,
        ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
    )
}


class Door(Model):
    """A part of a shop."""

    name: str
    width: int | None = None


class ShopSpec(Model):
    """Fields of each type."""

    size: int = 1
    open: bool = True
    doors: list[Door] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    share: float = 0.5
    limit: Quantity | None = None
    opened_at: Time | None = None
    port: int | str = 80
    let: str = ""
    note: Annotated[str | None, json_schema({"nullable": True})] = None
    anything: dict[str, Any] = field(default_factory=dict)


class Shop(Object[ShopSpec, None]):
    """A kind."""

    gvk = GroupVersionKind("shops.opsdk.dev", "v1", "Shop")


def objects_of(attributes: Mapping[str, Any], kind: Any = Shop, *, operator: str = "shops") -> list[JsonObject]:
    """Declare a policy, and return its objects."""
    return policy_of(policy(kind, name="limits")(type("Limits", (), dict(attributes)))).objects(operator)


def rules(expression: str, **parts: Any) -> dict[str, Any]:
    """Return the attributes of a policy with one rule."""
    return {"rules": [AdmissionRule(expression, **parts)]}


def refusal(attributes: Mapping[str, Any], kind: Any = Shop) -> str:
    """Return the message of a refused declaration."""
    with pytest.raises(UsageError) as error:
        objects_of(attributes, kind)
    return str(error.value)


# ------------------------------------------------------------------ objects
def test_a_policy_has_all_fields() -> None:
    """Rules, mutations, parameters, selectors, conditions and bindings are in the objects of both kinds."""

    @policy(Shop, name="limits")
    class Everything:
        rules = (
            AdmissionRule("object.spec.size <= variables.most", message="too large", reason="Forbidden"),
            AdmissionRule("true", message_expression="string(variables.most)", field_path="spec.size"),
        )
        mutations = (
            "Object{metadata: Object.metadata{labels: Object.metadata.labels{shop: 'yes'}}}",
            "[JSONPatch{op: 'add', path: '/spec/size', value: 1}]",
        )
        operations = ("UPDATE",)
        subresources = ("status",)
        variables = {"most": "int(params.data.most)"}  # noqa: RUF012 - as users write it
        match_conditions = {"open": "object.spec.open == true"}  # noqa: RUF012
        failure_policy = "Ignore"
        params = ConfigMap
        bindings = (
            PolicyBinding(param_name="limits", param_namespace="default", validation_actions=["Warn", "Audit"]),
            PolicyBinding(
                name="labelled",
                param_selector=LabelSelector(match_labels={"limits": "yes"}),
                parameter_not_found_action="Allow",
                namespace_selector=LabelSelector(match_labels={"env": "prod"}),
            ),
        )
        object_selector = LabelSelector(match_labels={"app": "shop"})
        match_policy = "Exact"
        audit_annotations = {"size": "string(object.spec.size)"}  # noqa: RUF012
        reinvocation_policy = "IfNeeded"

    validating, first, second, mutating, *others = policy_of(Everything).objects("shops")
    assert [tree["metadata"]["name"] for tree in (validating, first, second)] == [
        "shops.limits",
        "shops.limits",
        "shops.limits-labelled",
    ]
    common = {
        "failurePolicy": "Ignore",
        "matchConstraints": {
            "matchPolicy": "Exact",
            "namespaceSelector": {},
            "objectSelector": {"matchLabels": {"app": "shop"}},
            "resourceRules": [
                {
                    "operations": ["UPDATE"],
                    "apiGroups": ["shops.opsdk.dev"],
                    "apiVersions": ["v1"],
                    "resources": ["shops", "shops/status"],
                    "scope": "Namespaced",
                }
            ],
        },
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "most", "expression": "int(params.data.most)"}],
        "matchConditions": [{"name": "open", "expression": "object.spec.open == true"}],
    }
    assert validating["spec"] == {
        **common,
        "validations": [
            {"expression": "object.spec.size <= variables.most", "message": "too large", "reason": "Forbidden"},
            {
                "expression": "true",
                "message": "spec.size: failed expression: true",
                "messageExpression": '"spec.size: " + (string(variables.most))',
            },
        ],
        "auditAnnotations": [{"key": "size", "valueExpression": "string(object.spec.size)"}],
    }
    assert mutating["spec"] == {
        **common,
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": Everything.mutations[0]}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": Everything.mutations[1]}},
        ],
        "reinvocationPolicy": "IfNeeded",
    }
    assert first["spec"] == {
        "policyName": "shops.limits",
        "paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"},
        "validationActions": ["Warn", "Audit"],
    }
    assert second["spec"]["paramRef"] == {
        "parameterNotFoundAction": "Allow",
        "selector": {"matchLabels": {"limits": "yes"}},
    }
    assert second["spec"]["matchResources"]["namespaceSelector"] == {"matchLabels": {"env": "prod"}}
    assert [tree["kind"] for tree in others] == ["MutatingAdmissionPolicyBinding"] * 2
    assert "validationActions" not in others[0]["spec"]


TEXTS = st.text(alphabet="ab'\"\\ {}\n", max_size=8)
BINDINGS = st.builds(
    PolicyBinding,
    validation_actions=st.sampled_from([["Deny"], ["Warn"], ["Audit", "Deny"]]),
    object_selector=st.none() | st.builds(LabelSelector, match_labels=st.just({"a": "b"})),
)


@given(
    texts=st.lists(TEXTS, min_size=1, max_size=3),
    binding=BINDINGS,
    operations=st.sampled_from([["CREATE"], ["UPDATE", "CREATE"], ["*"]]),
    failure_policy=st.sampled_from(["Fail", "Ignore"]),
)
def test_objects_are_equal_after_encode_and_decode(
    texts: list[str], binding: PolicyBinding, operations: list[Any], failure_policy: Any
) -> None:
    """The typed classes of the kinds read every generated object, and write the same one."""
    quoted = [msgspec.json.encode(text).decode() for text in texts]
    attributes = {
        "rules": [AdmissionRule(f"object.metadata.name != {text}") for text in quoted],
        "mutations": [f"Object{{metadata: Object.metadata{{labels: {{'a': {text}}}}}}}" for text in quoted],
        "operations": operations,
        "failure_policy": failure_policy,
        "bindings": [binding],
    }
    for tree in objects_of(attributes):
        assert to_dict(decode(msgspec.json.encode(tree), kind_of(KINDS[tree["kind"]]))) == tree


@given(st.lists(st.sampled_from(["a", "b", "a.b", "a-b", "b.a"]), min_size=2, max_size=2, unique=True))
def test_objects_of_two_operators_never_have_one_name(operators: list[str]) -> None:
    """The last dot ends the name of the operator, whatever the policies and bindings are called."""
    bindings = [PolicyBinding(), PolicyBinding(name="b"), PolicyBinding(name="a-b")]
    names = []
    for operator in operators:
        for name in ("a", "b", "a-b", "b-a-b"):
            declared = policy(Shop, name=name)(type("X", (), {**rules("true"), "bindings": bindings}))
            names.append({tree["metadata"]["name"] for tree in policy_of(declared).objects(operator)})
    half = len(names) // 2
    assert not set().union(*names[:half]) & set().union(*names[half:])


def test_two_policies_of_an_operator_need_two_names() -> None:
    """The error names the object and what to do."""
    declared = policy(Shop, name="limits")(type("X", (), rules("true")))
    operator = Operator("shops")
    operator.add_policy(declared)
    with pytest.raises(UsageError, match=r"two policies make the ValidatingAdmissionPolicy shops\.limits: pass name="):
        operator.add_policy(declared)
    with pytest.raises(UsageError, match="'Shop' declares no policy: decorate the class"):
        Operator("shops").add_policy(Shop)


def test_the_name_is_that_of_the_class() -> None:
    """In lower case, with a dash before each word."""

    @policy(Shop)
    class HTTPShopLimit:
        rules = (AdmissionRule("true"),)

    assert policy_of(HTTPShopLimit).name == "http-shop-limit"


# ------------------------------------------------------------------ what fits the schema
FITTING = [
    "object.spec.size <= 5",
    "oldObject == null || object.spec.size >= oldObject.spec.size",
    "object == null || object.spec.doors.all(door, door.name != 'x' && (!has(door.width) || door.width < 3))",
    "object.metadata.labels['app'] == 'shop' && object.metadata.?annotations['a'].orValue('b') == 'b'",
    "object.metadata.ownerReferences.exists(owner, owner.controller == true)",
    "'a' in object.spec.tags && object.spec.tags.a.startsWith('b')",
    "quantity(object.spec.limit).isGreaterThan(quantity('1Gi'))",
    "object.spec.limit == '1' || object.spec.port == 80 || object.spec.port == 'http'",
    "timestamp(object.spec.openedAt) < timestamp('2026-01-01T00:00:00Z')",
    "object.spec.openedAt.startsWith('2026')",
    "object.spec.share < 1 && object.spec.let == 'x' && object.spec.note == null",
    "object.spec.anything.what.ever == 5",
    "dyn(object).spec['size'] == 1",
    "request.operation == 'CREATE' && request.userInfo.groups.exists(group, group == 'a')",
    "namespaceObject.metadata.labels['env'] == 'prod'",
    "authorizer.group('').resource('pods').namespace(object.metadata.namespace).check('get').allowed()",
    "authorizer.requestResource.check('delete').allowed()",
]


@pytest.mark.parametrize("expression", FITTING)
def test_expressions_that_fit_the_schema(expression: str) -> None:
    """Fields have the types of their JSON: times are text, quantities and unions are dynamic."""
    assert objects_of(rules(expression))[0]["spec"]["validations"] == [{"expression": expression}]


NO_FIELD = "fields with a similar name: size"
MISTAKES = [
    (rules("object.spec.sise <= 5"), ["rules[0]: ERROR: <input>:1:12: undefined field 'sise'", NO_FIELD]),
    (rules("oldObject.spec.sise <= 5"), ["undefined field 'sise'", NO_FIELD]),
    (rules("object.metadata.label == {}"), ["undefined field 'label'", "labels"]),
    (rules("object.spec.doors.all(door, door.nam == 'a')"), ["undefined field 'nam'", "similar name: name"]),
    (rules("object.spec.size.foo == 1"), ["type 'int' does not support field selection"]),
    (rules("object.spec.size <= '5'"), ["found no matching overload", "the types come from the class"]),
    (rules("object.spec['size'] <= 5"), ["found no matching overload for '_[_]'", "dyn(...) leaves a value unchecked"]),
    (rules("object.spec.openedAt < timestamp('2026-01-01T00:00:00Z')"), ["found no matching overload"]),
    (rules("object.spec.__let__ == ''"), ["undefined field '__let__'"]),
    (rules("object.spec.size"), ["must evaluate to bool but got int", "compare the value"]),
    (rules("object.spec.open"), ["must evaluate to bool but got dyn", "the server does not use the schema", "== true"]),
    (rules("object.spec.size <="), ["Syntax error"]),
    (rules("  "), ["rules[0] is empty"]),
    (rules("self.size <= 5"), ["undeclared reference to 'self'", "a policy reads object and oldObject"]),
    (rules("objekt.spec.size <= 5"), ["undeclared reference to 'objekt'"]),
    (rules("params.data.a == 'b'"), ["undeclared reference to 'params'", "params = ConfigMap"]),
    (rules("variables.a == 'b'"), ["undefined field 'a'"]),
    (rules("request.operatio == 'CREATE'"), ["undefined field 'operatio'", "operation"]),
    (rules("namespaceObject.metadata.label == {}"), ["undefined field 'label'"]),
    (rules("authorizer.group('').check('get').allowed()"), ["found no matching overload for 'check'"]),
    (
        rules("true", message_expression="object.spec.size"),
        ["message_expression of rules[0]", "got int"],
    ),
    (rules("true", message_expression="object.spec.let"), ["got dyn", "convert it with string(...)"]),
    (rules("true", message_expression="object.spec.sise"), ["undefined field 'sise'"]),
    (rules("true", message_expression="authorizer.path('/').check('get').reason()"), ["undeclared reference"]),
    (rules("true", message="a\nb"), ["must be one line"]),
    (rules("true", field_path="spec.sise"), ["the field_path 'spec.sise' is not a field of Shop"]),
    ({**rules("true"), "variables": {"a": "object.sise"}}, ["variables['a']", "undefined field 'sise'"]),
    ({"variables": {"a": "object.spec"}, **rules("variables.a.sise == 1")}, ["undefined field 'sise'", NO_FIELD]),
    ({"variables": {"a": "variables.b", "b": "1"}, **rules("true")}, ["variables['a']", "undefined field 'b'"]),
    ({"variables": {"let": "1"}, **rules("true")}, ["the name is not a CEL identifier"]),
    ({"match_conditions": {"a": "object.spec.sise == 1"}, **rules("true")}, ["match_conditions['a']", NO_FIELD]),
    ({"match_conditions": {"a": "1"}, **rules("true")}, ["match_conditions['a'] '1'", "must evaluate to bool"]),
    ({"audit_annotations": {"a": "1"}}, ["audit_annotations['a'] '1'", "convert the value with string(...)"]),
    ({"mutations": ["Object{spec: Object.spec{sise: 1}}"]}, ["mutations[0]", "undefined field 'sise'", NO_FIELD]),
    ({"mutations": ["Object{spec: Object.spec{size: 'a'}}"]}, ["expected type of field 'size' is 'int'"]),
    (
        {"mutations": ["Object{spec: Object.spek{size: 1}}"]},
        ["'Object.spek'", "the name of an object is its path"],
    ),
    (
        {"mutations": ["Object{metadata: Object.metadata{labels: Object.spek{}}}"]},
        ["undeclared reference to 'Object.spek'"],
    ),
    ({"mutations": ["Object{spec: Object.spec{doors: [Object.spec.doors{nam: 'a'}]}}"]}, ["undefined field 'nam'"]),
    ({"mutations": ["[JSONPatch{op: 'add', pat: '/a'}]"]}, ["expected type of field 'pat'"]),
    ({"mutations": ["{'spec': {'size': 1}}"]}, ["must evaluate to one of", "return Object{...}"]),
    ({**rules("true"), "mutations": ["Object{}"], "operations": ["DELETE"]}, ["leave DELETE out"]),
    ({**rules("true"), "rulez": []}, ["has no attribute rulez: choose among audit_annotations"]),
    ({}, ["it has neither rules nor mutations"]),
    ({"rules": "true"}, ["rules takes a list, not 'true'"]),
    ({"rules": ["true"]}, ["rules has 'true': each is a AdmissionRule"]),
    ({**rules("true"), "variables": ["a"]}, ["variables takes a dict"]),
    ({**rules("true"), "operations": []}, ["operations is empty"]),
    ({**rules("true"), "bindings": []}, ["bindings is empty"]),
    ({**rules("true"), "bindings": [PolicyBinding(), PolicyBinding()]}, ["occurs twice: give each a name"]),
    ({**rules("true"), "bindings": [PolicyBinding(name="A b")]}, ["the binding 'A b'"]),
    ({**rules("true"), "bindings": [PolicyBinding(param_name="a")]}, ["declare params = ConfigMap"]),
    ({**rules("true"), "params": ConfigMap}, ["selects no parameters: set param_name or param_selector"]),
    ({**rules("true"), "bindings": [PolicyBinding(validation_actions=["Deny", "Warn"])]}, ["choose Deny or Warn"]),
    (
        {**rules("params.dat.a == ''"), "params": ConfigMap, "bindings": [PolicyBinding(param_name="a")]},
        ["undefined field 'dat'", "similar name: data"],
    ),
]


@pytest.mark.parametrize(("attributes", "words"), MISTAKES, ids=lambda value: str(value)[:60])
def test_mistakes_are_refused_at_the_declaration(attributes: dict[str, Any], words: list[str]) -> None:
    """The message has file and line, the place, the error, and what to do."""
    message = refusal(attributes)
    assert all(word in message for word in words), message
    assert "test_policies.py:" in message


def test_all_mistakes_come_at_once() -> None:
    """One error has a line for each expression that does not fit."""
    message = refusal({"rules": [AdmissionRule("object.a"), AdmissionRule("1"), AdmissionRule("object.b == 1")]})
    assert [f"rules[{index}]" in message for index in range(3)] == [True] * 3


@pytest.mark.parametrize("kind", [metadata_only(Shop), unstructured_kind("shops.opsdk.dev/v1", "Shop")])
def test_a_kind_without_a_class_is_not_checked(kind: Any) -> None:
    """Its fields are dynamic; the syntax is still checked."""
    assert objects_of(rules("object.spec.sise <= 5"), kind)
    assert "Syntax error" in refusal(rules("object.spec.size <="), kind)


def test_built_in_kinds_are_checked() -> None:
    """A Pod has the types of its class, also in templates and lists."""
    tree = objects_of(rules("object.spec.containers.all(each, has(each.resources.limits))"), Pod)[0]
    assert tree["spec"]["matchConstraints"]["resourceRules"][0]["resources"] == ["pods"]
    assert "similar name: image" in refusal(rules("object.spec.containers.all(each, each.imag != '')"), Pod)


def test_objects_of_another_subresource_are_not_checked() -> None:
    """The object of a scale request is no Shop."""
    assert objects_of({**rules("object.status.selector == ''"), "subresources": ["scale"]})
