"""Where events come from."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest
from cache_world import THING, WIDGET, World

from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.errors import CacheSyncError, ConnectError, ForbiddenError, NoMatchError, UsageError
from opsdk.event.event import AnyEvent, EventType
from opsdk.event.handlers import Enqueue, EnqueueRequestForObject, EnqueueRequestForOwner, EnqueueRequestsFromMapFunc
from opsdk.event.request import Request
from opsdk.event.sources import Channel, ChannelSource, KindSource
from opsdk.queue.work_queue import WorkQueue


class Running:
    """A world whose cache runs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queue: WorkQueue[Request] = WorkQueue()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.world.cache.start())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.queue.shut_down()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def names(self) -> set[str]:
        result = set()
        while (queued := self.queue.get_nowait()) is not None:
            result.add(queued.item.name)
            self.queue.done(queued.item)
        return result


@pytest.mark.behaviour(74)
async def test_synced_means_queued() -> None:
    """When a source has synced, every object of the initial list is in the queue."""
    world = World()
    for n in range(20):
        world.server(THING).put(f"o{n}")
    async with Running(world) as running:
        source = KindSource(world.cache, THING, EnqueueRequestForObject())
        await source.start(running.queue)
        await source.wait_synced(10)
        assert running.names() == {f"o{n}" for n in range(20)}
        world.server(THING).put("later")
        await asyncio.sleep(1)
        assert running.names() == {"later"}
        await source.aclose()
        world.server(THING).put("unseen")
        await asyncio.sleep(1)
        assert running.names() == set()


@pytest.mark.behaviour(74)
async def test_synced_waits_for_async_handlers() -> None:
    """An async map function has answered for every initial object before the source counts as synced."""
    world = World()
    for n in range(5):
        world.server(THING).put(f"o{n}")

    async def slow(obj: Any) -> list[Request]:
        await asyncio.sleep(1)
        return [Request("ns", obj.metadata.name)]

    async with Running(world) as running:
        source = KindSource(world.cache, THING, EnqueueRequestsFromMapFunc(slow))
        await source.start(running.queue)
        await source.wait_synced(60)
        assert len(running.names()) == 5
        await source.aclose()


async def test_a_handler_that_never_returns_is_named() -> None:
    """Waiting for the sync still times out, and the error names the handler."""
    world = World()
    world.server(THING).put("a")

    async def stuck(_: Any) -> list[Request]:
        await asyncio.sleep(10**6)
        return []

    async with Running(world) as running:
        source = KindSource(world.cache, THING, EnqueueRequestsFromMapFunc(stuck))
        await source.start(running.queue)
        with pytest.raises(CacheSyncError, match=r"EnqueueRequestsFromMapFunc\(.*stuck"):
            await source.wait_synced(30)
        assert asyncio.get_running_loop().time() == pytest.approx(30, abs=1)
        await source.aclose()


@pytest.mark.behaviour(59)
async def test_a_slow_handler_does_not_delay_others() -> None:
    """While one source of a kind waits for its map function, another one queues its requests."""
    world = World()

    async def stuck(_: Any) -> list[Request]:
        await asyncio.sleep(10**6)
        return []

    async with Running(world) as running:
        slow = KindSource(world.cache, THING, EnqueueRequestsFromMapFunc(stuck))
        quick = KindSource(world.cache, THING, EnqueueRequestForObject())
        await slow.start(running.queue)
        await quick.start(running.queue)
        await quick.wait_synced(10)
        for n in range(3):
            world.server(THING).put(f"o{n}")
            await asyncio.sleep(1)
            assert running.names() == {f"o{n}"}
        await slow.aclose()
        await quick.aclose()


@pytest.mark.behaviour(100)
async def test_a_missed_deletion_is_marked_in_its_event() -> None:
    """The event has the last known object, and says that its final state is unknown."""
    world = World()
    world.server(THING).put("a")
    events: list[AnyEvent] = []

    def watch(event: AnyEvent) -> bool:
        events.append(event)
        return True

    async with Running(world) as running:
        source = KindSource(world.cache, THING, EnqueueRequestForObject(), predicates=[watch])
        await source.start(running.queue)
        await source.wait_synced(10)
        world.server(THING).refuse = ConnectError("down")
        await asyncio.sleep(301)
        world.server(THING).delete("a")
        world.server(THING).compact()
        world.server(THING).refuse = None
        await asyncio.sleep(100)
        assert [(e.type, e.view.key.name, e.final_state_unknown) for e in events] == [
            (EventType.CREATE, "a", False),
            (EventType.DELETE, "a", True),
        ]
        assert running.names() == {"a"}
        await source.aclose()


@pytest.mark.behaviour(101)
async def test_a_kind_that_is_served_later_is_found() -> None:
    """A kind that is not served yet is looked for, soon at first, then every ten seconds; the sync then succeeds."""
    world = World(THING)
    world.server(WIDGET).put("w")
    async with Running(world) as running:
        source = KindSource(world.cache, WIDGET, EnqueueRequestForObject())
        await source.start(running.queue)
        await asyncio.sleep(25)
        discoveries = world.discovery.asked
        assert discoveries <= 8
        world.discovery.add(WIDGET)
        await source.wait_synced(30)
        assert running.names() == {"w"}
        assert asyncio.get_running_loop().time() < 36
        await source.aclose()


