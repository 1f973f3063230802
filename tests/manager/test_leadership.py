"""What the manager does with the leadership: who is fenced, and when it says that it leads."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from opsdk.aio.fence import FENCE, Fence, check_fence
from opsdk.errors import CacheSyncError, LeaderElectionLostError, ShutdownTimeoutError
from opsdk.manager.leadership import ManagerLeadership
from opsdk.manager.manager import Manager, ManagerOptions
from opsdk.manager.phases import Phase


class Ballot:
    """An election that the test decides, without a clock of its own."""

    def __init__(self) -> None:
        self.won = asyncio.Event()
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        await self.end

    async def wait_elected(self) -> None:
        await self.won.wait()

    async def release(self) -> None: ...


class ClockBallot(Ballot):
    """An election that also ends by its own clock."""

    expired = False

    def check(self, action: str) -> None:
        if self.expired:
            raise LeaderElectionLostError(f"{action}: expired")


class Spy:
    """Tells the fence that its tasks have."""

    def __init__(self) -> None:
        self.fences: list[Fence | None] = []

    async def start(self) -> None:
        await asyncio.create_task(self._child())
        await asyncio.get_running_loop().create_future()

    async def _child(self) -> None:
        self.fences.append(FENCE.get())


async def test_only_what_needs_the_leadership_is_fenced() -> None:
    """Tasks of LEADER runnables inherit a fence; other groups have none, also if a leader's task adds the runnable."""
    ballot = Ballot()
    ballot.won.set()
    manager = Manager(election=ballot)
    spies = {phase: Spy() for phase in Phase}
    for phase, spy in spies.items():
        manager.add(spy, phase=phase)
    late, late_leader = Spy(), Spy()

    class Adds:
        async def start(self) -> None:
            manager.add(late, phase=Phase.OTHERS)
            manager.add(late_leader)

    manager.add(Adds())
    running = asyncio.create_task(manager.start())
    await asyncio.sleep(1)
    fenced = {phase for phase, spy in spies.items() if spy.fences != [None]}
    assert fenced == {Phase.LEADER}
    assert late.fences == [None]
    assert late_leader.fences == spies[Phase.LEADER].fences
    manager.stop()
    await running


async def test_without_an_election_nothing_is_fenced() -> None:
    """Without an election nothing is fenced."""
    manager, spy = Manager(), Spy()
    manager.add(spy)
    asyncio.get_running_loop().call_later(1, manager.stop)
    await manager.start()
    assert spy.fences == [None]


class Survivor:
    """Swallows its cancellation, and tries to write all the time."""

    def __init__(self) -> None:
        self.allowed = 0
        self.refused = 0
        self.free = False

    async def start(self) -> None:
        while not self.free:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)
            try:
                check_fence("a write")
            except LeaderElectionLostError:
                self.refused += 1
            else:
                self.allowed += 1


async def test_what_survives_its_cancellation_writes_no_more() -> None:
    """After a lost lease, the fence is closed for all tasks that the leader started."""
    ballot, survivor = Ballot(), Survivor()
    ballot.won.set()
    manager = Manager(election=ballot)
    manager.add(survivor)
    running = asyncio.create_task(manager.start())
    await asyncio.sleep(10.5)
    assert (survivor.allowed, survivor.refused) == (10, 0)
    assert manager.is_elected
    ballot.end.set_exception(LeaderElectionLostError("lost"))
    with pytest.raises(LeaderElectionLostError):
        await running
    assert not manager.is_elected
    await asyncio.sleep(10)
    assert survivor.allowed == 10
    assert survivor.refused >= 10
    survivor.free = True
    await asyncio.sleep(2)


async def test_what_survives_an_ordinary_stop_writes_no_more() -> None:
    """The manager has ended: nothing may act in its name."""
    ballot, survivor = Ballot(), Survivor()
    ballot.won.set()
    manager = Manager(ManagerOptions(shutdown_timeout=3), election=ballot)
    manager.add(survivor)
    asyncio.get_running_loop().call_later(5.5, manager.stop)
    with pytest.raises(ShutdownTimeoutError):
        await manager.start()
    allowed = survivor.allowed
    assert not manager.is_elected
    await asyncio.sleep(10)
    assert survivor.allowed == allowed
    survivor.free = True
    await asyncio.sleep(2)


