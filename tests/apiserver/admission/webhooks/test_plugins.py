"""Admission webhooks: selection, order and effects of responses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from inprocess_webhooks import HOOKS, Hooks, configure, hook, patch
from server_caller import MERGE, Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

CM = "/api/v1/namespaces/default/configmaps"
ALLOW = {"allowed": True}


async def test_a_configuration_is_in_force_with_the_next_request() -> None:
    """A configuration applies from the next write after its creation until its deletion."""
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: {"allowed": False, "status": {"message": "no", "code": 403}}), Caller(env)
        hooks.join(env)
        assert (await call("POST", CM, {"metadata": {"name": "a"}})).status == 201
        assert (await configure(call, hook())).status == 201
        refused = await call("POST", CM, {"metadata": {"name": "b"}})
        assert refused.status == 403
        assert refused.json["message"] == 'admission webhook "x.hooks.example.com" denied the request: no'
        assert (await call("GET", f"{CM}/b")).status == 404
        await call("DELETE", f"{HOOKS}/validatingwebhookconfigurations/conf")
        assert (await call("POST", CM, {"metadata": {"name": "b"}})).status == 201


async def test_mutating_webhooks_run_in_the_order_of_their_configurations() -> None:
    """Webhooks run by name of configuration, then as listed; each sees the results of those before it."""

    def append(path: str, request: JsonObject) -> JsonObject:
        notes = request["object"]["metadata"].get("annotations") or {}
        return patch({"op": "add", "path": "/metadata/annotations", "value": {"seen": notes.get("seen", "") + path}})

    async with Environment() as env:
        hooks, call = Hooks(append), Caller(env)
        hooks.join(env)
        await configure(call, hook("a", "/3"), hook("b", "/4"), kind="Mutating", name="z")
        await configure(call, hook("z", "/1"), hook("a", "/2"), kind="Mutating", name="a")
        response = await call("POST", CM, {"metadata": {"name": "a"}})
        assert response.json["metadata"]["annotations"] == {"seen": "/1/2/3/4"}


async def test_a_webhook_that_wants_to_is_asked_again_once_others_changed_the_object() -> None:
    """With IfNeeded, a webhook is called once more after a later change; with Never it is not."""

    def answer(path: str, request: JsonObject) -> JsonObject:
        changes = path == "/changes" and "data" not in request["object"]
        return patch({"op": "add", "path": "/data", "value": {"by": "hook"}}) if changes else ALLOW

    async with Environment() as env:
        hooks, call = Hooks(answer), Caller(env)
        hooks.join(env)
        eager = hook("a", "/eager", reinvocationPolicy="IfNeeded")
        await configure(call, eager, hook("b", "/once"), hook("c", "/changes"), kind="Mutating")
        await call("POST", CM, {"metadata": {"name": "a"}})
        assert hooks.paths() == ["/eager", "/once", "/changes", "/eager"]
        hooks.asked.clear()
        await call("POST", CM, {"metadata": {"name": "b"}, "data": {"x": "y"}})
        assert hooks.paths() == ["/eager", "/once", "/changes"]


async def test_validating_webhooks_are_called_at_once_and_the_first_refusal_wins() -> None:
    """Validating webhooks run concurrently, and the first denial is the response."""

    async def slow(path: str, _: JsonObject) -> JsonObject:
        await asyncio.sleep(2 if path == "/last" else 1)
        return {"allowed": False, "status": {"message": path}}

    async with Environment() as env:
        hooks, call = Hooks(slow), Caller(env)
        hooks.join(env)
        await configure(call, hook("a", "/last"), hook("b", "/first"))
        before = asyncio.get_running_loop().time()
        refused = await call("POST", CM, {"metadata": {"name": "a"}})
        assert asyncio.get_running_loop().time() - before == pytest.approx(2, abs=0.1)
        assert refused.json["message"].endswith("denied the request: /first")


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_that_hangs_costs_its_timeout_and_no_more(policy: str, status: int) -> None:
    """After timeoutSeconds, the failure policy decides about a webhook that hangs."""

    async def hang(_: str, __: JsonObject) -> JsonObject:
        await asyncio.sleep(3600)
        return ALLOW

    async with Environment() as env:
        hooks, call = Hooks(hang), Caller(env)
        hooks.join(env)
        await configure(call, hook(timeoutSeconds=3, failurePolicy=policy))
        before = asyncio.get_running_loop().time()
        answer = await call("POST", CM, {"metadata": {"name": "a"}})
        assert asyncio.get_running_loop().time() - before == pytest.approx(3, abs=0.1)
        assert answer.status == status
        if policy == "Fail":
            assert answer.json["message"] == (
                'Internal error occurred: failed calling webhook "x.hooks.example.com": failed to call webhook: Post'
                ' "https://hooks.test:443/x?timeout=3s": context deadline exceeded'
            )


@pytest.mark.parametrize(
    ("kind", "answer", "why"),
    [
        ("Validating", {"uid": "other"}, "received invalid webhook response: expected response.uid="),
        ("Validating", {"patch": "W10="}, "invalid webhook response: validating webhook may not return response.patch"),
        ("Mutating", {"patch": "W10="}, "webhook returned response.patch but not response.patchType"),
        ("Mutating", {"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch"),
        ("Mutating", {"patch": "W3t9XQ==", "patchType": "Other"}, 'unsupported patch type "Other"'),
        ("Validating", {"allowed": "yes"}, "unmarshal string into Go struct field AdmissionResponse.response.allowed"),
        ("Validating", b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "webhook response was absent"),
        ("Validating", b'{"response":{"uid":""}}', "expected response.uid="),
        ("Validating", b"[]", "cannot unmarshal array into Go value"),
        ("Validating", b"", "0-length response with status code: 200"),
        ("Validating", b'{"a": ' + b"[" * 100_000, "exceeded max depth"),
    ],
)  # fmt: skip
async def test_an_answer_that_breaks_the_rules_fails_the_call(kind: str, answer: Any, why: str) -> None:
    """An invalid response is an internal error that names the webhook, or is ignored, by the failure policy."""
    async with Environment() as env:
        result = {"allowed": True, **answer} if isinstance(answer, dict) else answer
        hooks, call = Hooks(lambda _, __: result), Caller(env)
        hooks.join(env)
        await configure(call, hook(), kind=kind)
        refused = await call("POST", CM, {"metadata": {"name": "a"}})
        assert (refused.status, refused.json["reason"]) == (500, "InternalError")
        assert why in refused.json["message"]
        change = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
        url = f"{HOOKS}/{kind.lower()}webhookconfigurations/conf"
        assert (await call("PATCH", url, change, content_type="application/json-patch+json")).status == 200
        assert (await call("POST", CM, {"metadata": {"name": "a"}})).status == 201


@pytest.mark.parametrize(
    ("status", "code", "reason", "text"),
    [
        (None, 400, None, "denied the request without explanation"),
        ({"message": "m", "code": 200}, 400, None, "denied the request: m"),
        ({"reason": "R"}, 400, "R", "denied the request: R"),
        ({"message": "m", "reason": "Invalid", "code": 422}, 422, "Invalid", "denied the request: m"),
        ({"message": "m", "code": 9999}, 400, None, "denied the request: m"),
    ],
)
async def test_refusals_carry_code_reason_and_message(status: Any, code: int, reason: Any, text: str) -> None:
    """A denial has the webhook's code, reason and message; a code that is not an error becomes 400."""
    async with Environment() as env:
        result = {"allowed": False} if status is None else {"allowed": False, "status": status}
        hooks, call = Hooks(lambda _, __: result), Caller(env)
        hooks.join(env)
        await configure(call, hook())
        refused = await call("POST", CM, {"metadata": {"name": "a"}})
        assert (refused.status, refused.json.get("reason")) == (code, reason)
        assert refused.json["message"].endswith(text)


