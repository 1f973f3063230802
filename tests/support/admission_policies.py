"""Policies and bindings, written through a server of this process."""

from __future__ import annotations

from typing import Any

from inprocess_webhooks import HOOKS
from server_caller import Answer, Caller

from opsdk.structured_merge.value import JsonObject

CM = "/api/v1/namespaces/default/configmaps"
RULE: JsonObject = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}
PARAMS: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap"}


def says(expression: str, **more: Any) -> JsonObject:
    """A validation."""
    return {"expression": expression, **more}


def applies(expression: str) -> JsonObject:
    """A mutation by an apply configuration."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patches(expression: str) -> JsonObject:
    """A mutation by a JSON patch."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy(kind: str, name: str, match: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A policy about configmaps, unless `match` says otherwise."""
    version = "admissionregistration.k8s.io/v1"
    constraints = {"resourceRules": [RULE], **(match or {})}
    whole = {"matchConstraints": constraints, **spec}
    return {
        "apiVersion": version,
        "kind": f"{kind}AdmissionPolicy",
        "metadata": {"name": name},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def binding(kind: str, name: str, of: str, **spec: Any) -> JsonObject:
    """A binding of the policy `of`."""
    actions = {"validationActions": ["Deny"]} if kind == "Validating" else {}
    version = "admissionregistration.k8s.io/v1"
    tree = {"apiVersion": version, "kind": f"{kind}AdmissionPolicyBinding", "metadata": {"name": name}}
    return {**tree, "spec": {"policyName": of, **actions, **spec}}


async def write(call: Caller, obj: JsonObject, *, query: str = "") -> Answer:
    """Create a policy or a binding."""
    plural = obj["kind"].lower() + "s" if obj["kind"].endswith("Binding") else obj["kind"].lower()[:-1] + "ies"
    return await call("POST", f"{HOOKS}/{plural}{query}", obj)


async def bind(
    call: Caller, *validations: JsonObject, name: str = "p", bound: JsonObject | None = None, **spec: Any
) -> None:
    """A validating policy, bound."""
    response = await write(call, policy("Validating", name, validations=list(validations), **spec))
    assert response.status == 201, response.json["message"]
    response = await write(call, binding("Validating", name, name, **(bound or {})))
    assert response.status == 201, response.json["message"]


async def bind_mutation(
    call: Caller, *mutations: JsonObject, name: str = "m", bound: JsonObject | None = None, **spec: Any
) -> None:
    """A mutating policy, bound."""
    spec = {"reinvocationPolicy": "Never", **spec}
    response = await write(call, policy("Mutating", name, mutations=list(mutations), **spec))
    assert response.status == 201, response.json["message"]
    response = await write(call, binding("Mutating", name, name, **(bound or {})))
    assert response.status == 201, response.json["message"]


async def put(call: Caller, name: str = "a", url: str = CM, *, query: str = "", **body: Any) -> Answer:
    """Create an object; ``labels`` belong to its metadata."""
    meta: JsonObject = {"name": name}
    if "labels" in body:
        meta["labels"] = body.pop("labels")
    return await call("POST", f"{url}{query}", {"metadata": meta, **body})


def denied(answer: Answer) -> str:
    """Why a validating policy refused; empty where none did."""
    if answer.status < 300:
        return ""
    message: str = answer.json["message"]
    assert " denied request: " in message, message
    return message.partition(" denied request: ")[2]
