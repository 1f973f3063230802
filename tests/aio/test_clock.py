"""The time that fences use: right in every thread, and while the event loop is blocked."""

from __future__ import annotations

import asyncio
import time

import pytest

from opsdk.aio.clock import LOOP_CLOCK, now_in_threads
from opsdk.testing.clock import ManualClock


async def test_virtual_time_in_a_thread() -> None:
    """The virtual loop's time, not the system's."""
    now = now_in_threads(LOOP_CLOCK)
    await asyncio.sleep(1000)
    assert await asyncio.to_thread(now) == pytest.approx(1000)


async def test_a_test_clock_is_used_as_it_is() -> None:
    """The clock's own time."""
    clock = ManualClock()
    now = now_in_threads(clock)
    await clock.advance(7)
    assert now() == 7


@pytest.mark.realtime
async def test_a_loop_whose_time_stands_still_while_it_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """`now_in_threads` still advances, as with uvloop."""
    loop = asyncio.get_running_loop()
    frozen = loop.time()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", lambda: frozen)
        now = now_in_threads(LOOP_CLOCK)
        time.sleep(0.05)  # noqa: ASYNC251 - blocks the loop
        assert now() >= frozen + 0.05
