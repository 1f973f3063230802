"""Each feature of controller-runtime's builder, in decorator and builder form, against the embedded server.

docs/controllers.md has a row for each feature; the last test compares the two.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from client_fakes import Site, site
from slow_cases import mostly_slow

from opsdk import (
    Client,
    Cluster,
    Context,
    ControllerOptions,
    ObjectMeta,
    Operator,
    Request,
    TerminalError,
    Unstructured,
    crd_for,
)
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.kinds import metadata_only
from opsdk.base.cause import ReconcileCause
from opsdk.builder.arguments import OwnsSpec, WatchSpec
from opsdk.event.event import AnyEvent
from opsdk.event.handlers import Enqueue, EnqueueRequestForObject, EnqueueRequestForOwner, Funcs
from opsdk.event.predicates import (
    annotations_changed,
    generation_changed,
    labels_changed,
    matches_labels,
    of_object,
    on,
    resource_version_changed,
)
from opsdk.event.sources import Channel, ChannelSource, FuncSource, KindSource
from opsdk.event.timers import PollSource, TimerSource
from opsdk.queue.work_queue import WorkQueue
from opsdk.recipes import set_controller_reference, set_owner_reference

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

PAGE = Path(__file__).resolve().parents[2] / "docs/controllers.md"


@dataclass
class Row:
    """A feature: how a controller declares it, and which requests the story below then leads to.

    Attributes:
        declare: returns the keywords of the decorator, which are also called on the builder.
        expected: the names that are reconciled after the initial sync.
        kind: the reconciled kind.
        initial: whether reconciles of the initial sync count.
    """

    declare: Callable[[], dict[str, Any]]
    expected: set[str]
    kind: Any = Site
    initial: bool = False
    check: Callable[[list[Context]], bool] = field(default=lambda _: True)


def to_site(obj: Any) -> list[Request]:
    """Map every object to the site "mapped"."""
    return [Request("default", "mapped")]


async def to_site_later(obj: Any) -> list[Request]:
    """As `to_site`, as an async function."""
    await asyncio.sleep(0)
    return [Request("default", "mapped")]


def urgent(obj: Any) -> list[Hashable]:
    """Map with a priority."""
    return [Enqueue(request=Request("default", "urgent"), priority=50)]


async def produce(queue: WorkQueue[Any]) -> None:
    """Feed a queue directly."""
    queue.add(Request("default", "produced"), cause=ReconcileCause("produce"))


async def poll() -> dict[Request, int]:
    """Return the state of another system."""
    return {Request("default", "polled"): 1}


def channel_of(*items: Any) -> Channel:
    """Return a channel that these were sent to."""
    channel = Channel("test")
    for item in items:
        channel.send(item)
    return channel


def no(_: AnyEvent) -> bool:
    """Pass no event."""
    return False


def other(_: Any) -> bool:
    """Whether an object is the foreign config map."""
    return bool(_.metadata.name == "foreign")


# What the story does: it changes labels, annotations, status and spec of one site each, creates a config map that
# "owned" controls, one that "partly" owns beside, and one that nothing owns, and deletes "gone".
EVERY_SITE = {"labels", "annotations", "status", "spec", "gone"}
ROWS = {
    "For": Row(dict, EVERY_SITE),
    "For, WithPredicates": Row(lambda: {"predicates": [no]}, set()),
    "GenerationChangedPredicate": Row(lambda: {"predicates": [generation_changed()]}, {"spec", "gone"}),
    "LabelChangedPredicate": Row(lambda: {"predicates": [labels_changed()]}, {"labels", "gone"}),
    "AnnotationChangedPredicate": Row(lambda: {"predicates": [annotations_changed()]}, {"annotations", "gone"}),
    "ResourceVersionChangedPredicate": Row(lambda: {"predicates": [resource_version_changed()]}, EVERY_SITE),
    "LabelSelectorPredicate": Row(lambda: {"predicates": [matches_labels("tier=web")]}, {"labels"}),
    "predicate.Or": Row(
        lambda: {"predicates": [labels_changed() | annotations_changed()]}, {"labels", "annotations", "gone"}
    ),
    "predicate.And": Row(lambda: {"predicates": [labels_changed() & on(delete=False)]}, {"labels"}),
    "predicate.Not": Row(lambda: {"predicates": [~matches_labels("tier=web")]}, EVERY_SITE - {"labels"}),
    "predicate.Funcs": Row(lambda: {"predicates": [on(create=False, update=False, generic=False)]}, {"gone"}),
    "predicate.NewPredicateFuncs": Row(
        lambda: {"predicates": [of_object(lambda obj: obj.metadata.name == "spec")]}, {"spec"}
    ),
    "Owns": Row(lambda: {"predicates": [no], "owns": [ConfigMap]}, {"owned"}),
    "Owns, MatchEveryOwner": Row(
        lambda: {"predicates": [no], "owns": [OwnsSpec(kind=ConfigMap, match_every_owner=True)]}, {"owned", "partly"}
    ),
    "Owns, WithPredicates": Row(
        lambda: {"predicates": [no], "owns": [OwnsSpec(kind=ConfigMap, predicates=[no])]}, set()
    ),
    "Owns, OnlyMetadata": Row(lambda: {"predicates": [no], "owns": [metadata_only(ConfigMap)]}, {"owned"}),
    "Watches, EnqueueRequestsFromMapFunc": Row(
        lambda: {"predicates": [no], "watches": [WatchSpec(kind=ConfigMap, handler=to_site)]}, {"mapped"}
    ),
    "Watches, async map function": Row(
        lambda: {"predicates": [no], "watches": [WatchSpec(kind=ConfigMap, handler=to_site_later)]}, {"mapped"}
    ),
    "Watches, WithPredicates": Row(
        lambda: {
            "predicates": [no],
            "watches": [WatchSpec(kind=ConfigMap, handler=EnqueueRequestForObject(), predicates=[of_object(other)])],
        },
        {"foreign"},
    ),
    "Watches, EnqueueRequestForObject": Row(
        lambda: {"predicates": [no], "watches": [WatchSpec(kind=Secret, handler=EnqueueRequestForObject())]},
        {"password"},
    ),
    "Watches, EnqueueRequestForOwner": Row(
        lambda: {"predicates": [no], "watches": [WatchSpec(kind=ConfigMap, handler=EnqueueRequestForOwner(Site))]},
        {"owned"},
    ),
    "Watches, handler.Funcs": Row(
        lambda: {
            "predicates": [no],
            "watches": [
                WatchSpec(
                    kind=Site, handler=Funcs(delete=lambda event: [Request("default", "after " + event.view.key.name)])
                )
            ],
        },
        {"after gone"},
    ),
    "Watches, priority": Row(
        lambda: {"predicates": [no], "watches": [WatchSpec(kind=Secret, handler=urgent)]}, {"urgent"}
    ),
    "WatchesMetadata": Row(
        lambda: {"predicates": [no], "watches": [WatchSpec(kind=metadata_only(Secret), handler=to_site)]}, {"mapped"}
    ),
    "WatchesRawSource, source.Channel": Row(
        lambda: {
            "predicates": [no],
            "sources": [
                ChannelSource(channel_of(Request("default", "sent"), site(name="object", namespace="default")))
            ],
        },
        {"sent", "object"},
        initial=True,
    ),
    "WatchesRawSource, source.Kind": Row(
        lambda: {
            "predicates": [no],
            "sources": [lambda operator: KindSource(operator.cluster.cache, Secret, EnqueueRequestForObject())],
        },
        {"password"},
    ),
    "WatchesRawSource, source.Func": Row(
        lambda: {"predicates": [no], "sources": [FuncSource(produce)]}, {"produced"}, initial=True
    ),
    "WatchesRawSource, timer": Row(
        lambda: {"predicates": [no], "sources": [TimerSource(2, [Request("default", "tick")])]}, {"tick"}
    ),
    "WatchesRawSource, poll": Row(
        lambda: {"predicates": [no], "sources": [PollSource(poll, 60)]}, {"polled"}, initial=True
    ),
    "WithEventFilter": Row(
        lambda: {"event_filter": [on(update=False)], "watches": [WatchSpec(kind=ConfigMap, handler=to_site)]},
        {"gone", "mapped"},
    ),
    "WithOptions": Row(
        lambda: {"options": ControllerOptions(max_concurrent_reconciles=3, reconciliation_timeout=9)},
        EVERY_SITE,
        check=lambda contexts: all(context.remaining is not None for context in contexts),
    ),
    "Named": Row(
        lambda: {"name": "special"},
        EVERY_SITE,
        check=lambda contexts: {context.controller for context in contexts} == {"special"},
    ),
    "without For": Row(
        lambda: {"name": "special", "watches": [WatchSpec(kind=ConfigMap, handler=to_site)]}, {"mapped"}, kind=None
    ),
}


def declare(form: str, operator: Operator, row: Row, reconcile: Any) -> None:
    """Declare the controller in one of the two forms."""
    keywords = row.declare()
    if form == "decorator":
        operator.reconciler(row.kind, **keywords)(reconcile)
        return

    @operator.setup
    def controllers(operator: Operator) -> None:
        name, options = keywords.get("name", ""), keywords.get("options")
        builder: Any
        if row.kind is None:
            builder = operator.controller(name, options=options)
        else:
            builder = operator.controller_for(row.kind, name=name, options=options)
        builder.with_predicates(*keywords.get("predicates", ()))
        for owned in keywords.get("owns", ()):
            builder.owns(owned)
        for watch in keywords.get("watches", ()):
            builder.watches(watch.kind, watch.handler, predicates=watch.predicates)
        for source in keywords.get("sources", ()):
            builder.watches_source(source(operator) if callable(source) else source)
        builder.with_event_filter(*keywords.get("event_filter", ()))
        builder.reconciler(reconcile).complete()


@asynccontextmanager
async def world() -> AsyncIterator[tuple[Any, Client]]:
    """Return a server with sites, and a client."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        client = outside.uncached
        await client.create(Unstructured.from_tree(crd_for(Site)))
        for name in ("labels", "annotations", "status", "spec", "gone", "owned", "partly"):
            await client.create(site(name=name, namespace="default"))
        yield env, client


