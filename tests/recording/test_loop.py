"""The loop of a recorded operator: one time for each iteration, and nothing waits for it in vain."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from opsdk.aio.blocking import blocking
from opsdk.aio.clock import is_virtual, monotonic, time_source, utc_now
from opsdk.recording.loop import RecordingLoop

pytestmark = pytest.mark.realtime
T = TypeVar("T")


def block() -> None:
    """Block the loop, as a long computation does."""
    time.sleep(0.002)


def run(main: Callable[[RecordingLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a recording loop."""
    loop = RecordingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))


def test_time_stands_still_during_an_iteration() -> None:
    """And moves with the next one, as the wall clock does."""

    async def main(loop: RecordingLoop) -> None:
        before, wall, number = monotonic(), utc_now(), loop.iteration
        block()
        assert (monotonic(), utc_now(), loop.iteration) == (before, wall, number)
        await asyncio.sleep(0)
        assert monotonic() >= before + 0.002
        assert utc_now() > wall
        assert loop.iteration == number + 1

    run(main)


def test_the_time_of_a_fence_goes_on() -> None:
    """Code that blocks the loop must not make a lease last longer."""

    async def main(_: RecordingLoop) -> None:
        now = time_source()
        before = now()
        assert abs(before - monotonic()) < 1.0
        block()
        assert now() >= before + 0.002

    run(main)


def test_threads_do_not_block_the_loop() -> None:
    """In virtual time the loop waits for a thread; here it must not."""
    went_on = threading.Event()

    @blocking
    def wait() -> bool:
        return went_on.wait(30)

    async def main(loop: RecordingLoop) -> bool:
        assert not is_virtual()
        loop.call_later(0.01, went_on.set)
        return await wait()

    assert run(main)


def test_timers_and_iterations_are_reported() -> None:
    """The microseconds of all iterations are the time of the loop."""

    async def main(loop: RecordingLoop) -> None:
        start, passed = loop.time(), list[int]()
        first = loop.iteration
        loop.observe(passed.append, lambda *_: None)
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert len(passed) == loop.iteration - first
        assert round(sum(passed) / 1e6 + start, 6) == round(loop.time(), 6)
        assert loop.time() - start >= 0.005

    run(main)


def test_what_threads_bring_comes_first() -> None:
    """Before callbacks that wait for longer, in the order of its arrival, and it wakes an idle loop."""

    async def main(loop: RecordingLoop) -> list[str]:
        order: list[str] = []
        ended = asyncio.Event()

        def bring() -> None:
            for number in range(3):
                loop.call_first(lambda number=number: order.append(f"thread {number}"))  # type: ignore[misc]

        loop.call_soon(order.append, "callback")
        threading.Thread(target=bring).run()  # in this thread: the loop cannot go on meanwhile
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        threading.Thread(target=loop.call_first, args=(ended.set,)).start()
        await ended.wait()
        return order

    assert run(main) == ["thread 0", "thread 1", "thread 2", "callback"]
