"""Snapshots, restores and forks of environments."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path
from typing import Any

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConfigError
from opsdk.structured_merge.value import JsonObject
from tests.envtest.plane.test_install import definition

CM = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/x.example.com/v1/namespaces/default/things"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SERVICES = "/api/v1/namespaces/default/services"


def named(name: str, **more: Any) -> JsonObject:
    """An object."""
    return {"metadata": {"name": name}, **more}


async def test_objects_come_back_and_go_again() -> None:
    """A restore removes created objects, brings back deleted ones, and reverts changes."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CM, named("kept", data={"a": "1"}))
        await call("POST", CM, named("deleted"))
        snapshot = env.snapshot()
        await call("PUT", f"{CM}/kept", named("kept", data={"a": "2"}))
        await call("DELETE", f"{CM}/deleted")
        await call("POST", CM, named("new"))
        env.restore(snapshot)
        items = (await call("GET", CM)).json["items"]
        assert {i["metadata"]["name"]: i.get("data") for i in items} == {"kept": {"a": "1"}, "deleted": None}


async def test_a_thousand_writes_are_undone() -> None:
    """A restore removes what was written since the snapshot."""
    async with Environment() as env:
        call = Caller(env)
        snapshot = env.snapshot()
        for number in range(1000):
            await call("POST", CM, named(f"c{number}"))
        env.restore(snapshot)
        assert (await call("GET", CM)).json["items"] == []


async def test_open_watches_fail() -> None:
    """Open watches get a 410 and end; old resource versions get a 410 too."""
    async with Environment() as env:
        call = Caller(env)
        snapshot = env.snapshot()
        old = (await call("GET", CM)).json["metadata"]["resourceVersion"]
        async with call.watch(f"{CM}?watch=1&resourceVersion={old}") as events:
            await call("POST", CM, named("a"))
            assert (await events.get())["type"] == "ADDED"
            env.restore(snapshot)
            events_sent = await events.get()
            assert (events_sent["type"], events_sent["object"]["code"], events_sent["object"]["reason"]) == (
                "ERROR",
                410,
                "Expired",
            )
            assert await events.get() is None
        async with call.watch(f"{CM}?watch=1&resourceVersion={old}") as events:
            assert (await events.get())["object"]["code"] == 410


