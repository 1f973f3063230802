"""Sleeps with names: they last as long as others, and a checkpoint can set their ends."""

from __future__ import annotations

import asyncio

from opsdk.aio.named_sleep import SLEEPS, NamedSleeps, named_sleep


async def test_without_a_recording_it_is_a_sleep() -> None:
    """And nothing is kept."""
    loop = asyncio.get_running_loop()
    await named_sleep("round", 5.0)
    assert loop.time() == 5.0


async def test_the_ends_of_all_sleeps_are_known() -> None:
    """While they last, in the order in which they began. A cancelled sleep is forgotten."""
    sleeps = NamedSleeps()
    SLEEPS.set(sleeps)
    tasks = [asyncio.create_task(named_sleep(name, seconds)) for name, seconds in (("b", 9.0), ("a", 3.0), ("b", 6.0))]
    await asyncio.sleep(1.0)
    assert sleeps.ends() == [("b", 9.0), ("a", 3.0), ("b", 6.0)]
    tasks[0].cancel()
    await asyncio.sleep(4.0)
    assert sleeps.ends() == [("b", 6.0)]
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sleeps.ends() == []
    assert asyncio.get_running_loop().time() == 6.0


async def test_moved_sleeps_end_at_their_new_times() -> None:
    """Those of one name in their order. A sleep that the checkpoint has not does not end."""
    sleeps, loop = NamedSleeps(), asyncio.get_running_loop()
    SLEEPS.set(sleeps)
    ended: list[tuple[str, float]] = []

    async def sleep(name: str) -> None:
        await named_sleep(name, 1.0)
        ended.append((name, loop.time()))

    tasks = [asyncio.create_task(sleep(name)) for name in ("lease", "resync", "resync", "deferred")]
    await asyncio.sleep(0.5)
    sleeps.move([("resync", 30.0), ("lease", 2.5), ("resync", 20.0), ("timer", 1.0)])
    await asyncio.sleep(100.0)
    assert ended == [("lease", 2.5), ("resync", 20.0), ("resync", 30.0)]
    assert [task.done() for task in tasks] == [True, True, True, False]
    tasks[-1].cancel()
