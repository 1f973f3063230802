"""What goes wrong outside is named, and never a silent stall."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

import envtest
from opsdk import Cluster, ObjectMeta, Unstructured, crd_for
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object
from opsdk.apiserver.auth.authorization import AuthorizerAttributes, Decision
from opsdk.builder.operator import Operator
from opsdk.controller.options import ControllerOptions
from opsdk.errors import (
    CacheSyncError,
    ConnectError,
    DecodeError,
    ForbiddenError,
    NoMatchError,
    ShutdownTimeoutError,
    UnauthorizedError,
)
from opsdk.event.request import Request
from opsdk.manager.manager import ManagerOptions
from opsdk.rest.config import RestConfig


class ThingSpec(Model):
    """What a Thing wants."""

    size: int


class Thing(Object[ThingSpec, Model]):
    """A kind of the tests."""

    gvk = GroupVersionKind("test.opsdk.dev", "v1", "Thing")


def loose_definition() -> Unstructured:
    """The definition of Thing, with a schema that takes anything as its spec."""
    tree = crd_for(Thing)
    schema = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return Unstructured.from_tree(tree)


def thing(name: str, size: object) -> Unstructured:
    """A Thing whose size may be anything."""
    meta = {"name": name, "namespace": "default"}
    return Unstructured.from_tree(
        {"apiVersion": "test.opsdk.dev/v1", "kind": "Thing", "metadata": meta, "spec": {"size": size}}
    )


async def test_a_refused_connection_is_a_connect_error() -> None:
    """An unreachable server is a ConnectError that names it."""
    async with Cluster(RestConfig(host="http://127.0.0.1:1")) as cluster:
        with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
            await cluster.uncached.get(ConfigMap, "default/a")


async def test_wrong_credentials() -> None:
    """A token that the server does not know is an UnauthorizedError; the token is not in it."""
    async with envtest.Environment() as env, Cluster(replace(env.config, token="wrong-token")) as cluster:
        with pytest.raises(UnauthorizedError) as caught:
            await cluster.uncached.list(ConfigMap)
        assert "wrong-token" not in str(caught.value)


async def test_a_kind_that_is_not_served() -> None:
    """The error names the kind and says what to do."""
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        with pytest.raises(NoMatchError, match="Kind=Thing: install its CRD"):
            await cluster.uncached.list(Thing)


class NoSecrets:
    """Everything but reading many config maps."""

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        """Deny two verbs on one resource."""
        denied = attributes.resource == "configmaps" and attributes.verb in ("list", "watch")
        return Decision(allowed=not denied)


async def test_a_denied_list_names_verb_resource_and_scope() -> None:
    """A controller that may not list ends the operator; the error has verb, resource and scope."""
    async with envtest.Environment(authorizer=NoSecrets()) as env:
        operator = Operator("tester")

        @operator.reconciler(ConfigMap, options=ControllerOptions(cache_sync_timeout=30))
        async def reconcile(request: Request) -> None: ...

        with pytest.raises(CacheSyncError, match='cannot list resource "configmaps"') as caught:
            await operator.start(env.config)
        assert isinstance(caught.value.__cause__, ForbiddenError)
        assert asyncio.get_running_loop().time() == pytest.approx(30, abs=1)


async def test_an_undecodable_object_is_left_out_of_its_list() -> None:
    """An undecodable object is logged and left out, its own reconcile is retried, and others continue."""
    names: list[str] = []
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(loose_definition())
        for name, size in (("good", 1), ("bad", "big"), ("fine", 2)):
            await cluster.uncached.create(thing(name, size))
        listed = await cluster.uncached.list(Thing)
        assert [t.metadata.name for t in listed] == ["fine", "good"]
        assert [(u.key.name, u.gvk.kind) for u in listed.undecodable] == [("bad", "Thing")]
        assert "size" in listed.undecodable[0].error
        with pytest.raises(DecodeError, match=r"default/bad.*size"):
            await cluster.uncached.get(Thing, "default/bad")

        operator = Operator("tester")

        @operator.reconciler(Thing)
        async def reconcile(request: Request) -> None:
            names.append((await operator.client.get(Thing, request.key)).metadata.name)

        working = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(5)
        assert sorted(names) == ["fine", "good"]
        mended = await cluster.uncached.get(unstructured_kind("test.opsdk.dev/v1", "Thing"), "default/bad")
        mended["spec"]["size"] = 3
        await cluster.uncached.update(mended)
        await asyncio.sleep(5)
        assert sorted(set(names)) == ["bad", "fine", "good"]
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_a_reconciler_that_does_not_stop_is_named() -> None:
    """A reconcile that ignores its cancellation ends in a ShutdownTimeoutError that names its key, in bounded time."""
    stuck = asyncio.Event()
    release = asyncio.Event()
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="tar-pit", namespace="default")))
        operator = Operator("tester")
        operator_options = ControllerOptions(shutdown_timeout=2)

        @operator.reconciler(ConfigMap, options=operator_options)
        async def reconcile(request: Request) -> None:
            if request.name == "tar-pit":
                stuck.set()
                while not release.is_set():
                    try:
                        await release.wait()
                    except asyncio.CancelledError:
                        continue

        manager = operator.prepare(env.config)
        assert isinstance(manager.options, ManagerOptions)
        running = asyncio.create_task(manager.start())
        await stuck.wait()
        began = asyncio.get_running_loop().time()
        manager.stop()
        with pytest.raises(ShutdownTimeoutError, match="tar-pit"):
            await running
        assert asyncio.get_running_loop().time() - began < 45
        release.set()
        await operator.cluster.aclose()