async def test_informers_heal() -> None:
    """After a restore, a cache converges to the restored objects."""
    from opsdk.api.core.v1 import ConfigMap
    from opsdk.apimachinery.meta import ObjectMeta

    async with Environment() as env, Cluster(env.config) as cluster:
        client = cluster.client
        await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"x": "1"}))
        snapshot = env.snapshot()
        running = asyncio.ensure_future(cluster.start())
        await cluster.wait_ready()
        assert len(await client.list(ConfigMap, namespace="default")) == 1
        await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="b", namespace="default")))
        env.restore(snapshot)

        async def healed() -> bool:
            return [c.metadata.name for c in await client.list(ConfigMap, namespace="default")] == ["a"]

        await env.eventually(healed, within=60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_custom_resources_follow() -> None:
    """After a restore, exactly the restored definitions are served, with their former schemas."""
    async with Environment(crds=[definition("things")]) as env:
        call = Caller(env)
        await call("POST", THINGS, named("a", apiVersion="x.example.com/v1", kind="Thing"))
        with_definition = env.snapshot()
        await call("DELETE", f"{CRDS}/things.x.example.com")
        assert (await call("GET", THINGS)).status == 404
        without = env.snapshot()
        env.restore(with_definition)
        assert [i["metadata"]["name"] for i in (await call("GET", THINGS)).json["items"]] == ["a"]
        assert (await call("GET", "/apis/x.example.com/v1")).json["resources"][0]["name"] == "things"
        env.restore(without)
        assert (await call("GET", THINGS)).status == 404
        assert (await call("GET", "/apis/x.example.com/v1")).status == 404


async def test_addresses_and_permissions_follow_a_restore() -> None:
    """After a restore, allocated addresses and permissions match the restored objects."""
    async with Environment() as env:
        call, bob = Caller(env), env.add_user("bob")
        theirs = Caller(env, bob.token)
        port = {"ports": [{"port": 80}], "clusterIP": "10.0.0.7"}
        binding = {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        empty = env.snapshot()
        assert (await theirs("GET", CM)).status == 403
        await call("POST", f"{RBAC}/clusterrolebindings", binding)
        assert (await call("POST", SERVICES, named("one", spec=port))).status == 201
        full = env.snapshot()
        env.restore(empty)
        assert (await theirs("GET", CM)).status == 403
        assert (await call("POST", SERVICES, named("two", spec=port))).status == 201
        env.restore(full)
        assert (await theirs("GET", CM)).status == 200
        assert (await call("POST", SERVICES, named("two", spec=port))).status == 422


async def test_webhook_configurations_follow_a_restore() -> None:
    """After a restore, removed webhooks are not called."""
    refused = {
        "metadata": {"name": "w"},
        "webhooks": [
            {
                "name": "w.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }
        ],
    }
    async with Environment() as env:
        call, snapshot = Caller(env), env.snapshot()
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        assert (await call("POST", path, refused)).status == 201
        assert (await call("POST", CM, named("a"))).status == 500
        env.restore(snapshot)
        assert (await call("POST", CM, named("a"))).status == 201


def policy(refused: str) -> JsonObject:
    """A policy against ConfigMaps of one name."""
    rules = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
    return {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": f"object.metadata.name != '{refused}'"}],
        },
    }


async def test_compiled_policies_follow() -> None:
    """After a restore, policies are compiled again, even if two histories share a generation."""
    root = "/apis/admissionregistration.k8s.io/v1"
    async with Environment() as env:
        call = Caller(env)
        path = f"{root}/validatingadmissionpolicies"
        binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
        await call("POST", path, policy("a"))
        assert (await call("POST", f"{root}/validatingadmissionpolicybindings", binding)).status == 201
        base, pasts = env.snapshot(), {}
        for refused in "bc":
            changed = {**(await call("GET", f"{path}/p")).json, "spec": policy(refused)["spec"]}
            assert (await call("PUT", f"{path}/p", changed)).json["metadata"]["generation"] == 2
            pasts[refused] = env.snapshot()
            assert (await call("POST", CM, named(refused))).status == 422
            env.restore(base)
        for refused, allowed in (("b", "c"), ("c", "b"), ("b", "c")):
            env.restore(pasts[refused])
            assert (await call("POST", CM, named(refused))).status == 422
            assert (await call("POST", CM, named(allowed))).status == 201


async def test_forks_keep_every_option() -> None:
    """A fork gets every option of its environment that is not in the storage."""
    parameters = set(inspect.signature(Environment.__init__).parameters) - {"self"}
    stored = {"data_dir", "storage", "snapshot", "tokens", "crds", "crd_paths", "webhooks"}
    assert set(Environment()._again) == parameters - stored


@pytest.mark.slow
async def test_simulated_controllers_follow_a_restore() -> None:
    """After a restore, simulated controllers work on the restored objects."""
    pod = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    async with Environment(controllers="cluster") as env:
        call = Caller(env)
        path, pods = "/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces/default/pods"

        async def count() -> int:
            return len((await call("GET", pods)).json["items"])

        async def has(wanted: int) -> bool:
            return await count() == wanted

        snapshot = env.snapshot()
        for _ in range(3):
            await call("POST", path, named("d", spec=spec))
            await env.eventually(lambda: has(2), within=60)
            env.restore(snapshot)
            await env.consistently(lambda: has(0), during=60)


async def test_forks_are_independent() -> None:
    """A fork starts with equal objects and users; later changes stay separate."""
    async with Environment(crds=[definition("things")]) as env:
        call, bob = Caller(env), env.add_user("bob", groups=["system:masters"])
        await call("POST", CM, named("shared"))
        async with env.fork() as fork:
            there = Caller(fork, bob.token)
            assert (await there("GET", f"{CM}/shared")).status == 200
            assert (await there("GET", THINGS)).status == 200
            await there("DELETE", f"{CM}/shared")
            await call("POST", CM, named("later"))
            assert (await call("GET", f"{CM}/shared")).status == 200
            assert (await there("GET", f"{CM}/later")).status == 404
        assert (await call("GET", CM)).status == 200


class _Plain:
    """A storage that can do what the port asks, and no more."""

    def __init__(self) -> None:
        self._inner = MemoryStorage()

    def __getattr__(self, name: str) -> Any:
        if name in ("snapshot", "restore"):
            raise AttributeError(name)
        return getattr(self._inner, name)


async def test_storages_without_snapshots_say_so() -> None:
    """A storage without snapshots raises an error that says so."""
    async with Environment(storage=_Plain()) as env:
        with pytest.raises(ConfigError, match="takes no snapshots"):
            env.snapshot()


def descriptors() -> int:
    """How many files and sockets are open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.realtime
@pytest.mark.slow
async def test_a_hundred_environments_leave_nothing() -> None:
    """A hundred environments leave no task, no thread and no file descriptor."""
    async with Environment():
        pass
    threads, files = threading.active_count(), descriptors()
    for number in range(100):
        async with Environment(controllers="cluster" if number % 10 == 0 else "none") as env:
            assert (await Caller(env)("GET", "/readyz")).status == 200
            async with env.fork() as fork:
                assert (await Caller(fork)("GET", CM)).status == 200
    assert threading.active_count() == threads
    assert descriptors() <= files
