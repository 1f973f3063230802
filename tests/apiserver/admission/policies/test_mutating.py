"""Mutating admission policies: changes, order and failures."""

from __future__ import annotations

from typing import Any

import pytest
from admission_policies import CM, PARAMS, RULE, applies, bind, bind_mutation, denied, patches, put, says
from inprocess_webhooks import Hooks, configure, hook, patch
from server_caller import APPLY, MERGE, Answer, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

LABEL = applies("Object{metadata: Object.metadata{labels: {'by': 'policy'}}}")
PODS = "/api/v1/namespaces/default/pods"
OF_PODS: JsonObject = {"resourceRules": [{**RULE, "resources": ["pods"]}]}
UNFIT = "error applying patch: failed to convert patch object to typed object"
ROOT = "which matches field name path from root Object type"
MISNAMED = "type mismatch: unexpected type name"
KEY = "path: '/metadata/annotations/' + jsonpatch.escapeKey('example.com/~')"
ESCAPED = (
    f"[JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{}}}}, JSONPatch{{op: 'add', {KEY}, value: 'x'}},"
    " JSONPatch{op: 'move', from: '/metadata/annotations/example.com~1~0', path: '/data/l'}]"
)
NO_SOURCE = "operation does not apply: doc is missing from path: /no/pe"
BEYOND = "Unable to access invalid index: 9: invalid index referenced"
POD = {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}}


def refused(answer: Answer) -> str:
    """Why a mutating policy could not be followed."""
    assert (answer.status, answer.json["code"]) == (403, 403), answer.json
    lead, _, reason = answer.json["message"].partition(" denied request: ")
    assert lead == "policy 'm' with binding 'm'"
    assert answer.json["reason"] == "Invalid"
    return str(reason)


async def test_a_configuration_is_merged_as_an_apply_would_be() -> None:
    """Maps gain entries, keyed lists are matched by their keys, nothing is removed, and defaults follow."""
    env_of_d = "Object.spec.containers{name: 'd', env: [Object.spec.containers.env{name: 'A', value: '1'}]}"
    sidecar = "Object.spec.containers{name: 'side', image: 'proxy'}"
    expression = f"Object{{spec: Object.spec{{containers: [{env_of_d}, {sidecar}]}}}}"
    async with Environment() as env:
        call = Caller(env)
        await bind_mutation(call, applies(expression), matchConstraints=OF_PODS)
        stored = (await put(call, "p", PODS, labels={"mine": "yes"}, **POD)).json
        result = {c["name"]: (c["image"], c.get("env"), c["imagePullPolicy"]) for c in stored["spec"]["containers"]}
        assert result == {
            "c": ("i", None, "Always"),
            "d": ("j", [{"name": "A", "value": "1"}], "Always"),
            "side": ("proxy", None, "Always"),
        }
        assert stored["metadata"]["labels"] == {"mine": "yes"}


async def test_mutations_follow_each_other() -> None:
    """Each mutation sees the results of those before it, within a policy and across policies by name."""
    add = "Object{metadata: Object.metadata{annotations: {'seen': %s}}}"
    before = "(has(object.metadata.annotations) ? object.metadata.annotations['seen'] : '')"
    async with Environment() as env:
        call = Caller(env)
        for name in ("z", "b"):
            steps = [applies(add % f"{before} + '{name}{step}'") for step in (1, 2)]
            await bind_mutation(call, *steps, name=name)
        response = await put(call)
        assert response.json["metadata"]["annotations"] == {"seen": "b1b2z1z2"}


