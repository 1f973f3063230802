"""Timers and polls feed a queue by the clock, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import threading
from datetime import timedelta
from typing import Any

import pytest

from opsdk.errors import CacheSyncError, UsageError
from opsdk.event.request import Request
from opsdk.event.timers import PollSource, TimerSource
from opsdk.queue.work_queue import WorkQueue

A, B, C = (Request("ns", name) for name in "abc")


def taken(queue: WorkQueue[Any]) -> list[tuple[str, str]]:
    """Take everything that is ready: names and the events of their causes."""
    items = []
    while (item := queue.get_nowait()) is not None:
        items.append((item.item.name, item.causes[-1].event))
        queue.done(item.item)
    return items


async def test_a_timer_queues_at_once_and_then_at_its_interval() -> None:
    """The requests may come from a plain or an async function, which is called at each tick."""
    requests = [A]

    async def current() -> list[Request]:
        return requests

    for source in (
        TimerSource(timedelta(seconds=10), [A]),
        TimerSource(10, lambda: requests),
        TimerSource(10, current),
    ):
        queue: WorkQueue[Request] = WorkQueue()
        await source.start(queue)
        await source.wait_synced(1)
        assert taken(queue) == [("a", "")]
        await asyncio.sleep(9.9)
        assert taken(queue) == []
        await asyncio.sleep(0.2)
        assert taken(queue) == [("a", "")]
        await source.aclose()
        await asyncio.sleep(100)
        assert taken(queue) == []


async def test_jitter_spreads_ticks_and_never_shortens_them() -> None:
    """Between two ticks pass at least the interval and at most the interval with its jitter."""
    times: list[float] = []

    def tick() -> list[Request]:
        times.append(asyncio.get_running_loop().time())
        return []

    source = TimerSource(10, tick, jitter=0.5)
    await source.start(WorkQueue())
    await asyncio.sleep(1000)
    await source.aclose()
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert all(10 <= gap <= 15.001 for gap in gaps)
    assert len({round(gap, 3) for gap in gaps}) > 10


async def test_a_poll_queues_changed_requests() -> None:
    """First everything; then additions, changes and removals; equal values are no change."""
    state: dict[Request, object] = {A: {"size": 1}, B: 2}

    async def poll() -> dict[Request, object]:
        return dict(state)

    queue: WorkQueue[Request] = WorkQueue()
    source = PollSource(poll, 10, jitter=0)
    await source.start(queue)
    await source.wait_synced(1)
    assert taken(queue) == [("a", "create"), ("b", "create")]
    await asyncio.sleep(10)
    assert taken(queue) == []
    state.update({A: {"size": 2}, C: 3})
    del state[B]
    await asyncio.sleep(10)
    assert sorted(taken(queue)) == [("a", "update"), ("b", "delete"), ("c", "create")]
    await source.aclose()


async def test_a_failed_poll_loses_nothing_and_is_reported() -> None:
    """A failed poll is retried early, readiness names it, and changes during the outage are found."""
    down = True

    async def poll() -> dict[Request, object]:
        if down:
            raise ConnectionError("the billing system is down")
        return {A: 1}

    queue: WorkQueue[Request] = WorkQueue()
    source = PollSource(poll, 3600, name="billing")
    await source.start(queue)
    with pytest.raises(CacheSyncError, match="billing system is down"):
        await source.wait_synced(5)
    assert [failure.function for failure in source.failing_functions()] == ["billing"]
    down = False
    await source.wait_synced(60)
    assert taken(queue) == [("a", "create")]
    assert source.failing_functions() == []
    await source.aclose()


async def test_a_poll_that_hangs_is_a_failure() -> None:
    """A hanging poll fails at its timeout, and the next attempt is made."""
    calls = 0

    async def poll() -> dict[Request, object]:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.Event().wait()
        return {A: calls}

    queue: WorkQueue[Request] = WorkQueue()
    source = PollSource(poll, 100, timeout=5)
    await source.start(queue)
    await asyncio.sleep(20)
    assert taken(queue) == [("a", "create")]
    await source.aclose()


def test_wrong_arguments_are_refused() -> None:
    """An interval of zero and a plain poll function cannot work."""
    with pytest.raises(UsageError, match="more than 0 seconds"):
        TimerSource(0, [A])
    with pytest.raises(UsageError, match="async def"):
        PollSource(dict, 1)  # type: ignore[arg-type,return-value]


async def test_a_poll_sees_values_that_are_changed_in_place() -> None:
    """The system returns the same objects each time. One without a value-based equality counts as unchanged."""
    identity = object()
    state: dict[Any, Any] = {A: {"count": 1}, B: {"count": 1}, C: threading.Lock(), Request("ns", "d"): identity}

    async def poll() -> dict[Any, Any]:
        return state

    queue: WorkQueue[Any] = WorkQueue()
    source = PollSource(poll, 10, jitter=0)
    await source.start(queue)
    await asyncio.sleep(1)
    taken(queue)
    state[A]["count"] = 2
    await asyncio.sleep(10)
    assert taken(queue) == [("a", "update")]
    await source.aclose()


async def test_a_poll_value_that_cannot_be_compared_is_queued_alone() -> None:
    """A poll value that cannot be compared is queued; the other values are compared."""

    class Incomparable:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    queue: WorkQueue[Any] = WorkQueue()

    async def poll() -> dict[Any, Any]:
        return {A: Incomparable(), B: 1}

    source = PollSource(poll, 10, jitter=0)
    await source.start(queue)
    await asyncio.sleep(1)
    taken(queue)
    await asyncio.sleep(10)
    assert taken(queue) == [("a", "update")]
    await source.aclose()
