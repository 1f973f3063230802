"""Expressions and schemas that take long: the loop serves others, and results are those of the cost budget."""

from __future__ import annotations

import threading

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.cel.environment import Program
from opsdk.structured_merge.value import JsonObject

pytestmark = pytest.mark.realtime
MAPS = "/api/v1/namespaces/default/configmaps"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NESTED = "object.data.all(a, object.data.all(b, object.data.all(c, a + b != c + 'x')))"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The threads that complete an evaluation."""
    names: set[str] = set()
    run = Program.run

    def counted(self: Program, *args: object, **kwargs: object) -> object:
        outcome = run(self, *args, **kwargs)  # type: ignore[arg-type]
        names.add(threading.current_thread().name.partition("_")[0])
        return outcome

    monkeypatch.setattr(Program, "run", counted)
    return names


async def add_policy(call: Caller, expression: str, **more: object) -> None:
    """Create a policy for ConfigMaps, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    validation = {"expression": expression}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation], **more}
    tree: JsonObject = {"metadata": {"name": "p"}, "spec": spec}
    assert (await call("POST", f"{REGISTRATION}/validatingadmissionpolicies", tree)).status == 201
    binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    assert (await call("POST", f"{REGISTRATION}/validatingadmissionpolicybindings", binding)).status == 201


@pytest.mark.parametrize("through_variable", [False, True])
@pytest.mark.slow
async def test_a_long_policy_leaves_the_loop(threads: set[str], through_variable: bool) -> None:
    """The budget of cost ends it as upstream's does; the same policy decides small objects on the loop."""
    async with Environment() as env:
        call = Caller(env)
        if through_variable:
            await add_policy(call, "variables.v", variables=[{"name": "v", "expression": NESTED}])
        else:
            await add_policy(call, NESTED)
        small = await call("POST", MAPS, {"metadata": {"name": "small"}, "data": {"a": "b"}})
        assert small.status == 201
        assert threads == {"MainThread"}
        data = {f"k{number:03}": "v" for number in range(100)}
        large = await call("POST", MAPS, {"metadata": {"name": "large"}, "data": data})
        assert "operation cancelled: actual cost limit exceeded" in large.json["message"]
        assert "large-work" in threads


async def test_many_rules_leave_the_loop(threads: set[str]) -> None:
    """A small object whose rules take long is checked in the thread, and refused for what the rules say."""
    rules = [{"rule": f"self.a != 'b{number}'", "message": f"not b{number}"} for number in range(600)]
    properties = {"a": {"type": "string", "maxLength": 10}}
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": rules}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions},
    }
    widget = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "a"}, "spec": {"a": "b599"}}
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", DEFINITIONS, definition)).status == 201
        threads.clear()
        refused = await call("POST", "/apis/example.com/v1/widgets", widget)
        assert refused.status == 422
        assert [cause["message"] for cause in refused.json["details"]["causes"]] == ["Invalid value: not b599"]
        assert "large-work" in threads
