"""Validation of admission policies and bindings: the server's errors at the server's paths."""

from __future__ import annotations

from typing import Any

import pytest
from admission_policies import PARAMS, RULE, applies, binding, patches, policy, says, write
from inprocess_webhooks import HOOKS
from server_caller import MERGE, Answer, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

GOOD = {"validations": [says("true")]}
CHANGES = {"mutations": [applies("Object{}")], "reinvocationPolicy": "Never"}
SUBDOMAIN = "a lowercase RFC 1123 subdomain"


def faults(answer: Answer) -> list[tuple[str, str]]:
    """Fields and messages of what is wrong; nothing where the object was accepted."""
    if answer.status == 201:
        return []
    assert answer.status == 422, answer.json
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


def rules(**more: Any) -> JsonObject:
    """Constraints with one rule."""
    return {"matchConstraints": {"resourceRules": [{**RULE, **more}]}}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"paramKind": {"kind": "X"}}, "paramKind.apiVersion", "Required value"),
        ({"paramKind": {"apiVersion": "v1"}}, "paramKind.kind", "Required value"),
        (
            {"paramKind": {**PARAMS, "apiVersion": "a/b/c"}},
            "paramKind.apiVersion",
            "unexpected GroupVersion string: a/b/c",
        ),
        ({"paramKind": {**PARAMS, "apiVersion": "a/"}}, "paramKind.apiVersion", "version must be specified"),
        ({"paramKind": {**PARAMS, "apiVersion": "A/v1"}}, "paramKind.apiVersion", SUBDOMAIN),
        ({"paramKind": {**PARAMS, "apiVersion": "1"}}, "paramKind.apiVersion", "a DNS-1035 label"),
        (
            {"paramKind": {**PARAMS, "kind": "No Kind"}},
            "paramKind.kind",
            "may have mixed case, but should otherwise match",
        ),
        (rules(resourceNames=["a", "a"]), "matchConstraints.resourceRules[0].resourceNames[1]", "Duplicate value"),
        (rules(resourceNames=["a/b"]), "matchConstraints.resourceRules[0].resourceNames[0]", "may not contain '/'"),
        (rules(resources=["pods", "*/*"]), "matchConstraints.resourceRules[0].resources", "'*/*' is present"),
        (rules(scope="Wide"), "matchConstraints.resourceRules[0].scope", "Unsupported value"),
        (
            {"matchConstraints": {"resourceRules": [RULE], "matchPolicy": "Fuzzy"}},
            "matchConstraints.matchPolicy",
            'supported values: "Equivalent", "Exact"',
        ),
        (
            {"matchConstraints": {"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "apiGroups": []}]}},
            "matchConstraints.excludeResourceRules[0].apiGroups",
            "Required value",
        ),
        (
            {"matchConstraints": {"resourceRules": [RULE], "objectSelector": {"matchLabels": {"-": "x"}}}},
            "matchConstraints.objectSelector.matchLabels",
            "Invalid value",
        ),
        ({"matchConditions": [{"name": "a", "expression": "params.x"}]}, "matchConditions[0].expression", "'params'"),
        (
            {"matchConditions": [{"name": "a", "expression": "variables.x"}]},
            "matchConditions[0].expression",
            "'variables'",
        ),
        ({"matchConditions": [{"name": "", "expression": "true"}]}, "matchConditions[0].name", "Required value"),
        ({"matchConditions": [{"name": "a", "expression": " "}]}, "matchConditions[0].expression", "Required value"),
        (
            {"matchConditions": [{"name": f"c{i}", "expression": "true"} for i in range(65)]},
            "matchConditions",
            "Too many: 65: must have at most 64 items",
        ),
        ({"variables": [{"name": " ", "expression": "1"}]}, "variables[0].name", "name is not specified"),
        (
            {"variables": [{"name": "namespace", "expression": "1"}]},
            "variables[0].name",
            "must be a valid CEL identifier",
        ),
        ({"variables": [{"name": "a", "expression": ""}]}, "variables[0].expression", "expression is not specified"),
        ({"failurePolicy": "Retry"}, "failurePolicy", 'supported values: "Fail", "Ignore"'),
    ],
)
@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
async def test_policies_of_both_kinds_share_these_rules(kind: str, spec: JsonObject, field: str, message: str) -> None:
    """Each invalid field of either policy kind is one error at its path."""
    rest = GOOD if kind == "Validating" else CHANGES
    async with Environment() as env:
        call = Caller(env)
        errors = faults(await write(call, policy(kind, "p", **{**rest, **spec})))
        assert [(error, message in text) for error, text in errors] == [(f"spec.{field}", True)], errors
        assert faults(await write(call, policy(kind, "p", **rest))) == []


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"validations": [says("true", messageExpression=" ")]}, "validations[0].messageExpression", "non-empty"),
        ({"validations": [says("true", message=" ")]}, "validations[0].message", "must be non-empty if specified"),
        (
            {"validations": [says("true", messageExpression="string(authorizer.path('/x').check('get').allowed())")]},
            "validations[0].messageExpression",
            "undeclared reference to 'authorizer'",
        ),
        ({"validations": [says("namespaceObject.nope == 1")]}, "validations[0].expression", "undefined field 'nope'"),
        ({"validations": [says("Object{} == 1")]}, "validations[0].expression", "undeclared reference to 'Object'"),
        (
            {"auditAnnotations": [{"key": "k"}]},
            "auditAnnotations[0].valueExpression",
            "valueExpression is not specified",
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": f"'{'x' * 5200}'"}]},
            "auditAnnotations[0].valueExpression",
            "must not exceed 5120 bytes in length",
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "'a'"}, {"key": "k", "valueExpression": "null"}]},
            "auditAnnotations[1].key",
            "Duplicate value",
        ),
        (
            {"auditAnnotations": [{"key": f"k{i}", "valueExpression": "'a'"} for i in range(21)]},
            "auditAnnotations",
            "must not have more than 20 auditAnnotations",
        ),
    ],
)
async def test_validating_policies_have_rules_of_their_own(spec: JsonObject, field: str, message: str) -> None:
    """Each invalid field that only a validating policy has is one error."""
    async with Environment() as env:
        errors = faults(await write(Caller(env), policy("Validating", "p", **{**GOOD, **spec})))
        assert [(error, message in text) for error, text in errors] == [(f"spec.{field}", True)], errors


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            rules(operations=["DELETE"]),
            "matchConstraints.resourceRules.operations",
            '"*", "CONNECT", "CREATE", "UPDATE"',
        ),
        ({"mutations": [{}]}, "mutations[0].patchType", "Required value"),
        ({"mutations": [applies(" ")]}, "mutations[0].applyConfiguration.expression", "Required value"),
        (
            {"mutations": [applies("Object.spec{}")]},
            "mutations[0].applyConfiguration.expression",
            "but got Object.spec",
        ),
        (
            {"mutations": [patches("[JSONPatch{no: 1}]")]},
            "mutations[0].jsonPatch.expression",
            "expected type of field 'no' is ''",
        ),
        (
            {"mutations": [{**patches("[JSONPatch{}]"), **applies("Object{}"), "patchType": "JSONPatch"}]},
            "mutations[0].applyConfiguration",
            'Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch',
        ),
        ({"reinvocationPolicy": None}, "reinvocationPolicy", "Required value"),
    ],
)
async def test_mutating_policies_have_rules_of_their_own(spec: JsonObject, field: str, message: str) -> None:
    """Each invalid field that only a mutating policy has is one error."""
    async with Environment() as env:
        errors = faults(await write(Caller(env), policy("Mutating", "p", **{**CHANGES, **spec})))
        assert [(error, message in text) for error, text in errors] == [(f"spec.{field}", True)], errors