@pytest.mark.parametrize(
    ("operations", "why"),
    [
        ([{"op": "remove", "path": "/metadata/labels/x"}], 'doc is missing path: "/metadata/labels/x": missing value'),
        ([{"op": "remove", "path": "/metadata/x"}], "Unable to remove nonexistent key: x: missing value"),
        ([{"op": "test", "path": "/kind", "value": "X"}], "testing value /kind failed: test failed"),
        ([{"op": "add", "path": "/data", "value": 7}], "cannot unmarshal"),
    ],
)
async def test_a_patch_that_does_not_fit_is_an_internal_error(operations: list[JsonObject], why: str) -> None:
    """A patch that cannot be applied is a 500 with the message of the json-patch library, and changes nothing."""
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: patch(*operations)), Caller(env)
        hooks.join(env)
        await configure(call, hook(failurePolicy="Ignore"), kind="Mutating")
        refused = await call("POST", CM, {"metadata": {"name": "a"}})
        assert refused.status == 500
        assert why in refused.json["message"]


async def test_warnings_reach_the_client_once() -> None:
    """Equal warnings of two webhooks make one header; line breaks cannot inject another header."""
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: {"allowed": True, "warnings": ["a\r\nx-forged: 1", "b"]}), Caller(env)
        hooks.join(env)
        await configure(call, hook("a"), hook("b"))
        response = await call("POST", CM, {"metadata": {"name": "a"}})
        assert response.status == 201
        assert "x-forged" not in response.headers