async def test_changes_count_for_every_way_of_writing() -> None:
    """Policies change creates, updates, patches and applies, but not deletions."""
    async with Environment() as env:
        call = Caller(env)
        await bind_mutation(call, LABEL)
        assert (await put(call)).json["metadata"]["labels"] == {"by": "policy"}
        gone = {"metadata": {"labels": None}, "data": {"k": "v"}}
        changed = await call("PATCH", f"{CM}/a", gone, content_type=MERGE)
        assert changed.json["metadata"]["labels"] == {"by": "policy"}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
        applied = await call("PATCH", f"{CM}/b?fieldManager=m", config, content_type=APPLY)
        assert applied.json["metadata"]["labels"] == {"by": "policy"}
        assert (await call("DELETE", f"{CM}/a")).status == 200


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ("[JSONPatch{op: 'add', path: '/data/new', value: request.operation}]", {"k": "v", "new": "CREATE"}),
        ("[JSONPatch{op: 'replace', path: '/data/k', value: object.data.k + '!'}]", {"k": "v!"}),
        ("[JSONPatch{op: 'copy', from: '/data/k', path: '/data/l'}]", {"k": "v", "l": "v"}),
        ("[JSONPatch{op: 'move', from: '/data/k', path: '/data/l'}]", {"l": "v"}),
        ("[JSONPatch{op: 'remove', path: '/data/k'}]", {}),
        ("[JSONPatch{op: 'test', path: '/data/k', value: 'v'}, JSONPatch{op: 'remove', path: '/data/k'}]", {}),
        ("[JSONPatch{op: 'remove', path: '/data/k'}, JSONPatch{op: 'test', path: '/data', value: 1}]", {"k": "v"}),
        (ESCAPED, {"k": "v", "l": "x"}),
        ("[JSONPatch{op: 'replace', path: '/data', value: {'a': '1'}}]", {"a": "1"}),
        ("[JSONPatch{op: 'add', path: '/data', value: Object.data{a: '1'}}]", {"a": "1"}),
        ("object.data.size() > 5 ? [JSONPatch{op: 'remove', path: '/data'}] : []", {"k": "v"}),
    ],
)
async def test_patches_are_lists_of_operations(operations: str, data: JsonObject) -> None:
    """Every operation works; a failed test leaves everything as it was."""
    async with Environment() as env:
        call = Caller(env)
        await bind_mutation(call, patches(operations))
        response = await put(call, data={"k": "v"})
        assert response.status == 201, response.json["message"]
        assert response.json.get("data", {}) == data


@pytest.mark.parametrize(
    ("mutation", "why"),
    [
        (
            applies("Object{data: {'x': object.data.none}}"),
            "expression 'Object{data: {'x': object.data.none}}' resulted in error: no such key: none",
        ),
        (
            applies("Object{metadata: Object.wrong{labels: {'a': 'b'}}}"),
            f'{MISNAMED} "Object.wrong", expected "Object.metadata", {ROOT}',
        ),
        (
            applies("Object{nothing: 5}"),
            f"{UNFIT}: .nothing: field not declared in schema",
        ),
        (
            patches("[JSONPatch{op: 'remove', path: '/data/none'}]"),
            "JSON Patch: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
        ),
    ],
)
async def test_what_cannot_be_done_is_refused_unless_failures_are_ignored(mutation: JsonObject, why: str) -> None:
    """With Fail, a failure rejects the request and names the policy; with Ignore, the object stays unchanged."""
    async with Environment() as env:
        call = Caller(env)
        await bind_mutation(call, mutation, name="ignoring", failurePolicy="Ignore")
        response = await put(call, data={"k": "v"})
        assert (response.status, response.json["data"]) == (201, {"k": "v"})
        await bind_mutation(call, mutation)
        assert refused(await put(call, "b", data={"k": "v"})) == why


async def test_parts_that_are_only_replaced_as_a_whole_are_not_applied() -> None:
    """An atomic list in an apply configuration is an error, because it would remove unnamed elements."""
    async with Environment() as env:
        call = Caller(env)
        expression = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}"
        await bind_mutation(call, applies(expression), matchConstraints=OF_PODS)
        reason = refused(await put(call, "p", PODS, **POD))
        text = "may not mutate atomic arrays, maps or structs: .spec.containers[0].args"
        assert reason == f"error applying patch: invalid ApplyConfiguration: {text}"


