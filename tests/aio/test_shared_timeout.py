"""The timeout for the waits of many tasks."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio.clock import monotonic
from opsdk.aio.shared_timeout import LimitedWait, SharedTimeout
from opsdk.testing.loop import DeadlockError, VirtualLoop

_Wait = tuple[float, float, float]
"""When a wait begins, how long it takes, and its limit."""


@given(
    st.lists(
        st.tuples(
            st.sampled_from((0.0, 1.0, 5.0, 40.0)),
            st.sampled_from((0.0, 3.0, 29.0, 70.0)),
            st.sampled_from((10.5, 30.5)),
        ),
        max_size=8,
    )
)
def test_each_wait_ends_as_with_a_timeout_of_its_own(waits: list[_Wait]) -> None:
    """Waits that overlap end as each would with its own timeout."""

    async def wait(number: int, results: dict[int, tuple[float, str]], timeouts: SharedTimeout | None) -> None:
        begin, seconds, limit = waits[number]
        await asyncio.sleep(begin)
        try:
            if timeouts is not None:
                with LimitedWait(timeouts, limit):
                    await asyncio.sleep(seconds)
            else:
                async with asyncio.timeout(limit):
                    await asyncio.sleep(seconds)
        except TimeoutError:
            results[number] = (monotonic(), "timeout")
        else:
            results[number] = (monotonic(), "done")

    async def play(timeouts: SharedTimeout | None) -> dict[int, tuple[float, str]]:
        results: dict[int, tuple[float, str]] = {}
        async with asyncio.TaskGroup() as tasks:
            for number in range(len(waits)):
                tasks.create_task(wait(number, results, timeouts))
        return results

    both = []
    for timeouts in (SharedTimeout(), None):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            both.append(runner.run(play(timeouts)))
    assert both[0] == both[1]


async def _wait_forever(timeouts: SharedTimeout) -> None:
    with LimitedWait(timeouts, 30.0):
        await asyncio.Event().wait()


@pytest.mark.parametrize("seconds", [10.0, 30.0])
async def test_a_cancellation_by_others_stays_one(seconds: float) -> None:
    """A task that is cancelled before or at its timeout ends as cancelled."""
    task = asyncio.create_task(_wait_forever(SharedTimeout()))
    asyncio.get_running_loop().call_later(seconds, task.cancel)
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize(("closes", "ended_at"), [(True, 2.0), (False, 30.0)])
def test_many_waits_have_one_timer(closes: bool, ended_at: float) -> None:
    """The timer of the first wait serves all, and ends nothing after them; `close` removes it."""

    async def play() -> None:
        timeouts = SharedTimeout()
        for _ in range(20):
            with LimitedWait(timeouts, 30.0):
                await asyncio.sleep(0.1)
        if closes:
            timeouts.close()
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        with pytest.raises(DeadlockError):
            runner.run(play())
        assert runner.get_loop().time() == pytest.approx(ended_at)


def test_a_second_loop_has_a_timer_of_its_own() -> None:
    """The timer that a first loop has left does not keep the waits of a second one from ending."""
    timeouts = SharedTimeout()

    async def use() -> None:
        with LimitedWait(timeouts, 30.0):
            await asyncio.sleep(1.0)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(use())
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        with pytest.raises(TimeoutError):
            runner.run(_wait_forever(timeouts))
        assert runner.get_loop().time() == pytest.approx(30.0)
