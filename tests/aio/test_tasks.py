"""A task owner ends in bounded time, whatever its tasks do."""

import asyncio
import logging

import pytest

from opsdk.aio.tasks import TaskOwner


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