async def test_all_failures_are_reported() -> None:
    """The first failure gives the message, and each is a cause; conditions and parameters can fail too."""
    async with Environment() as env:
        call = Caller(env)
        broken = patches("[JSONPatch{op: 'remove', path: '/data/none'}]")
        condition = {"name": "c", "expression": "object.missing == 1"}
        await bind_mutation(call, LABEL, name="n", matchConditions=[condition])
        expected = {"paramRef": {"name": "none", "parameterNotFoundAction": "Deny"}}
        await bind_mutation(call, LABEL, name="o", paramKind=PARAMS, bound=expected)
        await bind_mutation(call, broken, name="m")
        answer = await put(call, data={"k": "v"})
        causes = [cause["message"] for cause in answer.json["details"]["causes"]]
        assert answer.json["message"] == causes[0]
        assert [text.split("'")[1] for text in causes] == ["o", "m", "n"]
        assert "failed to configure binding: no params found" in causes[0]


async def test_the_order_is_policies_then_webhooks_then_validation() -> None:
    """Mutating policies come before mutating webhooks; validating policies see the outcome of both."""

    def answer(_: str, request: JsonObject) -> JsonObject:
        assert request["object"]["metadata"]["labels"] == {"by": "policy"}
        return patch({"op": "add", "path": "/metadata/labels/also", "value": "webhook"})

    async with Environment() as env:
        hooks, call = Hooks(answer), Caller(env)
        hooks.join(env)
        await configure(call, hook(), kind="Mutating")
        await bind_mutation(call, LABEL)
        await bind(call, says("false", messageExpression="string(object.metadata.labels.size())"))
        assert denied(await put(call)) == "2"


@pytest.mark.parametrize(("reinvocation", "seen"), [("Never", "0"), ("IfNeeded", "1")])
async def test_a_policy_that_wants_to_is_followed_again_after_later_changes(reinvocation: str, seen: str) -> None:
    """With IfNeeded, a policy runs once more after a webhook has changed the object."""
    count = "object.metadata.?labels.orValue({}).size()"
    note = applies(f"Object{{metadata: Object.metadata{{annotations: {{'labels': string({count})}}}}}}")

    def answer(_: str, request: JsonObject) -> JsonObject:
        labelled: Any = request["object"]["metadata"].get("labels")
        change = {"op": "add", "path": "/metadata/labels", "value": {"late": "yes"}}
        return {"allowed": True} if labelled else patch(change)

    async with Environment() as env:
        hooks, call = Hooks(answer), Caller(env)
        hooks.join(env)
        await configure(call, hook(), kind="Mutating")
        await bind_mutation(call, note, reinvocationPolicy=reinvocation)
        stored = (await put(call)).json["metadata"]
        assert stored["annotations"] == {"labels": seen}
        assert stored["labels"] == {"late": "yes"}


@pytest.mark.parametrize(("reinvocation", "count"), [("Never", "1"), ("IfNeeded", "2")])
async def test_a_policy_is_reinvoked_after_any_change(reinvocation: str, count: str) -> None:
    """With IfNeeded, a policy runs a second time after any change, its own included, and never a third time."""
    more = applies("Object{data: {'n': string(int(object.data.n) + 1)}}")
    async with Environment() as env:
        call = Caller(env)
        await bind_mutation(call, more, reinvocationPolicy=reinvocation)
        assert (await put(call, data={"n": "0"})).json["data"] == {"n": count}


