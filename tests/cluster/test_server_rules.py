"""What the client and the cache do with the rules of a whole API server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from client_fakes import Site, site

from opsdk.api.core.v1 import ConfigMap, Container, Pod, PodSpec, ServiceAccount
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.builder.controller_builder import ControllerBuilder
from opsdk.cache.options import ByObject, CacheOptions
from opsdk.cache.store import Delta, DeltaType
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster, ClusterOptions
from opsdk.errors import InvalidError
from opsdk.event.request import Request
from opsdk.manager.manager import Manager
from opsdk.manager.phases import Phase

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


@asynccontextmanager
async def connected(warnings: list[str] | None = None, **options: Any) -> AsyncIterator[Cluster]:
    """A cluster over a fresh server, not started."""
    heard = [] if warnings is None else warnings
    async with (
        environment.Environment() as env,
        Cluster(env.config, ClusterOptions(**options), on_warning=lambda _, text: heard.append(text)) as cluster,
    ):
        yield cluster


def config(name: str = "a", **meta: Any) -> ConfigMap:
    """A config map."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", **meta))


@pytest.mark.behaviour(5)
async def test_an_update_of_a_custom_kind_needs_a_resource_version() -> None:
    """Without one the server's refusal is raised, and nothing is tried again."""
    async with connected() as cluster:
        await cluster.uncached.create(Unstructured.from_tree(crd_for(Site)))
        await asyncio.sleep(2)
        obj = await cluster.uncached.create(site(namespace="default"))
        version, obj.metadata.resource_version = obj.metadata.resource_version, ""
        with pytest.raises(InvalidError, match="resourceVersion"):
            await cluster.uncached.update(obj)
        assert (await cluster.uncached.get(Site, "default/a")).metadata.resource_version == version


@pytest.mark.behaviour(17)
async def test_the_field_owner_is_the_manager() -> None:
    """The client's owner is in managedFields; the owner of a call wins."""
    async with connected(field_owner="operator") as cluster:
        for owner, expected in (("", "operator"), ("other", "other")):
            created = await cluster.uncached.create(config(f"by-{expected}", labels={"a": "b"}), field_owner=owner)
            assert [entry.manager for entry in created.metadata.managed_fields] == [expected]


@pytest.mark.behaviour(18)
async def test_an_unknown_field_may_be_a_warning() -> None:
    """With Warn the object is stored without the field, and the handler hears of it."""
    warnings: list[str] = []
    async with connected(warnings) as cluster:
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "odd": 1}
        created = await cluster.uncached.create(Unstructured.from_tree(tree), field_validation="Warn")
        assert "odd" not in created
        assert warnings == ['unknown field "odd"']


@pytest.mark.behaviour(22)
async def test_tokens_bindings_evictions_and_scales() -> None:
    """Each is a subresource with a body of its own kind, which gets the name and namespace of its parent."""
    async with connected() as cluster:
        client = cluster.uncached
        account = await client.create(ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default")))
        request = Unstructured("authentication.k8s.io/v1", "TokenRequest", content={"spec": {"audiences": []}})
        token: Any = await client.subresource("token").create(account, request)
        assert token["status"]["token"]
        assert token.metadata.name == "robot"
        spec = PodSpec(containers=[Container(name="c", image="i")])
        pod = await client.create(Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=spec))
        target = {"target": {"kind": "Node", "name": "somewhere"}}
        await client.subresource("binding").create(pod, Unstructured("v1", "Binding", content=target))
        assert (await client.get(Pod, "default/p")).spec.node_name == "somewhere"
        await client.subresource("eviction").create(pod, Unstructured("policy/v1", "Eviction"))
        evicted = await client.get_or_none(Pod, "default/p")
        assert evicted is None or evicted.metadata.deletion_timestamp is not None


@pytest.mark.behaviour(35)
async def test_an_object_that_loses_its_label_leaves_the_cache() -> None:
    """A cache of one label reports it as deleted; with the label back it is there again."""
    selected = ByObject(label_selector=LabelRequirements.parse("keep=yes"))
    async with connected(cache=CacheOptions(by_kind={ConfigMap.gvk: selected})) as cluster:
        await cluster.uncached.create(config(labels={"keep": "yes"}))
        await cluster.uncached.create(config("other"))
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        assert [item.metadata.name for item in await cluster.client.list(ConfigMap)] == ["a"]
        deltas: list[Delta] = []
        (await cluster.cache.informer_for(ConfigMap)).add_handler(deltas.append)
        for label in (None, "yes"):
            await cluster.uncached.patch(config(), merge_patch({"metadata": {"labels": {"keep": label}}}))
            await asyncio.sleep(1)
            assert len(await cluster.client.list(ConfigMap)) == (0 if label is None else 1)
        assert [delta.change for delta in deltas] == [DeltaType.ADDED, DeltaType.DELETED, DeltaType.ADDED]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.behaviour(113)
async def test_a_second_cluster_is_ready_before_reconcilers_start() -> None:
    """A second cluster's cache has synced before the first reconcile, and its client and mapper are its own."""
    async with connected() as home, connected(name="away") as away:
        await home.uncached.create(config("here"))
        await away.uncached.create(config("there"))
        await away.cache.informer_for(ConfigMap)
        assert home.client is not away.client
        assert home.recorder is not away.recorder
        assert home.mapper is not away.mapper
        manager = Manager()
        records: list[tuple[bool, list[str]]] = []

        async def reconcile(request: Request) -> None:
            if request.name == "here":
                synced = all(kind.has_synced for kind in away.cache.kinds())
                records.append((synced, [item.metadata.name for item in await away.client.list(ConfigMap)]))

        for cluster in (home, away):
            manager.add(cluster, phase=Phase.CACHES)
        ControllerBuilder(home.cache, manager=manager).for_(ConfigMap).reconciler(reconcile).complete()
        running = asyncio.create_task(manager.start())
        await asyncio.sleep(10)
        manager.stop()
        await running
        assert len(records) == 1
        assert records[0][0]
        assert "there" in records[0][1]
        assert "here" not in records[0][1]