REF = {"name": "x", "parameterNotFoundAction": "Deny"}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"policyName": "No Name"}, "policyName", SUBDOMAIN),
        ({"paramRef": {**REF, "name": "a/b"}}, "paramRef.name", "may not contain '/'"),
        (
            {"paramRef": {**REF, "parameterNotFoundAction": "Cry"}},
            "paramRef.parameterNotFoundAction",
            '"Deny", "Allow"',
        ),
        (
            {"paramRef": {"selector": {"matchExpressions": [{"key": "a"}]}, "parameterNotFoundAction": "Deny"}},
            "paramRef.selector.matchExpressions[0].operator",
            "not a valid selector operator",
        ),
        (
            {"matchResources": {"resourceRules": [{**RULE, "apiVersions": [""]}]}},
            "matchResources.resourceRules[0].apiVersions[0]",
            "Required value",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
async def test_policy_bindings_need_valid_references(kind: str, spec: JsonObject, field: str, message: str) -> None:
    """A binding's name, parameter reference and constraints are validated; match rules are optional."""
    async with Environment() as env:
        call = Caller(env)
        errors = faults(await write(call, binding(kind, "b", "p", **spec)))
        assert [(error, message in text) for error, text in errors] == [(f"spec.{field}", True)], errors
        assert faults(await write(call, binding(kind, "b", "p", matchResources={}, paramRef=REF))) == []


async def test_unchanged_conditions_are_not_compiled_again() -> None:
    """A condition is compiled only if it or the kind of parameters changes: accepted conditions stay accepted."""
    async with Environment() as env:
        call = Caller(env)
        condition = {"name": "c", "expression": "params == null"}
        await write(call, policy("Validating", "p", **GOOD, paramKind=PARAMS, matchConditions=[condition]))
        url = f"{HOOKS}/validatingadmissionpolicies/p"
        touched = await call("PATCH", url, {"spec": {"failurePolicy": "Ignore"}}, content_type=MERGE)
        assert (touched.status, touched.json["metadata"]["generation"]) == (200, 2)
        broken = await call("PATCH", url, {"spec": {"paramKind": None}}, content_type=MERGE)
        assert (broken.status, broken.json["details"]["causes"][0]["field"]) == (
            422,
            "spec.matchConditions[0].expression",
        )


GOOD_CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Fine",
    "message": "",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("status", "field", "message"),
    [
        ({"conditions": [{**GOOD_CONDITION, "status": "Maybe"}]}, "conditions[0].status", '"False", "True", "Unknown"'),
        ({"conditions": [{**GOOD_CONDITION, "reason": ""}]}, "conditions[0].reason", "Required value"),
        (
            {"conditions": [{**GOOD_CONDITION, "reason": "no reason"}]},
            "conditions[0].reason",
            "a condition reason must",
        ),
        ({"conditions": [{**GOOD_CONDITION, "type": "a b"}]}, "conditions[0].type", "name part must consist of"),
        ({"conditions": [GOOD_CONDITION, GOOD_CONDITION]}, "conditions[1].type", "Duplicate value"),
        (
            {"conditions": [{**GOOD_CONDITION, "observedGeneration": -1}]},
            "conditions[0].observedGeneration",
            "must be greater than or equal to zero",
        ),
        (
            {"typeChecking": {"expressionWarnings": [{"fieldRef": "spec.x", "warning": ""}]}},
            "typeChecking.expressionWarnings[0].warning",
            "Required value",
        ),
    ],
)
async def test_what_controllers_say_is_checked_too(status: JsonObject, field: str, message: str) -> None:
    """Conditions and type checks in a policy's status are validated; valid ones are stored."""
    async with Environment() as env:
        call = Caller(env)
        created = (await write(call, policy("Validating", "p", **GOOD))).json
        url = f"{HOOKS}/validatingadmissionpolicies/p/status"
        errors = faults(await call("PUT", url, {**created, "status": status}))
        assert [(error, message in text) for error, text in errors] == [(f"status.{field}", True)], errors
        stored = await call("PUT", url, {**created, "status": {"conditions": [GOOD_CONDITION]}})
        assert stored.json["status"]["conditions"] == [GOOD_CONDITION]