async def test_no_policy_moves_an_object_to_another_namespace() -> None:
    """A mutation that changes the namespace is rejected."""
    async with Environment() as env:
        call = Caller(env)
        await bind_mutation(call, applies("Object{metadata: Object.metadata{namespace: 'other'}}"))
        refused = await put(call)
        assert refused.status == 400
        text = "the namespace of the provided object does not match the namespace sent on the request"
        assert refused.json["message"] == text


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (
            "op: 'move', from: '/no/pe', path: '/data/k'",
            f"move {NO_SOURCE}",
        ),
        (
            "op: 'copy', from: '/no/pe', path: '/data/k'",
            f"copy {NO_SOURCE}",
        ),
        ("op: 'test', path: '/no/pe', value: 1", "test operation does not apply: is missing path: /no/pe"),
        (
            "op: 'move', from: '/data/x', path: '/data/k'",
            "error in move for path: 'x': Unable to remove nonexistent key: x",
        ),
    ],
)
async def test_operations_that_miss_their_place_are_reported(operation: str, why: str) -> None:
    """A failing JSON patch operation has the error message of upstream's library."""
    async with Environment() as env:
        call = Caller(env)
        await bind_mutation(call, patches(f"[JSONPatch{{{operation}}}]"))
        assert refused(await put(call, data={"k": "v"})) == f"JSON Patch: {why}: missing value"


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (
            "op: 'add', path: '/spec/containers/9', value: {}",
            BEYOND,
        ),
        ("op: 'remove', path: '/spec/containers/9'", BEYOND),
        ("op: 'remove', path: '/spec/containers/x'", 'strconv.Atoi: parsing "x": invalid syntax'),
        (
            "op: 'add', path: '/spec/containers/x', value: {}",
            "value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
    ],
)
async def test_indices_that_are_none_are_reported(operation: str, why: str) -> None:
    """An index beyond the end, or one that is not a number, is an error."""
    async with Environment() as env:
        call = Caller(env)
        await bind_mutation(call, patches(f"[JSONPatch{{{operation}}}]"), matchConstraints=OF_PODS)
        errors = refused(await put(call, "p", PODS, **POD))
        assert errors.startswith("JSON Patch: error in ")
        assert errors.endswith(f"': {why}")


async def test_mutations_read_parameters_and_variables() -> None:
    """A mutation may use parameters through variables, and runs once for each parameter."""
    expression = "Object{metadata: Object.metadata{labels: variables.wanted}}"
    variables = [{"name": "wanted", "expression": "{params.metadata.name: params.data.value}"}]
    condition = {"name": "not-params", "expression": "!has(object.data.value)"}
    bound = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}
    async with Environment() as env:
        call = Caller(env)
        for name, value in (("tier", "gold"), ("zone", "west")):
            await put(call, name, data={"value": value})
        spec: JsonObject = {"paramKind": PARAMS, "variables": variables, "matchConditions": [condition]}
        await bind_mutation(call, applies(expression), bound=bound, failurePolicy="Ignore", **spec)
        response = await put(call, data={"k": "v"})
        assert response.json["metadata"]["labels"] == {"tier": "gold", "zone": "west"}


async def test_custom_resources_are_changed_by_their_schemas() -> None:
    """Custom resources are merged by the schema's list types, then pruned and defaulted."""
    port = {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}}}
    ports = {"type": "array", "items": {**port, "required": ["name"]}}
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    schema = {"type": "object", "properties": {"ports": {**ports, **keyed}, "size": {"type": "integer"}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.example.com"},
        "spec": {
            "group": "x.example.com",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    rule = {**RULE, "apiGroups": ["x.example.com"], "resources": ["things"]}
    async with Environment(crds=[definition]) as env:
        call = Caller(env)
        expression = "Object{ports: [Object.ports{name: 'web'}, Object.ports{name: 'b', port: 2}], size: 1 + 1}"
        await bind_mutation(call, applies(expression), matchConstraints={"resourceRules": [rule]})
        body = {"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
        body["ports"] = [{"name": "a", "port": 1}, {"name": "b", "port": 9}]
        response = await call("POST", "/apis/x.example.com/v1/namespaces/default/things", body)
        assert response.status == 201, response.json["message"]
        stored = {port["name"]: port["port"] for port in response.json["ports"]}
        assert (stored, response.json["size"]) == ({"a": 1, "b": 2, "web": 80}, 2)


async def test_a_patch_that_breaks_the_object_is_an_error_of_the_policy() -> None:
    """A patch with a field that the kind lacks is the policy's error, with the server's text."""
    async with Environment() as env:
        call = Caller(env)
        await bind_mutation(call, patches("[JSONPatch{op: 'add', path: '/nothing', value: 1}]"))
        answer = await put(call, data={"k": "v"})
        assert answer.status == 500
        assert 'strict decoding error: unknown field "nothing"' in answer.json["message"]
