"""Memory is bounded by live objects, not by names that ever lived."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from cache_world import THING, World
from container_sizes import container_sizes, growth

import envtest
from opsdk import Cluster, MergeFrom, ObjectMeta
from opsdk.api.core.v1 import ConfigMap, Secret, ServiceAccount
from opsdk.builder.arguments import WatchSpec
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.controller.context import Context
from opsdk.controller.controller import Controller
from opsdk.errors import OpsdkError
from opsdk.event.event import AnyEvent
from opsdk.event.handlers import EnqueueRequestForObject, EnqueueRequestsFromMapFunc
from opsdk.event.request import Request
from opsdk.event.sources import KindSource
from opsdk.rbac.observed import RuleRecorder

# Containers whose size is bounded by a constant that is larger than the growth that the tests allow.
_CONSTANT = (
    "opsdk.structured_merge.",  # caches of path elements and field sets
    "opsdk.children.ownership._decoded",
    "opsdk.children.canonical.",
    "opsdk.cache.entry.",
    "opsdk.controller.status.",
    "opsdk.rest.request.",
    "FieldSet.",
    "IdentityCache.",
    "RuleRecorder._names",
    "RuleRecorder._requests",
    "ObservedRequest.",
    # asyncio removes cancelled timers when they are the majority of more than 100.
    "VirtualLoop._scheduled",
)
JOURNAL_SIZE = 10


def grown(before: Any, after: Any, *, above: int) -> dict[str, int]:
    """What has grown, without the containers of constant size."""
    return {
        label: size for label, size in growth(before, after, above=above).items() if not label.startswith(_CONSTANT)
    }


class Holder:
    """Holds a container that another holder may hold too."""

    def __init__(self, items: list[int]) -> None:
        self.items = items


class OtherHolder(Holder):
    """A holder whose attribute has a label of its own."""


@pytest.mark.slow
async def test_a_shared_container_counts_for_each_class_that_holds_it() -> None:
    """A shared container counts once for each class that holds it, in any order of the walk."""
    shared = list(range(50))
    one, other = Holder(shared), OtherHolder(shared)
    sizes = container_sizes(one, other)
    assert sizes["Holder.items"] == sizes["OtherHolder.items"] == 50
    assert container_sizes(other, one, Holder(shared)) == sizes


def replica(name: str) -> Operator:
    """An operator with children, Events, a finalizer, and functions that raise for most objects."""
    options = OperatorOptions(
        leader_election=True, leader_election_namespace="default", leader_election_id="churn", journal_size=JOURNAL_SIZE
    )
    operator = Operator(name, options)

    def broken_map(obj: Any) -> list[Request]:
        raise RuntimeError(f"no request for {obj.metadata.name}")

    def broken_predicate(event: AnyEvent) -> bool:
        raise RuntimeError(f"no verdict for {event.view.key}")

    async def clean(site: ConfigMap, ctx: Context) -> None:
        ctx.event("Cleaned", f"cleaned {site.metadata.name}")

    @operator.reconciler(
        ConfigMap,
        owns=[Secret],
        watches=[
            WatchSpec(kind=ServiceAccount, handler=broken_map),
            WatchSpec(kind=Secret, handler=broken_map, predicates=[broken_predicate]),
        ],
        finalizers={"demo.opsdk.dev/clean": clean},
    )
    async def reconcile(site: ConfigMap, ctx: Context) -> None:
        if site.metadata.name.startswith("kube-"):
            return
        await ctx.apply(Secret(metadata=ObjectMeta(name=site.metadata.name), string_data={"a": site.metadata.name}))
        ctx.event("Applied", f"applied {site.metadata.name}")
        if site.metadata.name.endswith("7") and not ctx.attempt:
            raise RuntimeError("once")

    return operator


async def churn(cluster: Cluster, names: int, *, first: int) -> None:
    """Create objects, and delete them after their reconcile, 20 at a time."""
    for begin in range(first, first + names, 20):
        batch = [ObjectMeta(name=f"o{number}", namespace="default") for number in range(begin, begin + 20)]
        for meta in batch:
            await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name=meta.name, namespace="default")))
            await cluster.uncached.create(ServiceAccount(metadata=ObjectMeta(name=meta.name, namespace="default")))
        await asyncio.sleep(2)
        for meta in batch:
            site = await cluster.uncached.get(ConfigMap, f"default/{meta.name}")
            site.metadata.labels["changed"] = "yes"
            await cluster.uncached.patch(site, MergeFrom())
            await cluster.uncached.delete(site)
            await cluster.uncached.delete(ServiceAccount, f"default/{meta.name}")
        await asyncio.sleep(2)
    # Journals, series of Events and retries of deletions end within minutes.
    await asyncio.sleep(3600)


async def _assert_operators_are_bounded(names: int) -> None:
    recorder = RuleRecorder()
    async with (
        envtest.Environment(controllers=["garbage-collector-controller"]) as env,
        Cluster(env.config) as cluster,
    ):
        operators = [replica("one"), replica("two")]
        tasks = []
        try:
            for operator in operators:
                tasks.append(asyncio.create_task(operator.start(env.config, hooks=[recorder])))
                await asyncio.sleep(5)
            await churn(cluster, 20, first=0)
            gc.collect()
            before = container_sizes(*operators)
            await churn(cluster, names, first=100_000)
            assert list(await cluster.uncached.list(Secret, namespace="default")) == []
            gc.collect()
            after = container_sizes(*operators)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [result for result in results if isinstance(result, OpsdkError)] == []
    assert grown(before, after, above=max(20, names // 20)) == {}


@pytest.mark.slow
async def test_no_memory_of_a_leader_and_a_standby_grows_with_names() -> None:
    """Objects with children, Events, finalizers and raising functions come and go: every container is as before."""
    await _assert_operators_are_bounded(40)


@pytest.mark.slow
@pytest.mark.deep
async def test_no_memory_grows_with_a_thousand_names() -> None:
    """No container grows with a thousand names, which exceed any constant bound."""
    await _assert_operators_are_bounded(1000)


async def _assert_queues_are_bounded(names: int) -> None:
    world = World()
    server = world.server(THING)

    async def reconcile(request: Request) -> None:
        if request.name.endswith("7"):
            raise RuntimeError("not this one")

    def broken(obj: Any) -> list[Request]:
        # For one name in ten: the retries of all would take most of the time.
        if obj.metadata.name.endswith("3"):
            raise RuntimeError("no request")
        return []

    sources = [
        KindSource(world.cache, THING, handler)
        for _ in range(2)
        for handler in (EnqueueRequestForObject(), EnqueueRequestsFromMapFunc(broken))
    ]
    leader = Controller("leader", _reconcile_nothing, sources=sources[:2])
    standby = Controller("standby", reconcile, sources=sources[2:])
    tasks = [asyncio.create_task(start()) for start in (world.cache.start, leader.start, standby.warmup)]
    await asyncio.sleep(10)
    server.put("lives")
    await asyncio.sleep(1000)
    before = container_sizes(leader, standby, world.cache)
    for begin in range(0, names, 20):
        for number in range(begin, begin + 20):
            server.put(f"o{number}")
        await asyncio.sleep(0.01)
        for number in range(begin, begin + 20):
            server.delete(f"o{number}")
        await asyncio.sleep(0.01)
        if begin % 1000 == 0:
            server.compact()
    await asyncio.sleep(3600)
    gc.collect()
    after = container_sizes(leader, standby, world.cache)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert grown(before, after, above=10) == {}


async def _reconcile_nothing(_: Request) -> None:
    """Succeed."""


@pytest.mark.slow
async def test_no_memory_of_a_queue_grows_with_names() -> None:
    """2,000 names under a leader, a standby and raising map functions."""
    await _assert_queues_are_bounded(2000)


@pytest.mark.slow
@pytest.mark.deep
async def test_no_memory_of_a_queue_grows_with_100_000_names() -> None:
    """The full number: every container is bounded by a constant."""
    await _assert_queues_are_bounded(100_000)