async def story(client: Client) -> None:
    """Change one thing of each site, and create children."""
    sites = {obj.metadata.name: obj for obj in await client.list(Site, namespace="default")}
    sites["labels"].metadata.labels["tier"] = "web"
    sites["annotations"].metadata.annotations["note"] = "x"
    sites["spec"].spec.image = "other"
    for name in ("labels", "annotations", "spec"):
        await client.update(sites[name])
    await client.status().patch(*status_patch(sites["status"]))
    owned = ConfigMap(metadata=ObjectMeta(name="owned", namespace="default"))
    set_controller_reference(sites["owned"], owned)
    partly = ConfigMap(metadata=ObjectMeta(name="partly", namespace="default"))
    set_owner_reference(sites["partly"], partly)
    foreign = ConfigMap(metadata=ObjectMeta(name="foreign", namespace="default"))
    for child in (owned, partly, foreign, Secret(metadata=ObjectMeta(name="password", namespace="default"))):
        await client.create(child)
    await client.delete(sites["gone"])


def status_patch(obj: Site) -> tuple[Site, Any]:
    """Return the arguments of a patch of the status."""
    from opsdk.client.patch import merge_patch

    return obj, merge_patch({"status": {"ready": 3}})


@pytest.mark.parametrize("form", ["decorator", "builder"])
@pytest.mark.parametrize("feature", mostly_slow(ROWS, every=3))
async def test_a_feature_leads_to_its_requests(feature: str, form: str) -> None:
    """Decorator and builder make controllers that reconcile exactly the requests of the feature."""
    row = ROWS[feature]
    operator = Operator("sites")
    contexts: list[Context] = []

    async def reconcile(request: Request, ctx: Context) -> None:
        contexts.append(ctx)

    declare(form, operator, row, reconcile)
    async with world() as (env, client):
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(1)
        if not row.initial:
            contexts.clear()
        await story(client)
        await asyncio.sleep(2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert {context.request.name for context in contexts} == row.expected
    assert row.check(contexts)
    assert all(context.causes for context in contexts)


async def test_terminal_errors_and_custom_requests() -> None:
    """A request of another type reaches its reconciler; a terminal error is not retried."""

    @dataclass(frozen=True)
    class Shard:
        number: int

    operator = Operator("shards")
    numbers: list[int] = []

    @operator.reconciler(name="shards", sources=[TimerSource(1000, [Shard(1), Shard(2)])])
    async def reconcile(shard: Shard, ctx: Context) -> None:
        numbers.append(shard.number)
        raise TerminalError("no")

    async with environment.Environment() as env:
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert numbers == [1, 2]
    assert [record.result for record in operator.journal.find()] == ["error", "error"]


def test_the_page_has_a_row_for_each_feature() -> None:
    """docs/controllers.md lists the features of this file, and no other."""
    table = PAGE.read_text().partition("| controller-runtime | decorator |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([^|]+)` \|", table, re.MULTILINE)
    assert rows == list(ROWS)
