"""Lists and watches of a live server for users with partial permissions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import envtest
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apiserver.auth.user import User
from opsdk.cache.store import Delta, DeltaType
from opsdk.client.client import Client
from opsdk.norman.collections.access_set import VisibleObjects
from opsdk.norman.collections.access_set_store import AccessSetStore
from opsdk.norman.collections.filter import FilterOperator
from opsdk.norman.collections.kind_list import KindList, ListForm
from opsdk.norman.collections.query import ID, ObjectQuery, SortKey
from opsdk.norman.errors import NormanError
from tests.norman.collections.kit import config_map, grant, only, reader, revoke, rule, running_cluster

ANN = User(name="ann")
ALL = VisibleObjects(everything=True)
BY_ID = SortKey(ID)


@asynccontextmanager
async def config_maps() -> AsyncIterator[tuple[KindList, Client, Callable[[str], VisibleObjects]]]:
    """ConfigMaps a, b, c in namespaces n and m, the admin's client, and what ann sees with a verb."""
    async with envtest.Environment() as env, running_cluster(env) as cluster:
        client = cluster.uncached
        for namespace in ("n", "m"):
            await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
            for name in "abc":
                await config_map(client, namespace, name, size=name)
        cached = await cluster.cache.informer_for(ConfigMap)
        async with (
            AccessSetStore(cluster.cache) as store,
            KindList(cached, ListForm("", reader, lambda tree: tree)) as objects,
        ):
            yield objects, client, lambda verb: store.access_for(ANN).visible(verb, "", "configmaps", namespaced=True)


async def listed(objects: KindList, visible: VisibleObjects, sort: SortKey = BY_ID, limit: int = 0) -> list[str]:
    """The names of a list of ConfigMaps, without those of the cluster itself."""
    filters = (only(FilterOperator.NOT_EQUALS, "metadata.name", "kube-root-ca.crt"),)
    page = await objects.page(ObjectQuery(filters=filters, sort=(sort,), visible=visible, limit=limit))
    return [str(item.key) for item in page.entries if item.key.namespace in ("n", "m")]


async def test_a_user_of_two_names_lists_and_pages_just_these() -> None:
    """A role for two names shows only these, on a page too."""
    async with config_maps() as (objects, client, visible):
        assert await listed(objects, visible("list")) == []
        await grant(client, "ann", rule("get", names=["a", "c"]), namespace="n")
        await asyncio.sleep(1)
        assert await listed(objects, visible("list")) == ["n/a", "n/c"]
        assert await listed(objects, visible("list"), SortKey(ID, descending=True), limit=1) == ["n/c"]


async def test_a_user_of_a_namespace_lists_just_this_one_until_the_role_is_taken_away() -> None:
    """After the role is revoked, the next list is empty."""
    async with config_maps() as (objects, client, visible):
        await grant(client, "ann", rule("list"), namespace="m")
        await asyncio.sleep(1)
        by_size = SortKey(("data", "size"), descending=True)
        assert await listed(objects, visible("list"), by_size) == ["m/c", "m/b", "m/a"]
        await revoke(client, "ann", namespace="m")
        await asyncio.sleep(1)
        assert await listed(objects, visible("list")) == []


async def test_a_watch_shows_what_the_user_may_watch() -> None:
    """A watch omits events of other names and namespaces; a resumed watch sends the missed ones."""
    async with config_maps() as (objects, client, visible):
        await grant(client, "ann", rule("watch", names=["a"]), namespace="n")
        await asyncio.sleep(1)
        revision = objects.objects.revision
        events = objects.watch(visible("watch"), revision=revision)
        for namespace, name in (("m", "a"), ("n", "b"), ("n", "a")):
            changed = await client.get(ConfigMap, f"{namespace}/{name}")
            changed.data["size"] = "x"
            await client.update(changed)
        await client.delete(ConfigMap, "n/a")
        events_read = [await anext(events) for _ in range(2)]
        assert [(e.is_removal, str(e.entry.key)) for e in events_read] == [(False, "n/a"), (True, "n/a")]
        resumed = objects.watch(visible("watch"), revision=events_read[0].revision)
        assert (await anext(resumed)).is_removal


async def test_a_list_after_a_write_shows_the_write() -> None:
    """A write and a deletion are waited for; one that never shows ends the wait."""
    async with config_maps() as (objects, client, _):
        created, key = await config_map(client, "n", "new"), ObjectKey("n", "new")
        await objects.wait_shown(key, created.metadata.resource_version)
        assert "n/new" in await listed(objects, ALL)
        await client.delete(ConfigMap, "n/new")
        await objects.wait_shown(key, None)
        assert "n/new" not in await listed(objects, ALL)
        before = asyncio.get_running_loop().time()
        await objects.wait_shown(key, "99999999")
        assert asyncio.get_running_loop().time() - before == 3


async def test_a_watch_from_a_revision_before_the_first_list_is_a_410() -> None:
    """A watch from before the first list is a 410."""
    async with config_maps() as (objects, _, _visible):
        with pytest.raises(NormanError, match="list again") as caught:
            await anext(objects.watch(ALL, revision=1))
        assert caught.value.status == 410


async def test_a_reader_that_does_not_read_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events for a slow client are bounded; beyond that, its watch ends with a 410."""
    async with config_maps() as (objects, client, _):
        monkeypatch.setattr(objects.changes, "_queue_size", 2)
        events = objects.watch(VisibleObjects(names={None: frozenset({"slow"})}))
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        for number in range(4):
            await config_map(client, "n", f"o{number}")
        await config_map(client, "n", "slow")
        assert (await first).entry.key.name == "slow"
        for namespace in ("n", "m", "default", "kube-system"):
            await config_map(client, namespace, "slow2")
        await asyncio.sleep(1)
        with pytest.raises(NormanError, match="too slow") as caught:
            await anext(events)
        assert (caught.value.status, caught.value.code) == (410, "Gone")


async def test_a_missed_deletion_reaches_watches_that_resume() -> None:
    """A missed deletion increments the revision, so that resumed watches get it."""
    async with config_maps() as (objects, _, _visible):
        before = objects.objects.revision
        missed = objects.objects.get(ObjectKey("n", "a"))
        objects._on_delta(Delta(change=DeltaType.DELETED, old=missed, final_state_unknown=True))
        event = await anext(objects.watch(ALL, revision=before))
        assert (event.is_removal, event.revision) == (True, before + 1)


async def test_a_closed_list_ends_its_watches() -> None:
    """A closed list, such as that of a deleted definition, ends its watches."""
    async with config_maps() as (objects, _, _visible):
        waiting = asyncio.ensure_future(anext(objects.watch(ALL), None))
        await asyncio.sleep(1)
        await objects.aclose()
        assert await waiting is None
