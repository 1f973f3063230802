"""Timers and polls feed a queue by the clock, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from opsdk.aio.clock import utc_now
from opsdk.errors import CacheSyncError, UsageError
from opsdk.event.cron import CronSchedule
from opsdk.event.request import Request
from opsdk.event.timers import CronSource, PollSource, TimerSource
from opsdk.queue.work_queue import WorkQueue
from opsdk.testing.loop import VirtualLoop

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
    """First everything; then additions, changes and removals; equal values are not a change."""
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


# ------------------------------------------------------------------ cron
async def sleep_until(time: datetime) -> None:
    """Advance the virtual clock, which begins with 2026."""
    await asyncio.sleep((time - utc_now()).total_seconds())


async def ticks(source: CronSource, days: float) -> list[str]:
    """Return the times at which a source queues its request, as UTC."""
    queue: WorkQueue[Any] = WorkQueue("q")
    await source.start(queue)
    await source.wait_synced(0.1)
    times = []
    try:
        async with asyncio.timeout(days * 86400):
            while True:
                item = await queue.get()
                times.append(f"{utc_now():%m-%d %H:%M}")
                queue.done(item.item)
    except TimeoutError:
        return times
    finally:
        await source.aclose()


async def test_a_schedule_queues_at_its_times() -> None:
    """The times are those of the time zone; nothing is queued at the start."""
    source = CronSource("30 4 * * mon-fri", [A], timezone="Asia/Kolkata")
    assert await ticks(source, 5) == ["01-01 23:00", "01-04 23:00", "01-05 23:00"]
    assert repr(source) == "<CronSource cron at 30 4 * * mon-fri, Asia/Kolkata>"


@pytest.mark.parametrize(
    ("begin", "times"),
    [
        (datetime(2026, 3, 27, 12, tzinfo=UTC), ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        (datetime(2026, 10, 23, 12, tzinfo=UTC), ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
    ],
)
async def test_a_schedule_follows_summer_time(begin: datetime, times: list[str]) -> None:
    """In Berlin, 2:30 is skipped on a Sunday of March, so 3:00 counts; in October it comes twice, and counts once."""
    await sleep_until(begin)
    assert await ticks(CronSource("30 2 * * *", [A], timezone="Europe/Berlin"), 3) == times


@pytest.mark.parametrize(
    ("macro", "due"),
    [
        ("@hourly", "2026-02-03 05:00"),
        ("@daily", "2026-02-04 00:00"),
        ("@midnight", "2026-02-04 00:00"),
        ("@weekly", "2026-02-08 00:00"),
        ("@monthly", "2026-03-01 00:00"),
        ("@yearly", "2027-01-01 00:00"),
        ("@Annually ", "2027-01-01 00:00"),
    ],
)
def test_the_macros_of_cron_are_schedules(macro: str, due: str) -> None:
    """As in a CronJob."""
    after = datetime(2026, 2, 3, 4, 5, tzinfo=UTC)
    assert CronSchedule(macro).next(after) == datetime.fromisoformat(f"{due}+00:00")
    assert CronSource(macro, [A]).schedule.text == macro


def test_the_next_time_is_after_the_given_one() -> None:
    """A reconciler that runs at the time itself gets the following one, in the zone of the schedule."""
    schedule, due = CronSchedule("30 2 * * *", timezone="Europe/Berlin"), datetime(2026, 10, 24, tzinfo=UTC)
    times = [due := schedule.next(due) for _ in range(3)]
    assert [f"{time.astimezone(UTC):%d %H:%M}" for time in times] == ["24 00:30", "25 00:30", "26 01:30"]
    assert str(schedule.zone) == "Europe/Berlin"


@pytest.mark.parametrize("hours", [-2, 2])
async def test_a_clock_that_is_set_moves_the_next_time(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is queued when the clock shows the time, at most five minutes late, and once."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    wall, set_by = loop.wall, timedelta(0)
    monkeypatch.setattr(loop, "wall", lambda: wall() + set_by)
    source, queue = CronSource("0 12 * * *", [A]), WorkQueue[Any]("q")
    await source.start(queue)
    await asyncio.sleep(6 * 3600)
    set_by = timedelta(hours=hours)
    await queue.get()
    assert timedelta(0) <= utc_now() - datetime(2026, 1, 1, 12, tzinfo=UTC) <= timedelta(minutes=5)
    queue.done(A)
    set_by -= timedelta(hours=3)  # back before the time, which does not count again on the same day
    await asyncio.sleep(20 * 3600)
    assert not len(queue)
    await source.aclose()


async def test_a_standby_keeps_only_a_tick_shortly_before_it_leads() -> None:
    """The former leader lived at earlier ones, and queued them."""
    for since, expected in [(30, ["a"]), (300, [])]:
        queue: WorkQueue[Any] = WorkQueue("q")
        queue.stand_by()
        source = CronSource("0 * * * *", [A])
        await source.start(queue)
        await asyncio.sleep(3600 - utc_now().minute * 60 - utc_now().second + since)
        queue.activate()
        await asyncio.sleep(1)
        assert [name for name, _ in taken(queue)] == expected
        await source.aclose()


async def test_a_schedule_retries_a_function_that_fails() -> None:
    """The requests of a time are not lost with an error."""
    calls = itertools.count()

    async def requests() -> list[Request]:
        if next(calls) < 3:
            raise OSError("no route")
        return [B]

    queue: WorkQueue[Any] = WorkQueue("q")
    source = CronSource("0 1 * * *", requests)
    await source.start(queue)
    item = await queue.get()
    assert item.item == B
    assert item.causes[0].detail == "0 1 * * *"
    assert utc_now() < datetime(2026, 1, 1, 1, 1, tzinfo=UTC)
    await source.aclose()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schedule": "61 * * * *"}, r"'61 \* \* \* \*' is not a cron schedule \(Bad minute\): write five fields"),
        ({"schedule": "@every 1h"}, "is not a cron schedule"),
        ({"schedule": "0 0 31 2 *"}, "is not a cron schedule|matches no time"),
        ({"timezone": "Europe/Atlantis"}, "timezone is 'Europe/Atlantis': pass an IANA name"),
        ({"timezone": "../../etc/passwd"}, "timezone is"),
        ({"timezone": 3}, "timezone is 3"),
    ],
)
def test_wrong_schedules_are_refused(arguments: dict[str, Any], message: str) -> None:
    """The error comes where the source is made, and says what to write."""
    with pytest.raises(UsageError, match=message):
        CronSource(**{"schedule": "0 0 * * *", "requests": [A], **arguments})
