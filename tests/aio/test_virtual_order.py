"""The order of tasks in virtual time: first in, first out, or one that a seed decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from opsdk.testing.loop import VirtualLoop


def _turns(order: int | None) -> Sequence[int]:
    """Return the numbers of four tasks in the order of their turns; each has three."""
    turns: list[int] = []

    async def take_turns(number: int) -> None:
        for _ in range(3):
            turns.append(number)
            await asyncio.sleep(0)

    async def take_all() -> None:
        await asyncio.gather(*(take_turns(number) for number in range(4)))

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(order=order)) as runner:
        runner.run(take_all())
    return turns


def test_tasks_run_first_in_first_out_by_default() -> None:
    """Without a seed each task waits until the others had their turn."""
    assert _turns(None) == [0, 1, 2, 3] * 3


def test_a_seed_decides_the_order() -> None:
    """The same seed gives the same order, and other seeds give others. No turn is lost."""
    orders = [_turns(seed) for seed in range(20)]
    assert orders == [_turns(seed) for seed in range(20)]
    assert len({tuple(order) for order in orders}) > 10
    assert all(sorted(order) == sorted([0, 1, 2, 3] * 3) for order in orders)


def test_callbacks_that_are_no_tasks_keep_their_order() -> None:
    """Transports rely on the order of their callbacks."""

    async def call(calls: list[int]) -> None:
        loop = asyncio.get_running_loop()
        for number in range(10):
            loop.call_soon(calls.append, number)
        await asyncio.sleep(1)

    for seed in range(20):
        calls: list[int] = []
        with asyncio.Runner(loop_factory=lambda seed=seed: VirtualLoop(order=seed)) as runner:  # type: ignore[misc]
            runner.run(call(calls))
        assert calls == list(range(10))


def test_cancelled_tasks_end_in_an_order_that_repeats() -> None:
    """A group cancels its tasks in the order of a set, which depends on addresses: the order here does not."""

    def ended(seed: int, padding: int) -> Sequence[int]:
        numbers: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                numbers.append(number)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise KeyError

        async def run_group() -> None:
            # Other objects between the tasks change their addresses.
            others = []
            try:
                async with asyncio.TaskGroup() as group:
                    for number in range(8):
                        others.append([bytearray(1000 * padding)] * padding)
                        group.create_task(wait(number))
                    group.create_task(fail())
            except* KeyError:
                pass

        with asyncio.Runner(loop_factory=lambda: VirtualLoop(order=seed)) as runner:
            runner.run(run_group())
        return numbers

    assert [ended(seed, 0) for seed in range(10)] == [ended(seed, 7) for seed in range(10)]