@pytest.mark.behaviour(101)
async def test_the_timeout_names_a_kind_that_is_never_served() -> None:
    """The timeout names the kind and carries the reason."""
    world = World(THING)
    async with Running(world) as running:
        source = KindSource(world.cache, WIDGET, EnqueueRequestForObject())
        await source.start(running.queue)
        with pytest.raises(CacheSyncError, match="Kind=Widget") as caught:
            await source.wait_synced(60)
        assert isinstance(caught.value.__cause__, NoMatchError)
        await source.aclose()


async def test_an_owner_kind_that_is_served_later_is_found() -> None:
    """The source of owned objects waits for the kind of their owner in the same way."""
    world = World(THING)
    async with Running(world) as running:
        source = KindSource(world.cache, THING, EnqueueRequestForOwner(WIDGET))
        await source.start(running.queue)
        await asyncio.sleep(15)
        world.discovery.add(WIDGET)
        await source.wait_synced(30)
        await source.aclose()


async def test_a_denial_is_named() -> None:
    """RBAC: the timeout has the server's message; a permission that is granted later is used."""
    world = World()
    world.server(THING).refuse = ForbiddenError('things is forbidden: User "u" cannot list resource "things"')
    async with Running(world) as running:
        source = KindSource(world.cache, THING, EnqueueRequestForObject())
        await source.start(running.queue)
        with pytest.raises(CacheSyncError, match='User "u" cannot list') as caught:
            await source.wait_synced(30)
        assert isinstance(caught.value.__cause__, ForbiddenError)
        world.server(THING).refuse = None
        await source.wait_synced(60)
        await source.aclose()


async def test_a_usage_error_ends_the_wait_at_once() -> None:
    """An error that no retry can correct is raised without waiting for the timeout."""

    class Wrong(EnqueueRequestForObject):
        async def prepare(self, mapper: Any) -> None:
            raise UsageError("this handler is wrong")

    world = World()
    async with Running(world) as running:
        source = KindSource(world.cache, THING, Wrong())
        await source.start(running.queue)
        with pytest.raises(UsageError, match="this handler is wrong"):
            await source.wait_synced(100)
        assert asyncio.get_running_loop().time() < 1
        await source.aclose()


async def test_an_unexpected_exception_fails_the_sync_at_once() -> None:
    """A handler whose preparation breaks in an unforeseen way fails the sync at once, too."""

    class Broken(EnqueueRequestForObject):
        async def prepare(self, mapper: Any) -> None:
            raise ZeroDivisionError

    world = World()
    async with Running(world) as running:
        source = KindSource(world.cache, THING, Broken())
        await source.start(running.queue)
        with pytest.raises(ZeroDivisionError):
            await source.wait_synced(100)
        await source.aclose()


async def test_a_source_serves_one_controller() -> None:
    """Starting it a second time is refused, for kinds and channels alike."""
    world = World()
    async with Running(world) as running:
        for source in (KindSource(world.cache, THING, EnqueueRequestForObject()), ChannelSource(Channel("c"))):
            await source.start(running.queue)
            with pytest.raises(UsageError, match="is already started"):
                await source.start(running.queue)
            await source.aclose()
            await source.aclose()


async def test_channels_keep_what_comes_before_the_start() -> None:
    """Requests sent before, during and after the start are delivered in order; after the end they are ignored."""
    queue: WorkQueue[Request] = WorkQueue()
    channel = Channel("billing")
    channel.send(Request("", "early"))
    source = ChannelSource(channel)
    channel.send(Enqueue(request=Request("", "urgent"), priority=10))
    await source.start(queue)
    await source.wait_synced(1)
    channel.send(Request("", "late"))
    await source.aclose()
    channel.send(Request("", "after"))
    taken = []
    while (queued := queue.get_nowait()) is not None:
        taken.append(queued.item.name)
    assert taken == ["urgent", "early", "late"]


@pytest.mark.behaviour(102)
async def test_a_channel_serves_several_controllers_until_it_is_closed() -> None:
    """Each source gets every item, those sent before its start too; after the close no item is taken."""
    channel = Channel("billing")
    sources = [ChannelSource(channel), ChannelSource(channel, predicates=[lambda event: event.view.key.name != "b"])]
    queues: list[WorkQueue[Request]] = [WorkQueue(), WorkQueue()]
    channel.send(entry_object("a"))
    channel.send(entry_object("b"))
    for source, queue in zip(sources, queues, strict=True):
        await source.start(queue)
        await source.wait_synced(1)
    channel.send(Request("ns", "c"))
    channel.close()
    channel.close()
    with pytest.raises(UsageError, match="is closed"):
        channel.send(Request("ns", "d"))
    names = []
    for source, queue in zip(sources, queues, strict=True):
        await source.aclose()
        taken = []
        while (item := queue.get_nowait()) is not None:
            taken.append((item.item.name, item.causes[0].event))
        names.append(taken)
    assert names == [[("a", "generic"), ("b", "generic"), ("c", "")], [("a", "generic"), ("c", "")]]


async def test_a_closed_controller_leaves_nothing_in_its_channel() -> None:
    """After its only source is closed, a channel keeps no items."""
    channel = Channel("billing")
    source = ChannelSource(channel)
    await source.start(WorkQueue())
    await source.aclose()
    channel.send(Request("ns", "a"))
    late = ChannelSource(channel)
    queue: WorkQueue[Request] = WorkQueue()
    await late.start(queue)
    assert queue.get_nowait() is None
    await late.aclose()


def entry_object(name: str) -> Unstructured:
    """Return a thing that no server knows."""
    return Unstructured("v1", "Thing", ObjectMeta(name=name, namespace="ns"))
