"""Timeouts follow the clock they are given."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio.clock import LOOP_CLOCK
from opsdk.aio.timeout import Timeouts, timeout
from opsdk.testing.clock import ManualClock, settle
from opsdk.testing.loop import VirtualLoop


async def test_a_timeout_follows_its_clock_and_not_the_loop() -> None:
    """An hour of the loop's time changes nothing; a minute of the clock ends the block."""
    clock = ManualClock()
    ended: list[str] = []

    async def block() -> None:
        try:
            async with timeout(clock, 60):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            ended.append("timeout")

    task = asyncio.ensure_future(block())
    await asyncio.sleep(3600)
    assert not ended
    await clock.advance(60)
    await settle()
    assert ended == ["timeout"]
    await task


async def test_a_cancellation_wins_over_a_timeout_that_has_not_passed() -> None:
    """The caller's cancellation stays a cancellation."""
    clock = ManualClock()

    async def block() -> None:
        async with timeout(clock, 60):
            await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(block())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(1, 30)), max_size=12), st.booleans())
def test_the_last_restart_decides(steps: list[tuple[int, int | None]], shared: bool) -> None:
    """Whatever came before, the block ends when the last restart says, and never after a restart without a time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        ended, ends_at = runner.run(_ends_of(steps, shared=shared))
    assert ended == ([] if ends_at is None else [pytest.approx(ends_at, abs=1.0)])


async def _ends_of(steps: list[tuple[int, int | None]], *, shared: bool) -> tuple[list[float], float | None]:
    """Play the restarts. Returns when the block ended, and when the last restart let it end."""
    clock = ManualClock()
    ended: list[float] = []
    began = clock.now()
    running = Timeouts(clock).timeout(20) if shared else timeout(clock, 20)

    async def block() -> None:
        try:
            async with running:
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            ended.append(clock.now() - began)

    task = asyncio.ensure_future(block())
    await settle()
    ends_at: float | None = 20.0
    for wait, seconds in steps:
        before = clock.now() - began
        if ends_at is not None and before + wait >= ends_at:
            break
        await clock.advance(wait)
        running.restart(seconds)
        ends_at = None if seconds is None else before + wait + seconds
    for _ in range(120):
        await clock.advance(1)
        await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return ended, ends_at


@given(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from([None, 0, 1, 2, 3, 4]),
    st.booleans(),
)
def test_it_cancels_as_asyncio_does(seconds: tuple[int, int, int], cancelled_at: int | None, swallows: bool) -> None:
    """Nested timeouts and a cancellation from outside end alike with this timeout and with asyncio's."""
    inner, outer, work = seconds

    async def block(scope: Callable[[float], AbstractAsyncContextManager[object]]) -> list[str]:
        ends = []
        try:
            async with scope(outer + 0.25):
                try:
                    async with scope(inner + 0.25):
                        try:
                            await asyncio.sleep(work)
                        except asyncio.CancelledError:
                            if not swallows:
                                raise
                        ends.append("inner block")
                    await asyncio.sleep(1)
                except TimeoutError:
                    ends.append("inner timeout")
                ends.append("outer block")
        except TimeoutError:
            ends.append("outer timeout")
        task = asyncio.current_task()
        assert task is not None
        return [*ends, str(task.cancelling())]

    async def outcome(scope: Callable[[float], AbstractAsyncContextManager[object]]) -> list[str]:
        task = asyncio.create_task(block(scope))
        if cancelled_at is not None:
            asyncio.get_running_loop().call_later(cancelled_at, task.cancel)
        await asyncio.wait([task])
        return ["cancelled"] if task.cancelled() else task.result()

    ends = []
    for scope in (partial(timeout, LOOP_CLOCK), Timeouts(LOOP_CLOCK).timeout, asyncio.timeout):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            ends.append(runner.run(outcome(scope)))
    assert ends[0] == ends[1] == ends[2]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(1, 9)), max_size=8))
def test_blocks_that_share_a_timer_end_on_their_own(blocks: list[tuple[int, int, int]]) -> None:
    """Each block ends at its own time or with its own work, whatever the others do, and one timer is set at most."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        timeouts = Timeouts(LOOP_CLOCK)

        async def block(start: int, limit: int, work: int) -> None:
            await asyncio.sleep(start)
            began = loop.time()
            try:
                async with timeouts.timeout(limit + 0.5):
                    await asyncio.sleep(work)
            except TimeoutError:
                assert limit + 0.5 < work
                assert loop.time() - began == pytest.approx(limit + 0.5)
            else:
                assert work < limit + 0.5

        await asyncio.gather(*(block(*numbers) for numbers in blocks))
        timeouts.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


def test_a_new_loop_sets_the_timer_again() -> None:
    """A timer of a loop that has ended never fires."""
    timeouts = Timeouts(LOOP_CLOCK)

    async def block(seconds: float) -> None:
        async with timeouts.timeout(5):
            await asyncio.sleep(seconds)

    for seconds in (1, 9):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            if seconds < 5:
                runner.run(block(seconds))
            else:
                with pytest.raises(TimeoutError):
                    runner.run(block(seconds))
