"""A clock that is moved by hand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio.alarm import Alarm
from opsdk.testing.clock import ManualClock, settle


async def test_nothing_happens_by_itself() -> None:
    """Time stands still until it is moved, and then everything due on the way happens in order."""
    clock, seen = ManualClock(datetime(2030, 1, 1, tzinfo=UTC)), list[tuple[str, float]]()

    async def nap(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        seen.append((name, clock.now()))

    naps = [asyncio.ensure_future(nap(n, s)) for n, s in (("b", 20), ("a", 10), ("c", 30))]
    await settle()
    assert clock.now() == 0
    await clock.advance(25)
    assert seen == [("a", 10), ("b", 20)]
    assert clock.wall() == datetime(2030, 1, 1, 0, 0, 25, tzinfo=UTC)
    await clock.advance(5)
    assert seen[-1] == ("c", 30)
    await asyncio.gather(*naps)


async def test_consequences_happen_on_the_way() -> None:
    """A task that sleeps again and again wakes as often as it would have."""
    clock, ticks = ManualClock(), list[float]()

    async def tick() -> None:
        while True:
            await clock.sleep(1)
            ticks.append(clock.now())

    ticking = asyncio.ensure_future(tick())
    await clock.advance(5.5)
    assert ticks == [1, 2, 3, 4, 5]
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)


async def test_cancelled_timers_never_ring() -> None:
    """Neither do those of naps that were cancelled."""
    clock, rung = ManualClock(), list[str]()
    clock.call_later(1, lambda: rung.append("kept"))
    timer = clock.call_later(1, lambda: rung.append("cancelled"))
    timer.cancel()
    timer.cancel()
    nap = asyncio.ensure_future(clock.sleep(1))
    await settle()
    nap.cancel()
    await asyncio.gather(nap, return_exceptions=True)
    await clock.advance(2)
    assert rung == ["kept"]
    await clock.sleep(0)
    await clock.sleep(-1)
    with pytest.raises(ValueError, match="does not go back"):
        await clock.advance(-1)


@given(st.lists(st.floats(0, 100), max_size=20), st.lists(st.floats(0, 50), max_size=10))
def test_timers_ring_in_order_and_never_early(delays: list[float], steps: list[float]) -> None:
    """However time is cut into steps."""

    async def run() -> None:
        clock, rung = ManualClock(), list[tuple[float, float]]()
        for delay in delays:
            clock.call_later(delay, lambda delay=delay: rung.append((delay, clock.now())))  # type: ignore[misc]
        for step in steps:
            await clock.advance(step)
        await settle()
        assert [d for d, _ in rung] == sorted(d for d in delays if d <= clock.now())
        assert all(at == delay for delay, at in rung)

    asyncio.run(run())


async def test_an_alarm_rings_and_is_set_again() -> None:
    """By its clock; cancelled, it does not."""
    clock = ManualClock()
    alarm = Alarm(clock, 5)
    await clock.advance(4)
    assert not alarm.fired
    await clock.advance(1)
    assert alarm.fired
    alarm.set(7)
    assert not alarm.fired
    alarm.cancel()
    await clock.advance(10)
    assert alarm.future.cancelled()


async def test_tasks_that_never_rest_do_not_hold_it_up() -> None:
    """Settling gives up after many turns."""

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    spinning = asyncio.ensure_future(spin())
    await ManualClock().advance(1)
    spinning.cancel()
    await asyncio.gather(spinning, return_exceptions=True)
