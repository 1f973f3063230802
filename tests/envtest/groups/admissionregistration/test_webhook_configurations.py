"""Validation of webhook configurations."""

from __future__ import annotations

from typing import Any

import pytest
from inprocess_webhooks import HOOKS, configure, hook
from server_caller import Caller

from envtest.environment import Environment
from envtest.groups.common.webhook_client_config import validate_client_config
from opsdk.structured_merge.value import JsonObject


def rule(**more: Any) -> JsonObject:
    """Return a valid rule with the given changes."""
    right = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {**right, **more}


HAS = {"key": "a", "operator": "Has"}
CASES = [
    ({"name": "a.b"}, "name"),
    ({"name": ""}, "name"),
    ({"name": "A.b.c"}, "name"),
    ({"sideEffects": None}, "sideEffects"),
    ({"sideEffects": "Some"}, "sideEffects"),
    ({"admissionReviewVersions": []}, "admissionReviewVersions"),
    ({"admissionReviewVersions": ["v9"]}, "admissionReviewVersions"),
    ({"timeoutSeconds": 0}, "timeoutSeconds"),
    ({"timeoutSeconds": 31}, "timeoutSeconds"),
    ({"failurePolicy": "Perhaps"}, "failurePolicy"),
    ({"matchPolicy": "Loose"}, "matchPolicy"),
    ({"rules": [rule(operations=[])]}, "rules[0].operations"),
    ({"rules": [rule(operations=["*", "CREATE"])]}, "rules[0].operations"),
    ({"rules": [rule(operations=["GET"])]}, "rules[0].operations[0]"),
    ({"rules": [rule(apiGroups=["*", "apps"])]}, "rules[0].apiGroups"),
    ({"rules": [rule(apiVersions=[""])]}, "rules[0].apiVersions[0]"),
    ({"rules": [rule(resources=[])]}, "rules[0].resources"),
    ({"rules": [rule(resources=["*/*", "pods"])]}, "rules[0].resources"),
    ({"rules": [rule(resources=["*", "pods"])]}, "rules[0].resources"),
    ({"rules": [rule(resources=["pods/*", "pods/log"])]}, "rules[0].resources[1]"),
    ({"rules": [rule(scope="Town")]}, "rules[0].scope"),
    ({"objectSelector": {"matchLabels": {"a b": "c"}}}, "objectSelector.matchLabels"),
    ({"objectSelector": {"matchLabels": {"a": "b c"}}}, "objectSelector.matchLabels"),
    ({"namespaceSelector": {"matchExpressions": [HAS]}}, "namespaceSelector.matchExpressions[0].operator"),
    ({"matchConditions": [{"name": "", "expression": "true"}]}, "matchConditions[0].name"),
    ({"matchConditions": [{"name": "a", "expression": " "}]}, "matchConditions[0].expression"),
    ({"matchConditions": [{"name": "a", "expression": "1 +"}]}, "matchConditions[0].expression"),
    ({"matchConditions": [{"name": "a", "expression": "1"}]}, "matchConditions[0].expression"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "field"), CASES)
async def test_an_invalid_field_is_one_cause(change: JsonObject, field: str) -> None:
    """Each invalid field is one cause at its path, and the configuration is not stored."""
    async with Environment() as env:
        call = Caller(env)
        refused = await configure(call, {**hook(), **change})
        assert refused.status == 422, refused.json
        assert refused.json["details"]["causes"][0]["field"] == f"webhooks[0].{field}"
        assert (await call("GET", f"{HOOKS}/validatingwebhookconfigurations")).json["items"] == []


async def test_defaults_are_set() -> None:
    """A webhook without optional fields gets kube-apiserver's defaults."""
    async with Environment() as env:
        stored = (await configure(Caller(env), hook(), kind="Mutating")).json["webhooks"][0]
        assert stored["failurePolicy"] == "Fail"
        assert stored["matchPolicy"] == "Equivalent"
        assert stored["timeoutSeconds"] == 10
        assert stored["reinvocationPolicy"] == "Never"
        assert stored["rules"][0]["scope"] == "*"
        assert stored["namespaceSelector"] == stored["objectSelector"] == {}


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        ({"url": "https://a.example.com/x"}, []),
        ({}, [""]),
        ({"url": "https://a", "service": {"name": "a", "namespace": "b"}}, [""]),
        ({"url": "https://"}, [".url"]),
        ({"url": "https://a:b"}, [".url"]),
        ({"service": {"name": "a", "namespace": "b", "port": 443}}, []),
        ({"service": {"name": "a", "namespace": "b", "port": 70000}}, [".service.port"]),
        ({"service": {"name": "a", "namespace": "b", "path": "/a//b"}}, [".service.path"]),
        ({"service": {"name": "a", "namespace": "b", "path": "/"}}, []),
    ],
)
def test_a_client_config_names_one_place_to_call(config: JsonObject, fields: list[str]) -> None:
    """A client config has a valid URL or a valid Service, not both."""
    assert [cause.field for cause in validate_client_config(config, "c")] == [f"c{field}" for field in fields]
