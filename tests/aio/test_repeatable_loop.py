"""The order of callbacks of a loop whose run can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio.virtual_loop import VirtualLoop

DELAYS = st.sampled_from([0.0, 1.0, 2.0])


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine in virtual time."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main(loop))


@given(st.lists(st.tuples(DELAYS, st.booleans()), max_size=40))
def test_timers_of_one_time_end_in_the_order_of_their_begin(timers: list[tuple[float, bool]]) -> None:
    """Whatever timers there are besides, and however many of them are cancelled."""
    ended: list[int] = []

    async def main(loop: VirtualLoop) -> None:
        handles = [loop.call_later(delay, ended.append, number) for number, (delay, _) in enumerate(timers)]
        for handle, (_, is_cancelled) in zip(handles, timers, strict=True):
            if is_cancelled:
                handle.cancel()
        await asyncio.sleep(3.0)

    run(main)
    expected = [(delay, number) for number, (delay, is_cancelled) in enumerate(timers) if not is_cancelled]
    assert ended == [number for _, number in sorted(expected)]


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_task_that_waits_for_something_outside_goes_on_first(are_outside: list[bool]) -> None:
    """Among those that one callback wakes. The others keep their order."""
    order: list[int] = []

    async def main(loop: VirtualLoop) -> None:
        event = asyncio.Event()

        async def wait(number: int, is_outside: bool) -> None:
            if is_outside:
                with loop.outside(), loop.outside():
                    await event.wait()
            else:
                await event.wait()
            order.append(number)

        tasks = [asyncio.create_task(wait(number, outside)) for number, outside in enumerate(are_outside)]
        await asyncio.sleep(1.0)
        event.set()
        await asyncio.gather(*tasks)

    run(main)
    assert order == sorted(range(len(are_outside)), key=lambda number: not are_outside[number])


def test_a_task_says_what_woke_it() -> None:
    """A timer, something outside, or another task after one of them."""
    wakes: list[str] = []

    async def main(loop: VirtualLoop) -> None:
        event = asyncio.Event()

        def note() -> None:
            task = asyncio.current_task()
            assert task is not None
            wakes.append(loop.wake_of(task))

        async def wait() -> None:
            await event.wait()
            note()

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(1.5)
        note()
        event.set()
        await waiting
        try:
            async with asyncio.timeout(1.0):
                await asyncio.sleep(5.0)
        except TimeoutError:
            note()
        loop.note_event(lambda: "the response to GET /", asyncio.current_task())
        note()

    run(main)
    assert wakes == [
        "the timer of 1.500000 s",
        "another task, after the timer of 1.500000 s",
        "the timer of 2.500000 s",
        "the response to GET /",
    ]
