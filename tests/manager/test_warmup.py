"""Warm-ups: a replica that waits for the lease fills its caches, and leads at once when it wins."""

from __future__ import annotations

import asyncio

import pytest

from opsdk.aio.fence import check_fence
from opsdk.errors import LeaderElectionLostError, ShutdownTimeoutError
from opsdk.manager.manager import Manager, ManagerOptions
from opsdk.manager.phases import Phase


class Ballot:
    """An election that the test decides."""

    def __init__(self) -> None:
        self.won = asyncio.Event()

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def wait_elected(self) -> None:
        await self.won.wait()

    async def release(self) -> None: ...


class Warm:
    """A runnable with a warm-up."""

    def __init__(self, log: list[str], *, seconds: float = 5.0, error: Exception | None = None) -> None:
        self.log, self.seconds, self.error = log, seconds, error
        self.deaf = False
        self.refused: list[str] = []

    async def warmup(self) -> None:
        self.log.append("warms")
        try:
            check_fence("a write")
        except LeaderElectionLostError as error:
            self.refused.append(str(error))
        until = asyncio.get_running_loop().time() + self.seconds
        try:
            while (wait := until - asyncio.get_running_loop().time()) > 0:
                try:
                    await asyncio.sleep(wait)
                except asyncio.CancelledError:
                    if not self.deaf:
                        raise
        finally:
            self.log.append("warm-up ends")
        if self.error is not None:
            raise self.error

    async def start(self) -> None:
        self.log.append("starts")
        check_fence("a write")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.log.append("stops")

    def __repr__(self) -> str:
        return "<Warm>"


@pytest.mark.behaviour(87, 103)
async def test_a_standby_is_warmed_after_its_caches() -> None:
    """The warm-up begins when the caches are ready, and may not write; `start` follows the election."""
    log: list[str] = []

    class Slow:
        async def start(self) -> None:
            await asyncio.get_running_loop().create_future()

        async def wait_ready(self) -> None:
            await asyncio.sleep(3)
            log.append("caches ready")

    ballot = Ballot()
    manager, warm = Manager(election=ballot), Warm(log)
    manager.add(Slow(), phase=Phase.CACHES)
    manager.add(warm)
    running = asyncio.create_task(manager.start())
    await asyncio.sleep(100)
    assert log == ["caches ready", "warms", "warm-up ends"]
    assert len(warm.refused) == 1
    ballot.won.set()
    await asyncio.sleep(1)
    manager.stop()
    await running
    assert log[3:] == ["starts", "stops"]


@pytest.mark.behaviour(87)
async def test_winning_does_not_wait_for_the_warm_up() -> None:
    """`start` runs while the warm-up still does, as in controller-runtime."""
    log: list[str] = []
    ballot = Ballot()
    ballot.won.set()
    manager = Manager(election=ballot)
    manager.add(Warm(log, seconds=50))
    running = asyncio.create_task(manager.start())
    await asyncio.sleep(10)
    assert log == ["warms", "starts"]
    await asyncio.sleep(50)
    assert log == ["warms", "starts", "warm-up ends"]
    manager.stop()
    await running


async def test_added_while_waiting_it_is_warmed_and_added_while_leading_it_is_not() -> None:
    """A leader starts it at once."""
    log: list[str] = []
    ballot = Ballot()
    manager = Manager(election=ballot)
    running = asyncio.create_task(manager.start())
    await asyncio.sleep(10)
    manager.add(Warm(log))
    await asyncio.sleep(10)
    assert log == ["warms", "warm-up ends"]
    ballot.won.set()
    await asyncio.sleep(1)
    log.clear()
    manager.add(Warm(log))
    await asyncio.sleep(1)
    assert log == ["starts"]
    manager.stop()
    await running


async def test_without_an_election_or_elsewhere_nothing_is_warmed() -> None:
    """Without an election or in another group, a runnable starts at once, without a warm-up."""
    for phase, election in ((Phase.LEADER, None), (Phase.OTHERS, Ballot())):
        log: list[str] = []
        manager = Manager(election=election)
        manager.add(Warm(log), phase=phase)
        asyncio.get_running_loop().call_later(20, manager.stop)
        await manager.start()
        assert log == ["starts", "stops"]


@pytest.mark.behaviour(87)
async def test_a_warm_up_that_fails_ends_the_manager() -> None:
    """A standby that could not take over must not look healthy."""
    log: list[str] = []
    manager = Manager(election=Ballot())
    manager.add(Warm(log, error=ValueError("mine")))
    with pytest.raises(ValueError, match="mine"):
        await manager.start()
    assert asyncio.get_running_loop().time() == pytest.approx(5)


async def test_a_stop_ends_the_warm_up() -> None:
    """A stop cancels the warm-up and waits for it; a runnable that ignores this is named."""
    log: list[str] = []
    manager = Manager(election=Ballot())
    manager.add(Warm(log, seconds=1000))
    asyncio.get_running_loop().call_later(10, manager.stop)
    await manager.start()
    assert log == ["warms", "warm-up ends"]
    assert asyncio.get_running_loop().time() == pytest.approx(10)
    manager = Manager(ManagerOptions(shutdown_timeout=3), election=Ballot())
    warm = Warm(log, seconds=100)
    warm.deaf = True
    manager.add(warm)
    asyncio.get_running_loop().call_later(10, manager.stop)
    with pytest.raises(ShutdownTimeoutError, match="warm-up of <Warm>"):
        await manager.start()
    await asyncio.sleep(200)
