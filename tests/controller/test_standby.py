"""The queue of a standby replica, and what a new leader reconciles."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from cache_world import THING, World

from opsdk.controller.controller import Controller
from opsdk.event.event import AnyEvent
from opsdk.event.handlers import EnqueueRequestForObject, EnqueueRequestsFromMapFunc
from opsdk.event.request import Request
from opsdk.event.sources import Channel, ChannelSource, KindSource
from opsdk.queue.work_queue import WorkQueue


class Standby:
    """A controller in warm-up, with one source of Things."""

    def __init__(self, **source: Any) -> None:
        self.world = World()
        self.server = self.world.server(THING)
        self.reconciled: list[str] = []

        async def reconcile(request: Request) -> None:
            self.reconciled.append(request.name)

        self.source = KindSource(self.world.cache, THING, source.pop("handler", EnqueueRequestForObject()), **source)
        self.controller = Controller("c", reconcile, sources=[self.source])

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self.world.cache.start()),
            asyncio.create_task(self.controller.warmup()),
        ]
        await self.controller.wait_synced()
        return self

    async def lead(self) -> None:
        """Start the controller, and return when its queue is idle."""
        self._tasks.append(asyncio.create_task(self.controller.start()))
        await self.controller.wait_ready()
        await asyncio.sleep(1)
        await self.controller.queue.wait_idle()

    async def __aexit__(self, *_: object) -> None:
        for task in reversed(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_a_standby_keeps_no_request_for_names_that_lived() -> None:
    """2,000 names are created and deleted: the queue stays empty, and few deletions are kept."""
    async with Standby() as standby:
        standby.server.put("lives")
        for number in range(2000):
            standby.server.put(f"o{number}")
            await asyncio.sleep(0.2)
            standby.server.delete(f"o{number}")
            await asyncio.sleep(0.2)
        queue = standby.controller.queue
        assert list(queue.core.queued()) == []
        await asyncio.sleep(120)
        await standby.lead()
        assert standby.reconciled == ["lives"]


async def test_a_burst_of_deletions_is_bounded_by_live_objects() -> None:
    """A new leader reconciles the last 100 of 1,000 objects that were deleted just before its election."""
    async with Standby() as standby:
        for number in range(1000):
            standby.server.put(f"o{number}")
        await asyncio.sleep(1)
        for number in range(1000):
            standby.server.delete(f"o{number}")
        await asyncio.sleep(1)
        await standby.lead()
        assert set(standby.reconciled) == {f"o{number}" for number in range(900, 1000)}


async def test_a_new_leader_reconciles_every_object_and_late_deletions() -> None:
    """The live objects come from the cache; a deletion that the former leader may have missed is reconciled too."""
    async with Standby() as standby:
        for name in ("a", "b", "gone"):
            standby.server.put(name)
        await asyncio.sleep(100)
        standby.server.put("a")
        standby.server.delete("gone")
        await asyncio.sleep(1)
        assert list(standby.controller.queue.core.queued()) == []
        await standby.lead()
        assert sorted(standby.reconciled) == ["a", "b", "gone"]
        standby.server.put("later")
        await asyncio.sleep(1)
        assert standby.reconciled[3:] == ["later"]


async def test_an_object_that_was_created_again_is_no_deletion() -> None:
    """An object that was deleted and created again is queued once, with its live state."""
    async with Standby() as standby:
        standby.server.put("a")
        await asyncio.sleep(1)
        standby.server.delete("a")
        await asyncio.sleep(1)
        standby.server.put("a")
        await asyncio.sleep(1)
        await standby.lead()
        assert standby.reconciled == ["a"]


async def test_a_standby_calls_neither_predicates_nor_handlers() -> None:
    """A standby calls no predicates and handlers; as leader it calls them with initial create events."""
    events: list[tuple[str, bool]] = []

    def passes(event: AnyEvent) -> bool:
        events.append((event.type.value, event.initial))
        return True

    async def owner_of(obj: Any) -> list[Request]:
        await asyncio.sleep(1)
        return [Request("ns", f"owner-of-{obj.metadata.name}")]

    async with Standby(handler=EnqueueRequestsFromMapFunc(owner_of), predicates=[passes]) as standby:
        for number in range(3):
            standby.server.put(f"o{number}")
            await asyncio.sleep(10)
        assert events == []
        await standby.lead()
        assert events == [("create", True)] * 3
        assert sorted(standby.reconciled) == [f"owner-of-o{number}" for number in range(3)]


async def test_the_queue_of_a_standby_keeps_the_newest_requests_of_a_channel() -> None:
    """A channel cannot list its requests again, so 10,000 of them are kept."""
    channel = Channel("test")
    queue: WorkQueue[Request] = WorkQueue()
    queue.stand_by()
    source = ChannelSource(channel)
    await source.start(queue)
    for number in range(10_500):
        channel.send(Request("ns", f"o{number}"))
    assert len(queue) == len(list(queue.core.queued())) == 10_000
    queue.activate()
    first = queue.get_nowait()
    assert first is not None
    assert first.item.name == "o500"
    for number in range(600):
        channel.send(Request("ns", f"more{number}"))
    assert len(queue) == 10_599


def test_a_channel_without_a_source_keeps_the_newest_items() -> None:
    """Items for more than 10,000 names replace the oldest ones."""
    channel = Channel("test")
    for number in range(10_500):
        channel.send(Request("ns", f"o{number}"))
    queue: WorkQueue[Request] = WorkQueue()
    asyncio.run(ChannelSource(channel).start(queue))
    assert len(queue) == 10_000
