"""Timeouts follow the clock they are given."""

import asyncio

import pytest

from opsdk.aio.timeout import timeout
from opsdk.testing.clock import ManualClock, settle


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