async def test_namespaces_and_objects_are_selected_by_labels() -> None:
    """A namespace selector uses the present labels; an object selector the new or the old object."""
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: ALLOW), Caller(env)
        hooks.join(env)
        await configure(
            call,
            hook("a", "/ns", namespaceSelector={"matchLabels": {"watched": "yes"}}),
            hook("b", "/obj", objectSelector={"matchExpressions": [{"key": "k", "operator": "Exists"}]}),
        )
        await call("POST", CM, {"metadata": {"name": "a", "labels": {"k": "v"}}})
        assert hooks.paths() == ["/obj"]
        await call(
            "PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"watched": "yes"}}}, content_type=MERGE
        )
        hooks.asked.clear()
        await call("PATCH", f"{CM}/a", {"metadata": {"labels": None}}, content_type=MERGE)
        assert sorted(hooks.paths()) == ["/ns", "/obj"]
        hooks.asked.clear()
        await call("DELETE", f"{CM}/a")
        assert hooks.paths() == ["/ns"]


async def test_webhooks_cannot_stand_in_the_way_of_their_own_configuration() -> None:
    """A webhook that denies everything can still be changed and removed."""
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: {"allowed": False}), Caller(env)
        hooks.join(env)
        rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
        await configure(call, hook(rules=[rule]))
        assert (await call("POST", CM, {"metadata": {"name": "a"}})).status == 400
        assert (await call("DELETE", f"{HOOKS}/validatingwebhookconfigurations/conf")).status == 200


async def test_a_dry_run_does_not_call_what_has_side_effects() -> None:
    """A review shows the dry run; a configuration cannot declare unknown side effects."""
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: ALLOW), Caller(env)
        hooks.join(env)
        await configure(call, hook(sideEffects="NoneOnDryRun"))
        assert (await call("POST", f"{CM}?dryRun=All", {"metadata": {"name": "a"}})).status == 201
        assert hooks.asked[0][1]["dryRun"] is True
        refused = await configure(call, hook(sideEffects="Some"), name="other")
        assert refused.status == 422


async def test_match_conditions_decide_before_the_call() -> None:
    """A false condition skips the webhook even if others have errors; with Fail, only errors reject the request."""
    wrong = {"name": "wrong", "expression": "object.data.missing == 'x'"}
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: {"allowed": False}), Caller(env)
        hooks.join(env)
        await configure(call, hook(matchConditions=[wrong, {"name": "no", "expression": "false"}]))
        assert (await call("POST", CM, {"metadata": {"name": "a"}})).status == 201
        await configure(call, hook(matchConditions=[wrong]), name="other")
        refused = await call("POST", CM, {"metadata": {"name": "b"}})
        assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
        assert "resulted in error: no such key: data" in refused.json["message"]
        assert not hooks.asked