async def test_what_is_not_ready_on_every_replica_does_not_keep_it_from_leading() -> None:
    """`wait_ready` still waits for it; its failure still ends the manager."""

    class Waits:
        def __init__(self) -> None:
            self.free = asyncio.Event()

        def needs_leader_election(self) -> bool:
            return False

        async def start(self) -> None:
            await asyncio.get_running_loop().create_future()

        async def wait_ready(self) -> None:
            await self.free.wait()
            raise CacheSyncError("no CRD")

    ballot, waits, spy = Ballot(), Waits(), Spy()
    ballot.won.set()
    manager = Manager(election=ballot)
    manager.add(waits)
    manager.add(spy)
    running = asyncio.create_task(manager.start())
    await manager.wait_elected()
    await asyncio.sleep(1)
    assert len(spy.fences) == 1
    ready = asyncio.create_task(manager.wait_ready())
    await asyncio.sleep(10)
    assert not ready.done()
    waits.free.set()
    with pytest.raises(CacheSyncError, match="no CRD"):
        await running
    ready.cancel()


async def test_is_elected_follows_the_clock_of_the_election() -> None:
    """False as soon as the lease may be another's, although the loop of the election has not noticed yet."""
    ballot = ClockBallot()
    ballot.won.set()
    manager = Manager(election=ballot)
    running = asyncio.create_task(manager.start())
    await manager.wait_elected()
    assert manager.is_elected
    ballot.expired = True
    assert not manager.is_elected
    manager.stop()
    await running


class Deaf:
    """Ignores every cancellation, in `start` and in `wait_ready`."""

    def __init__(self) -> None:
        self.free = asyncio.Event()

    async def _wait(self) -> None:
        while not self.free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.free.wait()

    async def start(self) -> None:
        await self._wait()

    async def warmup(self) -> None:
        await self._wait()


class DeafBallot(Ballot):
    """An election whose loop ignores its cancellation, and whose release hangs."""

    def __init__(self, part: Deaf) -> None:
        super().__init__()
        self.part = part

    async def run(self) -> None:
        await self.part.start()

    async def release(self) -> None:
        await asyncio.sleep(3600)


@pytest.mark.parametrize("elected", [False, True])
async def test_the_stop_is_bounded_when_nothing_cooperates(elected: bool) -> None:
    """Every group, the warm-up and the election ignore their cancellation: `start` returns soon after the timeout."""
    deaf = Deaf()
    ballot = DeafBallot(deaf)
    if elected:
        ballot.won.set()
    manager = Manager(ManagerOptions(shutdown_timeout=10), election=ballot)
    for phase in Phase:
        manager.add(deaf, phase=phase)
    asyncio.get_running_loop().call_later(5, manager.stop)
    with pytest.raises(ShutdownTimeoutError):
        await manager.start()
    assert asyncio.get_running_loop().time() <= 5 + 10 + 15
    deaf.free.set()
    await asyncio.sleep(1)


async def test_a_release_that_hangs_is_given_up() -> None:
    """Everything else has ended: the process must not wait for a server that does not answer."""

    class Leads(DeafBallot):
        async def run(self) -> None:
            await asyncio.get_running_loop().create_future()

    leads = Leads(Deaf())
    leads.won.set()
    manager = Manager(election=leads)
    asyncio.get_running_loop().call_later(5, manager.stop)
    await manager.start()
    assert asyncio.get_running_loop().time() <= 5 + 5.5


async def test_a_term_is_new_for_some_minutes_after_an_election() -> None:
    """The caches of a new leader may not show what the one before wrote. Without an election there was none."""
    for election, is_new in ((Ballot(), True), (None, False)):
        leadership = ManagerLeadership(election)
        leadership.begin()
        assert leadership.is_term_new is is_new
        await asyncio.sleep(299)
        assert leadership.is_term_new is is_new
        await asyncio.sleep(2)
        assert not leadership.is_term_new
