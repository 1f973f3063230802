"""Plugins that are off by default, and topology labels."""

from __future__ import annotations

from typing import Any

from server_caller import Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

CORE = "/api/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def pod(name: str, **spec: Any) -> JsonObject:
    """A pod."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


async def test_every_pod_needs_a_service_account() -> None:
    """A pod without existing service account is rejected; with one, a token is mounted unless that is disabled."""
    async with Environment(admission_plugins="ServiceAccount") as env:
        call = Caller(env)
        answer = await call("POST", f"{CORE}/pods", pod("p"))
        assert answer.json["message"] == (
            'pods "p" is forbidden: error looking up service account default/default:'
            ' serviceaccount "default" not found'
        )
        account = {"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "s"}]}
        await call("POST", f"{CORE}/serviceaccounts", account)
        spec = (await call("POST", f"{CORE}/pods", pod("p"))).json["spec"]
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
        assert spec["imagePullSecrets"] == [{"name": "s"}]
        mount = spec["containers"][0]["volumeMounts"][0]
        assert mount["name"] == spec["volumes"][0]["name"]
        assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
        quiet = (await call("POST", f"{CORE}/pods", pod("q", automountServiceAccountToken=False))).json["spec"]
        assert "volumes" not in quiet


async def test_a_change_of_owners_needs_the_permission_to_delete() -> None:
    """A change of owners needs the permission to delete the object, and a blocking owner that to finalize the owner."""
    async with Environment(admission_plugins=["OwnerReferencesPermissionEnforcement"]) as env:
        admin, user = Caller(env), env.add_user("alice")
        alice = Caller(env, user.config.token)

        async def allow(name: str, *verbs: str, resource: str = "configmaps") -> None:
            rules = [{"apiGroups": [""], "resources": [resource], "verbs": list(verbs)}]
            await admin("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
            subjects = [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]
            body = {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}
            assert (await admin("POST", f"{RBAC}/clusterrolebindings", body)).status == 201

        owner = {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u", "blockOwnerDeletion": True}
        owned = {"metadata": {"name": "c", "ownerReferences": [owner]}}
        await allow("make", "create", "update")
        answer = await alice("POST", f"{CORE}/configmaps", owned)
        assert "you can't set finalizers on: " in answer.json["message"]
        strange = {"metadata": {"name": "c", "ownerReferences": [{**owner, "kind": "Odd"}]}}
        answer = await alice("POST", f"{CORE}/configmaps", strange)
        assert "cannot find RESTMapping for APIVersion v1 Kind Odd" in answer.json["message"]
        await allow("hold", "update", resource="secrets/finalizers")
        assert (await alice("POST", f"{CORE}/configmaps", owned)).status == 201
        # Whoever creates an object may set its owners; a change of them could delete what others created.
        bare = {"metadata": {"name": "c"}}
        answer = await alice("PUT", f"{CORE}/configmaps/c", bare)
        assert "cannot set an ownerRef on a resource you can't delete: " in answer.json["message"]
        await allow("remove", "delete")
        assert (await alice("PUT", f"{CORE}/configmaps/c", bare)).status == 200


async def test_pods_tell_where_they_run() -> None:
    """A binding copies zone and region labels of the node to the pod, and no other labels."""
    async with Environment() as env:
        call = Caller(env)
        labels = {"topology.kubernetes.io/zone": "z", "other": "o"}
        await call("POST", "/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})
        await call("POST", f"{CORE}/pods", pod("p"))
        body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
        assert (await call("POST", f"{CORE}/pods/p/binding", body)).status == 201
        bound = (await call("GET", f"{CORE}/pods/p")).json
        assert bound["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z"}
        direct = await call("POST", f"{CORE}/pods", pod("q", nodeName="n"))
        assert direct.json["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z"}
