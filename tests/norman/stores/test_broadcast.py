"""The broadcaster: order, bounds and resuming."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsdk.errors import NormanError
from opsdk.norman.model import ResourceEvent, ResourceEvents, ResourceEventType
from opsdk.norman.stores.broadcast import LOG_SIZE, QUEUE_SIZE, Broadcaster


def event(number: int) -> ResourceEvent:
    """Return an event with a number."""
    return ResourceEvent(type=ResourceEventType.CHANGE, data={"number": number})


async def read(events: ResourceEvents, count: int) -> list[int]:
    """Return the numbers of the next events."""
    return [(await anext(events)).data["number"] for _ in range(count)]


async def test_each_subscriber_gets_every_event_in_order() -> None:
    """Two subscribers get the same events, from their subscription on."""
    broadcaster = Broadcaster()
    first = broadcaster.subscribe()
    broadcaster.publish(event(1))
    second = broadcaster.subscribe()
    broadcaster.publish(event(2))
    broadcaster.end()
    assert [e.data["number"] async for e in first] == [1, 2]
    assert [e.data["number"] async for e in second] == [2]


async def test_a_slow_subscriber_is_dropped_alone() -> None:
    """Memory stays bounded; the others get everything; the slow one gets nothing old after the gap."""
    broadcaster = Broadcaster()
    slow, fast = broadcaster.subscribe(), broadcaster.subscribe()
    seen = []
    for number in range(QUEUE_SIZE * 3):
        broadcaster.publish(event(number))
        seen += await read(fast, 1)
    assert seen == list(range(QUEUE_SIZE * 3))
    assert [e async for e in slow] == []
    assert broadcaster.subscribers == 1


async def test_closing_a_subscription_frees_it() -> None:
    """Nothing waits for a subscriber that has left."""
    broadcaster = Broadcaster()
    events = broadcaster.subscribe()
    reading = asyncio.create_task(read(events, 1))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await events.aclose()
    assert broadcaster.subscribers == 0


@settings(deadline=None)
@given(total=st.integers(0, LOG_SIZE + 50), taken=st.integers(0, LOG_SIZE + 50))
def test_resuming_loses_nothing_or_says_so(total: int, taken: int) -> None:
    """Events after a revision come exactly once; if some have left the log, the revision is gone."""

    async def run() -> None:
        broadcaster = Broadcaster()
        revision = ""
        for number in range(total):
            if number == taken:
                revision = broadcaster.revision
            broadcaster.publish(event(number))
        if not revision:
            return
        missed = total - taken
        if missed > LOG_SIZE:
            with pytest.raises(NormanError, match="list again"):
                broadcaster.subscribe(revision)
            return
        events = broadcaster.subscribe(revision)
        assert await read(events, missed) == list(range(taken, total))

    asyncio.run(run())


@pytest.mark.parametrize("revision", ["x", "-", "abc-1", "1", "-5"])
def test_a_revision_of_another_log_is_gone(revision: str) -> None:
    """A restarted server cannot resume what the one before it sent."""
    with pytest.raises(NormanError) as raised:
        Broadcaster().subscribe(revision)
    assert raised.value.status == 410
