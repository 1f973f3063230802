"""A task owner ends in bounded time, whatever its tasks do."""

import asyncio
import logging

import pytest

from opsdk.aio.tasks import TaskOwner, until_set


async def test_close_leaves_a_task_that_ignores_its_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    """After the grace period `aclose` returns, and the log names the task that still runs."""
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    owner = TaskOwner("owner", grace=3.0)
    task = owner.start(stubborn(), name="stubborn")
    await asyncio.sleep(0)
    with caplog.at_level(logging.ERROR):
        await owner.aclose()
    assert asyncio.get_running_loop().time() == 3.0
    assert "owner/stubborn" in caplog.text
    release.set()
    await task


async def test_close_does_not_spin_on_a_task_that_has_just_ended() -> None:
    """A task whose callback has not run yet is waited for through the event loop; its error is raised."""

    async def fails() -> None:
        raise ValueError("mine")

    owner = TaskOwner("owner")
    task = owner.start(fails(), name="fails")
    while not task.done():
        await asyncio.sleep(0)
    assert len(owner) == 1  # the callback runs in the next iteration
    with pytest.raises(ValueError, match="mine"):
        await owner.aclose()


async def test_close_from_the_iteration_in_which_a_task_ends() -> None:
    """A waiter that the task wakes before its callback may close the owner at once."""
    owner = TaskOwner("owner")
    ended = asyncio.Event()
    closed = asyncio.create_task(_close_after(owner, ended))
    await asyncio.sleep(0)

    async def ends() -> None:
        ended.set()

    owner.start(ends(), name="ends")
    await closed
    assert len(owner) == 0


async def _close_after(owner: TaskOwner, ended: asyncio.Event) -> None:
    await ended.wait()
    await owner.aclose()


async def test_a_coroutine_ends_when_an_event_is_set() -> None:
    """Without its result; a coroutine that ends before has one."""
    event, ended = asyncio.Event(), list[str]()

    async def work(seconds: float) -> int:
        try:
            await asyncio.sleep(seconds)
        finally:
            ended.append(f"{seconds:g}")
        return 3

    asyncio.get_running_loop().call_later(2.0, event.set)
    assert await until_set(event, work(1.0)) == 3
    assert await until_set(event, work(5.0)) is None
    assert ended == ["1", "5"]
