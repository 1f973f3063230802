"""The timeout for many waits."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio.clock import monotonic
from opsdk.aio.idle_timeout import IdleTimeout
from opsdk.testing.loop import VirtualLoop


@given(st.lists(st.tuples(st.sampled_from((0.0, 1.0, 29.0, 30.0, 31.0, 70.0)), st.booleans()), max_size=8))
def test_each_wait_ends_as_with_a_timeout_of_its_own(waits: list[tuple[float, bool]]) -> None:
    """Each wait of a reused timer ends as with its own timeout; time between waits does not count."""

    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    async def play(*, one_timer: bool) -> list[tuple[float, str]]:
        results, idle = [], IdleTimeout(30.0)
        for seconds, is_wait in waits:
            if not is_wait:
                await asyncio.sleep(seconds)
                continue
            try:
                if one_timer:
                    with idle:
                        result = await wait(seconds)
                else:
                    async with asyncio.timeout(30.0):
                        result = await wait(seconds)
            except TimeoutError:
                result = "timeout"
            results.append((monotonic(), result))
        idle.close()
        return results

    # Which of two timers of the same moment comes first is not a law.
    if (30.0, True) in waits:
        return
    both = []
    for one_timer in (True, False):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            both.append(runner.run(play(one_timer=one_timer)))
    assert both[0] == both[1]


async def _wait_forever(idle: IdleTimeout) -> None:
    with idle:
        await asyncio.Event().wait()


@pytest.mark.parametrize("seconds", [10.0, 30.0])
async def test_a_cancellation_by_others_stays_one(seconds: float) -> None:
    """A task that is cancelled before or at its timeout ends as cancelled."""
    idle = IdleTimeout(30.0)
    task = asyncio.create_task(_wait_forever(idle))
    asyncio.get_running_loop().call_later(seconds, task.cancel)
    await asyncio.wait([task])
    assert task.cancelled()
    idle.close()


async def test_an_error_of_the_wait_passes() -> None:
    """An error of the wait is raised unchanged, and the next wait has its full timeout."""
    idle = IdleTimeout(30.0)

    async def fail() -> None:
        with idle:
            await asyncio.sleep(20)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await fail()
    with idle:
        await asyncio.sleep(20)
    with pytest.raises(TimeoutError):
        await _wait_forever(idle)
    assert monotonic() == pytest.approx(70.0)
    idle.close()


async def test_no_timer_remains_after_close() -> None:
    """Closing leaves no timer, also without a limit and if it is done twice."""
    for idle in (IdleTimeout(30.0), IdleTimeout(None)):
        with idle:
            await asyncio.sleep(1)
        idle.close()
        idle.close()
    await asyncio.sleep(100)
    assert monotonic() == pytest.approx(102.0)
