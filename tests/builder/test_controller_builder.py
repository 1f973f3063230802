"""One controller from a few words: what is refused, and what comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from cache_world import THING, WIDGET, World, owner

from opsdk.builder.arguments import WatchSpec
from opsdk.builder.controller_builder import ControllerBuilder
from opsdk.controller.options import ControllerOptions
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent
from opsdk.event.handlers import EnqueueRequestForObject
from opsdk.event.request import Request
from opsdk.event.sources import Channel, ChannelSource
from opsdk.manager.manager import Manager


async def nothing(_: Request) -> None:
    """Reconciles nothing."""


def builder(manager: Manager | None = None) -> ControllerBuilder:
    """A builder over a world of its own."""
    return ControllerBuilder(World().cache, manager=manager)


@pytest.mark.behaviour(91)
@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda b: b.for_(THING).for_(WIDGET), "should only be called once"),
        (lambda b: b.for_(THING).build(), "must provide a reconciler"),
        (lambda b: b.owns(THING).named("x").reconciler(nothing).build(), r"owns\(\) can only be used together with"),
        (
            lambda b: b.watches(WatchSpec(kind=THING, handler=list)).reconciler(nothing).build(),
            r"for_\(\) or named\(\)",
        ),
        (lambda b: b.named("x").reconciler(nothing).build(), "there are no watches configured"),
        (
            lambda b: b.reconciler(nothing).reconciler(nothing),
            "should only be called once: a controller has one reconciler",
        ),
        (lambda b: b.for_(THING).reconciler(5), "is not a reconciler"),
        (lambda b: b.for_(THING).reconciler(nothing).complete(), "must provide a manager"),
        (lambda b: b.for_(int), "has no kind"),
    ],
)
async def test_what_makes_no_sense_is_refused(build: Callable[[Any], Any], words: str) -> None:
    """Contradictory options are refused when they are declared or built, never later."""
    with pytest.raises(UsageError, match=words):
        build(builder())


@pytest.mark.behaviour(85, better="Names are unique per manager, so tests do not need `SkipNameValidation`.")
async def test_a_controller_is_named_for_its_kind() -> None:
    """A controller's default name is its kind in lower case; a manager rejects a second controller of the same name."""
    manager = Manager()
    assert builder(manager).for_(THING).reconciler(nothing).complete().name == "thing"
    assert builder(manager).for_(THING).named("other").reconciler(nothing).complete().name == "other"
    with pytest.raises(UsageError, match="names must be unique"):
        builder(manager).for_(THING).reconciler(nothing).complete()


async def seen_by(world: World, made: ControllerBuilder, seconds: float = 10) -> set[str]:
    """What a controller reconciles in some seconds."""
    names: set[str] = set()

    async def reconcile(request: Request) -> None:
        names.add(str(request))

    controller = made.with_options(ControllerOptions(needs_leader_election=False)).reconciler(reconcile).build()
    caching = asyncio.create_task(world.cache.start())
    task = asyncio.create_task(controller.start())
    await asyncio.sleep(seconds)
    for one in (task, caching):
        one.cancel()
    await asyncio.gather(task, caching, return_exceptions=True)
    return names


def family(world: World) -> None:
    """A widget; a thing it controls, and one it merely owns."""
    world.server(WIDGET).put("w")
    things = world.server(THING)
    for name, reference in (("mine", owner(WIDGET, "boss")), ("partly", owner(WIDGET, "uncle", controller=False))):
        things.put(name)
        things.objects[name]["metadata"]["ownerReferences"] = [reference]


@pytest.mark.behaviour(92)
async def test_owned_objects_lead_to_their_controller() -> None:
    """An owned object queues its controller owner, or every owner with ``match_every_owner``."""
    for every, expected in ((False, {"ns/w", "ns/boss"}), (True, {"ns/w", "ns/boss", "ns/uncle"})):
        world = World()
        family(world)
        controller = ControllerBuilder(world.cache).for_(WIDGET).owns(THING, match_every_owner=every)
        assert await seen_by(world, controller) == expected


@pytest.mark.behaviour(96)
async def test_filters_come_first_and_do_not_touch_raw_sources() -> None:
    """A filter holds for every kind watched, a predicate for its own watch; other sources know neither."""
    world = World()
    family(world)
    order: list[str] = []

    def not_partly(event: AnyEvent) -> bool:
        order.append("filter")
        return event.view.key.name != "partly"

    def only_things(event: AnyEvent) -> bool:
        order.append("own")
        return True

    channel = Channel("raw")
    channel.send(Request("ns", "partly-raw"))
    controller = (
        ControllerBuilder(world.cache)
        .for_(WIDGET, predicates=[lambda _: False])
        .watches(WatchSpec(kind=THING, handler=EnqueueRequestForObject(), predicates=[only_things]))
        .watches(WatchSpec(kind=THING, handler=lambda obj: [Request("mapped", obj.metadata.name)]))
        .with_event_filter(not_partly)
        .watches_source(ChannelSource(channel))
    )
    assert await seen_by(world, controller) == {"ns/mine", "mapped/mine", "ns/partly-raw"}
    assert order.index("filter") < order.index("own")
    assert order.count("own") == 1


async def test_a_kind_need_not_be_reconciled_to_be_watched() -> None:
    """A named controller may live from other watches alone."""
    world = World()
    family(world)
    controller = (
        ControllerBuilder(world.cache).named("x").watches(WatchSpec(kind=THING, handler=lambda _: [Request("", "one")]))
    )
    assert await seen_by(world, controller) == {"one"}
