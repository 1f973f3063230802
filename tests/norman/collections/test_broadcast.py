"""The broadcaster: order, bounds and resuming."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsdk.norman.collections.broadcast import Broadcaster, Subscription
from opsdk.norman.errors import NormanError

LOG_SIZE, QUEUE_SIZE = 50, 10


def broadcaster(name: str = "log") -> Broadcaster[int]:
    """Return a broadcaster of numbers."""
    return Broadcaster(name, log_size=LOG_SIZE, queue_size=QUEUE_SIZE)


async def read(events: Subscription[int], count: int) -> list[int]:
    """Return the next events."""
    return [(await anext(events))[1] for _ in range(count)]


async def test_each_subscriber_gets_every_event_in_order() -> None:
    """Two subscribers get the same events from their subscription on."""
    sender = broadcaster()
    first = sender.subscribe()
    sender.publish(1)
    second = sender.subscribe()
    sender.publish(2)
    sender.end()
    assert [event async for _, event in first] == [1, 2]
    assert [event async for _, event in second] == [2]


async def test_a_slow_subscriber_is_dropped_alone() -> None:
    """A slow subscriber is dropped, gets nothing after the gap, and others get everything."""
    sender = broadcaster()
    slow, fast = sender.subscribe(), sender.subscribe()
    events = []
    for number in range(QUEUE_SIZE * 3):
        sender.publish(number)
        events += await read(fast, 1)
    assert events == list(range(QUEUE_SIZE * 3))
    assert [event async for event in slow] == []
    assert (sender.subscribers, slow.is_dropped, fast.is_dropped) == (1, True, False)


async def test_closing_a_subscription_frees_it() -> None:
    """A closed subscription has no pending events."""
    sender = broadcaster()
    events = sender.subscribe()
    reading = asyncio.create_task(read(events, 1))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await events.aclose()
    assert sender.subscribers == 0


@settings(deadline=None)
@given(total=st.integers(0, LOG_SIZE + 20), taken=st.integers(0, LOG_SIZE + 20))
def test_resuming_loses_nothing_or_says_so(total: int, taken: int) -> None:
    """Events after a revision come exactly once; if some are no longer in the log, the revision is gone."""

    async def run() -> None:
        sender = broadcaster()
        revision = ""
        for number in range(total):
            if number == taken:
                revision = sender.format_revision(sender.revision)
            sender.publish(number)
        if not revision:
            return
        missed = total - taken
        if missed > LOG_SIZE:
            with pytest.raises(NormanError, match="list again"):
                sender.subscribe(sender.parse_revision(revision))
            return
        events = sender.subscribe(sender.parse_revision(revision))
        assert await read(events, missed) == list(range(taken, total))

    asyncio.run(run())


@pytest.mark.parametrize("revision", ["x", "-", "abc-1", "1", "-5", "log-1"])
def test_a_revision_of_another_log_is_gone(revision: str) -> None:
    """A restarted server cannot resume what the one before it sent."""
    with pytest.raises(NormanError) as raised:
        broadcaster().parse_revision(revision)
    assert raised.value.status == 410


def test_revisions_of_the_caller_are_kept() -> None:
    """A log without a name starts after a revision; revisions may repeat, but never decrease."""
    sender = broadcaster("")
    sender.start(7)
    for number, revision in ((1, 9), (2, 9), (3, 12)):
        sender.publish(number, revision)
    assert sender.events_after(7) == [(9, 1), (9, 2), (12, 3)]
    assert sender.events_after(9) == [(12, 3)]
    assert sender.parse_revision("9") == 9
    with pytest.raises(NormanError, match="list again"):
        sender.events_after(6)