async def test_a_match_condition_may_use_the_authorizer() -> None:
    """A match condition may check the permissions of the requesting user."""
    allowed = "authorizer.group('').resource('configmaps').namespace('default').check('delete').allowed()"
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: {"allowed": False}), Caller(env)
        hooks.join(env)
        await configure(call, hook(matchConditions=[{"name": "may", "expression": allowed}]))
        assert (await call("POST", CM, {"metadata": {"name": "a"}})).status == 400
        assert len(hooks.asked) == 1


async def test_connections_are_reviewed() -> None:
    """Running a command in a pod is a CONNECT with its options as the object."""
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: {"allowed": False}), Caller(env)
        hooks.join(env)
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await call("POST", "/api/v1/namespaces/default/pods", pod)
        rule = {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]}
        await configure(call, hook(rules=[rule]))
        refused = await call("POST", "/api/v1/namespaces/default/pods/p/exec?command=ls&command=-l&stdin=true")
        assert refused.status == 400
        request = hooks.asked[0][1]
        assert (request["operation"], request["subResource"], request["options"]) == ("CONNECT", "exec", None)
        tree = {"kind": "PodExecOptions", "apiVersion": "v1", "stdin": True, "command": ["ls", "-l"]}
        assert request["object"] == tree


async def test_a_patch_of_custom_resources_is_pruned_and_defaulted() -> None:
    """Fields that a webhook adds to a custom resource are pruned and defaulted by its schema."""
    async with Environment() as env:
        hooks = Hooks(lambda _, __: patch({"op": "add", "path": "/spec", "value": {"extra": 1}}))
        call = Caller(env)
        hooks.join(env)
        spec = {"type": "object", "default": {}, "properties": {"size": {"type": "integer", "default": 3}}}
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        }
        names = {"plural": "things", "kind": "Thing"}
        definition = {
            "metadata": {"name": "things.x.example.com"},
            "spec": {"group": "x.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
        }
        response = await call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        assert response.status == 201, response.json
        rule = {"operations": ["CREATE"], "apiGroups": ["x.example.com"], "apiVersions": ["*"], "resources": ["things"]}
        await configure(call, hook(rules=[rule]), kind="Mutating")
        url = "/apis/x.example.com/v1/namespaces/default/things"
        thing = {"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
        assert (await call("POST", url, thing)).json["spec"] == {"size": 3}


async def test_without_webhooks_nothing_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configurations are read once, not for each write."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CM, {"metadata": {"name": "a"}})
        reads: list[str] = []
        real = type(env.plane.storage).list

        def counted(self: Any, prefix: str, **more: Any) -> Any:
            reads.append(prefix)
            return real(self, prefix, **more)

        monkeypatch.setattr(type(env.plane.storage), "list", counted)
        for number in range(5):
            await call("POST", CM, {"metadata": {"name": f"b{number}"}})
        assert not [prefix for prefix in reads if "webhook" in prefix]


async def test_equivalent_versions_are_matched_unless_the_policy_is_exact() -> None:
    """A rule for v1 of autoscalers sees those written as v2, in its own version."""
    async with Environment() as env:
        hooks, call = Hooks(lambda _, __: ALLOW), Caller(env)
        hooks.join(env)
        rule = {
            "operations": ["CREATE"],
            "apiGroups": ["autoscaling"],
            "apiVersions": ["v1"],
            "resources": ["horizontalpodautoscalers"],
        }
        await configure(call, hook("a", "/eq", rules=[rule]), hook("b", "/exact", rules=[rule], matchPolicy="Exact"))
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
        body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
        url = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
        assert (await call("POST", url, body)).status == 201
        [(path, request)] = hooks.asked
        assert (path, request["kind"]["version"], request["requestKind"]["version"]) == ("/eq", "v1", "v2")
        assert request["object"]["apiVersion"] == "autoscaling/v1"
        assert json.dumps(request["object"]["spec"]["targetCPUUtilizationPercentage"]) == "80"