async def test_tables_show_what_policies_take_and_do() -> None:
    """Tables of policies show counts, kinds of parameters, and references by name or selector."""
    async with Environment() as env:
        call = Caller(env)
        await write(call, policy("Mutating", "p", **CHANGES, paramKind=PARAMS))
        expressions = [{"key": "a", "operator": "In", "values": ["x", "y"]}]
        selector = {"matchLabels": {"k": "v"}, "matchExpressions": expressions}
        ref = {"selector": selector, "parameterNotFoundAction": "Allow"}
        await write(call, binding("Mutating", "a", "p", paramRef=REF))
        await write(call, binding("Mutating", "b", "p", paramRef=ref))
        await write(call, binding("Mutating", "c", "p"))
        cells = []
        for resource in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"):
            accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
            table = (await call("GET", f"{HOOKS}/{resource}", accept=accept)).json
            cells += [row["cells"][:3] for row in table["rows"]]
        selector_text = (
            "&LabelSelector{MatchLabels:map[string]string{k: v,},MatchExpressions:[]LabelSelectorRequirement{"
            "LabelSelectorRequirement{Key:a,Operator:In,Values:[x y],},},}"
        )
        assert cells == [["p", 1, "v1/ConfigMap"], ["a", "p", "*/x"], ["b", "p", selector_text], ["c", "p", "<unset>"]]
