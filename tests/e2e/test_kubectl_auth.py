"""The real kubectl's commands about users and permissions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opsdk.structured_merge.value import JsonObject

pytestmark = [pytest.mark.e2e, pytest.mark.realtime]


async def test_auth_whoami_and_can_i(stage: Any) -> None:
    """``auth whoami`` and ``auth can-i`` answer for the user, for others and as a list."""
    try:
        await stage.server()
        assert "system:masters" in await stage.kubectl("auth", "whoami")
        assert await stage.kubectl("auth", "can-i", "*", "*") == "yes\n"
        assert (await stage.kubectl("auth", "can-i", "list", "pods", "--as=bob", check=False)).startswith("no")
        await stage.kubectl("create", "clusterrolebinding", "bob", "--clusterrole=view", "--user=bob")
        assert await stage.kubectl("auth", "can-i", "list", "pods", "--as=bob") == "yes\n"
        assert "configmaps" in await stage.kubectl("auth", "can-i", "--list", "--as=bob")
        refused = await stage.kubectl("get", "secrets", "--as=bob", check=False)
        assert 'User "bob" cannot list resource "secrets" in API group "" in the namespace "default"' in refused
    finally:
        await stage.close()


@pytest.mark.slow
async def test_service_accounts_have_tokens_and_roles(stage: Any) -> None:
    """``create token`` makes a token with which the account may what ``create role`` and ``rolebinding`` gave it."""
    try:
        await stage.server()
        await stage.kubectl("create", "serviceaccount", "robot")
        await stage.kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
        await stage.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:robot")
        token = (await stage.kubectl("create", "token", "robot", "--duration=10m")).strip()
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await stage.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review))
        assert json.loads(answer)["status"]["user"]["username"] == "system:serviceaccount:default:robot"
        for name in ("client-certificate-data", "client-key-data"):
            await stage.kubectl("config", "unset", f"users.envtest.{name}")
        robot = ("--token", token)
        assert "kube-root-ca.crt" in await stage.kubectl(*robot, "get", "configmaps")
        assert "Forbidden" in await stage.kubectl(*robot, "get", "secrets", check=False)
        assert "Unauthorized" in await stage.kubectl("--token", f"{token}x", "get", "configmaps", check=False)
    finally:
        await stage.close()


async def test_roles_are_reconciled(stage: Any) -> None:
    """``auth reconcile`` makes a role, and adds what it lacks the next time."""
    try:
        await stage.server()
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
        role: JsonObject = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
        role |= {"metadata": {"name": "r"}, "rules": [rule]}
        for verbs in (["get"], ["get", "list"]):
            rule["verbs"] = verbs
            await stage.kubectl("auth", "reconcile", "-f", "-", stdin=json.dumps(role))
        document = json.loads(await stage.kubectl("get", "clusterrole", "r", "-o", "json"))
        assert {verb for r in document["rules"] for verb in r["verbs"]} == {"get", "list"}
    finally:
        await stage.close()
