"""Waiting that a cancellation cannot cut short."""

from __future__ import annotations

import asyncio

import pytest

from opsdk.aio.waiting import finish, wait_ended


def now() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


async def test_wait_ended_returns_the_unfinished_tasks() -> None:
    """The function waits for all tasks or for the time, and returns the unfinished tasks."""
    tasks = [asyncio.create_task(asyncio.sleep(n)) for n in (1, 2, 10)]
    assert await wait_ended(tasks, 5) == {tasks[2]}
    assert now() == pytest.approx(5)
    assert await wait_ended(tasks, None) == set()
    assert await wait_ended([], 5) == set()
    assert now() == pytest.approx(10)


@pytest.mark.parametrize("cancels", [1, 3])
async def test_a_cancellation_comes_after_the_wait(cancels: int) -> None:
    """Repeated cancellations are raised when the tasks have ended."""
    work = asyncio.create_task(asyncio.sleep(10))
    waiting = asyncio.create_task(wait_ended([work], None))
    for _ in range(cancels):
        await asyncio.sleep(1)
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert now() == pytest.approx(10)
    assert not work.cancelled()


async def test_running_tasks_are_returned_before_the_cancellation_is_raised() -> None:
    """If the cancellation and the timeout come together, the running tasks are returned."""
    work = asyncio.create_task(asyncio.sleep(100))
    waiting = asyncio.create_task(wait_ended([work], 5))
    await asyncio.sleep(1)
    waiting.cancel()
    assert await waiting == {work}
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_finish_runs_to_the_end_despite_a_cancellation() -> None:
    """Result and error are the coroutine's; a cancellation is raised when it has ended, whatever it ended with."""

    async def answer(seconds: float, error: Exception | None = None) -> int:
        await asyncio.sleep(seconds)
        if error is not None:
            raise error
        return 5

    assert await finish(answer(1), name="a") == 5
    with pytest.raises(KeyError):
        await finish(answer(1, KeyError()), name="a")
    for error in (None, KeyError()):
        began = now()
        task = asyncio.create_task(finish(answer(10, error), name="a"))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert now() == pytest.approx(began + 10)
