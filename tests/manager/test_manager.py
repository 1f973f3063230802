"""The manager's laws: order, readiness, errors, the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cache_world import THING, World

from opsdk.base.runnable import Runnable
from opsdk.controller.controller import Controller
from opsdk.controller.options import ControllerOptions
from opsdk.errors import CacheSyncError, ForbiddenError, LeaderElectionLostError, ShutdownTimeoutError, UsageError
from opsdk.event.handlers import EnqueueRequestForObject
from opsdk.event.request import Request
from opsdk.event.sources import Channel, ChannelSource, KindSource
from opsdk.manager.manager import Manager, ManagerOptions
from opsdk.manager.phases import Phase

GROUPS = (Phase.HTTP, Phase.WEBHOOKS, Phase.CACHES, Phase.OTHERS, Phase.LEADER)


class Part:
    """A runnable that tells what it does, and does what it is told."""

    def __init__(
        self,
        name: str,
        log: list[str] | None = None,
        *,
        ready: float | None = None,
        stop: float = 0.0,
        fail: BaseException | None = None,
        fails_at: float = 0.0,
        deaf: bool = False,
        ends_at: float | None = None,
    ) -> None:
        self.name, self.log = name, log if log is not None else []
        self._stop, self._fail, self._fails_at, self._deaf, self._ends_at = stop, fail, fails_at, deaf, ends_at
        self.free = asyncio.Event()
        if ready is not None:
            self.wait_ready = lambda: self._wait_ready(ready)

    async def _wait_ready(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.log.append(f"{self.name} ready")

    async def start(self) -> None:
        self.log.append(f"{self.name} starts")
        if self._fail is not None:
            await asyncio.sleep(self._fails_at)
            raise self._fail
        try:
            if self._ends_at is not None:
                await asyncio.sleep(self._ends_at)
                return
            await self._forever()
        finally:
            await asyncio.sleep(self._stop)
            self.log.append(f"{self.name} stops")

    async def _forever(self) -> None:
        while True:
            try:
                await self.free.wait()
            except asyncio.CancelledError:
                if not self._deaf:
                    raise
            if self.free.is_set():
                return

    def __repr__(self) -> str:
        return f"<Part {self.name}>"


class Ballot:
    """An election that is decided by the test."""

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = log if log is not None else []
        self.won = asyncio.Event()
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.released = 0
        self.release_error: Exception | None = None

    async def run(self) -> None:
        try:
            await self.end
        finally:
            self.log.append("election ends")

    async def wait_elected(self) -> None:
        await self.won.wait()

    async def release(self) -> None:
        self.released += 1
        self.log.append("lease given back")
        if self.release_error is not None:
            raise self.release_error


def now() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


async def run_for(manager: Manager, seconds: float) -> None:
    """Start, stop after some time, and wait for the end; raises what `start` raises."""
    asyncio.get_running_loop().call_later(seconds, manager.stop)
    await manager.start()


# ------------------------------------------------------------------ order
@pytest.mark.behaviour(103)
async def test_groups_start_in_order_each_when_the_one_before_is_ready_and_stop_in_reverse() -> None:
    """HTTP, webhooks, caches, others, leader; then others, leader, caches, webhooks, HTTP.

    Others and leader need not wait for each other.
    """
    log: list[str] = []
    manager = Manager()
    for phase in reversed(GROUPS):
        manager.add(Part(phase.name, log, ready=None if phase is Phase.LEADER else 5, stop=1), phase=phase)
    await run_for(manager, 60)
    starts = [text for phase in GROUPS[:-2] for text in (f"{phase.name} starts", f"{phase.name} ready")]
    starts += ["OTHERS starts"]
    stops = [f"{p.name} stops" for p in (Phase.OTHERS, Phase.LEADER, Phase.CACHES, Phase.WEBHOOKS, Phase.HTTP)]
    assert log == [*starts, "LEADER starts", "OTHERS ready", *stops]


async def test_a_group_stops_as_one() -> None:
    """Ten runnables that need a second each need a second together."""
    manager = Manager()
    for n in range(10):
        manager.add(Part(str(n), stop=1))
    await run_for(manager, 10)
    assert now() == pytest.approx(11)


@pytest.mark.behaviour(103)
async def test_the_lease_is_given_back_last() -> None:
    """Renewed until everything has stopped, then released."""
    log: list[str] = []
    ballot = Ballot(log)
    manager = Manager(election=ballot)
    manager.add(Part("http", log), phase=Phase.HTTP)
    manager.add(Part("leader", log, stop=3))
    ballot.won.set()
    await run_for(manager, 10)
    assert log == ["http starts", "leader starts", "leader stops", "http stops", "election ends", "lease given back"]


async def test_where_a_runnable_goes() -> None:
    """Leader-only unless it says otherwise; a phase that is named wins."""

    class Anywhere(Part):
        def needs_leader_election(self) -> bool:
            return False

    log: list[str] = []
    manager = Manager(election=Ballot(log))
    manager.add(Anywhere("anywhere", log))
    manager.add(Part("leader", log))
    manager.add(Part("named", log), phase=Phase.WEBHOOKS)
    await run_for(manager, 10)
    assert [text for text in log if text.endswith("starts")] == ["named starts", "anywhere starts"]


@pytest.mark.behaviour(104)
async def test_added_while_running_it_starts_at_its_time() -> None:
    """Into a running group at once, into a waiting one with it, and never once the manager stops."""
    log: list[str] = []
    ballot = Ballot(log)
    manager = Manager(election=ballot)
    running = asyncio.create_task(manager.start())
    await asyncio.sleep(5)
    manager.add(Part("other", log), phase=Phase.OTHERS)
    manager.add(Part("leader", log))
    await asyncio.sleep(5)
    assert log == ["other starts"]
    ballot.won.set()
    await asyncio.sleep(5)
    manager.add(Part("late leader", log, stop=2))
    await asyncio.sleep(5)
    assert log == ["other starts", "leader starts", "late leader starts"]
    manager.stop()
    await asyncio.sleep(1)
    with pytest.raises(UsageError, match="stop procedure is already engaged"):
        manager.add(Part("too late"), phase=Phase.HTTP)
    await running
    with pytest.raises(UsageError, match="stop procedure is already engaged"):
        manager.add(Part("too late"))


async def test_what_is_added_during_the_wait_is_waited_for() -> None:
    """A cache added while the others sync must be ready before reconcilers start."""
    log: list[str] = []
    manager = Manager()
    manager.add(Part("one", log, ready=5), phase=Phase.CACHES)
    manager.add(Part("leader", log))
    asyncio.get_running_loop().call_later(2, lambda: manager.add(Part("two", log, ready=20), phase=Phase.CACHES))
    await run_for(manager, 60)
    assert log[:5] == ["one starts", "two starts", "one ready", "two ready", "leader starts"]


@pytest.mark.behaviour(111)
async def test_waiting_for_readiness_and_election() -> None:
    """`wait_ready` returns when the runnables of every replica are ready, `wait_elected` when this replica leads."""
    ballot = Ballot()
    manager = Manager(election=ballot)
    manager.add(Part("cache", ready=7), phase=Phase.CACHES)
    running = asyncio.create_task(manager.start())
    await manager.wait_ready()
    assert now() == pytest.approx(7)
    assert not manager.is_elected
    asyncio.get_running_loop().call_later(3, ballot.won.set)
    await manager.wait_elected()
    assert now() == pytest.approx(10)
    manager.stop()
    await running


@pytest.mark.behaviour(111)
async def test_without_an_election_everybody_leads() -> None:
    """Without an election, each replica leads as soon as everything else is ready."""
    manager = Manager()
    manager.add(Part("cache", ready=7), phase=Phase.CACHES)
    running = asyncio.create_task(manager.start())
    await manager.wait_elected()
    assert now() == pytest.approx(7)
    manager.stop()
    await running


async def test_one_that_ends_early_is_fine() -> None:
    """A runnable that returns before it was ready does not end the manager."""
    log: list[str] = []
    manager = Manager()
    manager.add(Part("short", log, ends_at=1, ready=10**6), phase=Phase.CACHES)
    manager.add(Part("next", log))
    await run_for(manager, 60)
    assert log == ["short starts", "short stops", "next starts", "next stops"]


# ------------------------------------------------------------------ errors
@pytest.mark.behaviour(105)
@pytest.mark.parametrize("phase", GROUPS)
@pytest.mark.parametrize("at", [0.0, 5.0])
async def test_the_first_error_ends_everything_and_is_raised(phase: Phase, at: float) -> None:
    """The first error of any group stops the others, and `start` raises it."""
    log: list[str] = []
    error = ValueError("mine")
    manager = Manager()
    for other in GROUPS:
        manager.add(Part(other.name, log, stop=1), phase=other)
    manager.add(Part("bad", log, fail=error, fails_at=at), phase=phase)
    with pytest.raises(ValueError, match="mine") as caught:
        await manager.start()
    assert caught.value is error
    started = {text.split()[0] for text in log if text.endswith("starts")} - {"bad"}
    assert {text.split()[0] for text in log if text.endswith("stops")} == started


async def test_two_errors() -> None:
    """The first is raised, the second only logged."""
    manager = Manager()
    manager.add(Part("a", fail=ValueError("first"), fails_at=1))
    manager.add(Part("b", fail=KeyError("second"), fails_at=1))
    with pytest.raises(ValueError, match="first"):
        await manager.start()


async def test_one_that_never_will_be_ready_ends_the_manager() -> None:
    """A runnable that can never be ready ends the manager with its reason."""

    class Never(Part):
        async def wait_ready(self) -> None:
            await asyncio.sleep(3)
            raise CacheSyncError("no rights")

    manager = Manager()
    manager.add(Part("hangs", ready=10**7), phase=Phase.CACHES)
    manager.add(Never("never"), phase=Phase.CACHES)
    with pytest.raises(CacheSyncError, match="no rights"):
        await manager.start()
    assert now() == pytest.approx(3, abs=0.1)


async def test_one_that_is_cancelled_from_outside_is_an_error() -> None:
    """A runnable whose task is cancelled by other code ends the manager with an error."""

    class Suicidal(Part):
        async def start(self) -> None:
            raise asyncio.CancelledError

    manager = Manager()
    manager.add(Suicidal("s"))
    with pytest.raises(RuntimeError, match="not by its group"):
        await manager.start()


@pytest.mark.behaviour(109)
async def test_a_second_start_is_refused() -> None:
    """A manager cannot be started again, neither while it runs nor afterwards."""
    manager = Manager()
    running = asyncio.create_task(manager.start())
    await asyncio.sleep(1)
    with pytest.raises(UsageError, match="already started"):
        await manager.start()
    manager.stop()
    await running
    with pytest.raises(UsageError, match="already started"):
        await manager.start()


async def test_what_belongs_before_the_start_is_refused_after_it() -> None:
    """Health checks and the election are refused after the start."""

    async def check() -> None: ...

    manager = Manager()
    manager.add_healthz_check("a", check)
    await run_for(manager, 1)
    later: list[Callable[[], Any]] = [
        lambda: manager.add_healthz_check("b", check),
        lambda: manager.add_readyz_check("b", check),
        lambda: manager.use_election(Ballot()),
    ]
    for add in later:
        with pytest.raises(UsageError, match="before the manager starts"):
            add()


@pytest.mark.behaviour(85, better="Names are unique per manager, so tests do not need `SkipNameValidation`.")
def test_names_are_unique_in_a_manager() -> None:
    """A second controller of one name is refused, another manager may use it."""
    one, two = Manager(), Manager()
    one.claim_name("website")
    two.claim_name("website")
    with pytest.raises(UsageError, match="names must be unique"):
        one.claim_name("website")


# ------------------------------------------------------------------ the end
async def test_the_late_are_named() -> None:
    """Runnables that exceed the grace period are cancelled again and named in a ShutdownTimeoutError."""
    log: list[str] = []
    manager = Manager(ManagerOptions(shutdown_timeout=10))
    manager.add(Part("slow", log, stop=100))
    manager.add(Part("fast", log, stop=1))
    with pytest.raises(ShutdownTimeoutError, match=r"grace period of 10 s: <Part slow>$"):
        await run_for(manager, 5)
    assert now() == pytest.approx(15, abs=2)
    assert "fast stops" in log


async def test_the_grace_is_shared() -> None:
    """All groups together have one grace period, not one each."""
    manager = Manager(ManagerOptions(shutdown_timeout=10))
    for phase in GROUPS:
        manager.add(Part(phase.name, stop=4), phase=phase)
    with pytest.raises(ShutdownTimeoutError, match=r"<Part CACHES>, <Part WEBHOOKS>, <Part HTTP>"):
        await run_for(manager, 5)
    assert now() < 5 + 10 + 3 * 1.5


@pytest.mark.behaviour(105)
async def test_a_failure_has_the_timeout_as_a_note() -> None:
    """The failure of a runnable is raised, with the shutdown timeout as a note."""
    manager = Manager(ManagerOptions(shutdown_timeout=2))
    manager.add(Part("slow", stop=100))
    manager.add(Part("bad", fail=ValueError("mine"), fails_at=1))
    with pytest.raises(ValueError, match="mine") as caught:
        await manager.start()
    assert any("<Part slow>" in note for note in caught.value.__notes__)


@pytest.mark.behaviour(106)
async def test_no_grace_and_endless_grace() -> None:
    """A shutdown_timeout of 0 does not wait, None waits without a limit, and the default is 30 s."""
    assert ManagerOptions().shutdown_timeout == 30
    manager = Manager(ManagerOptions(shutdown_timeout=0))
    manager.add(Part("slow", stop=1000))
    await run_for(manager, 5)
    assert now() < 7
    log: list[str] = []
    manager = Manager(ManagerOptions(shutdown_timeout=None))
    manager.add(Part("slow", log, stop=1000))
    await run_for(manager, 5)
    assert log[-1] == "slow stops"


async def test_a_runnable_that_ignores_cancellation_is_named() -> None:
    """The manager ends beside a runnable that ignores its cancellation, names it, and keeps the lease."""
    ballot = Ballot()
    ballot.won.set()
    manager = Manager(ManagerOptions(shutdown_timeout=3), election=ballot)
    deaf = Part("deaf", deaf=True)
    manager.add(deaf)
    with pytest.raises(ShutdownTimeoutError, match="<Part deaf>"):
        await run_for(manager, 5)
    assert ballot.released == 0
    deaf.free.set()
    await asyncio.sleep(1)


async def test_a_stuck_reconcile_keeps_the_lease_and_is_named() -> None:
    """A controller that had to give up on a reconcile says so through the manager, too."""
    free = asyncio.Event()

    async def deaf(_: Request) -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    channel = Channel("c")
    channel.send(Request("ns", "stuck"))
    ballot = Ballot()
    ballot.won.set()
    manager = Manager(ManagerOptions(shutdown_timeout=60), election=ballot)
    manager.add(Controller("c", deaf, sources=[ChannelSource(channel)], options=ControllerOptions(shutdown_timeout=2)))
    with pytest.raises(ShutdownTimeoutError, match="ns/stuck"):
        await run_for(manager, 5)
    assert ballot.released == 0
    free.set()
    await asyncio.sleep(1)


@pytest.mark.behaviour(108, better="The stop is immediate; controller-runtime waits for the sync.")
async def test_stopping_during_a_sync_that_never_ends_is_prompt() -> None:
    """The end does not wait for what will never be ready; later groups never start."""
    log: list[str] = []
    manager = Manager()
    manager.add(Part("cache", log, ready=10**9), phase=Phase.CACHES)
    manager.add(Part("leader", log))
    await run_for(manager, 5)
    assert now() == pytest.approx(5, abs=0.1)
    assert log == ["cache starts", "cache stops"]


@pytest.mark.behaviour(108, better="The stop is immediate; controller-runtime waits for the sync.")
async def test_a_cache_that_may_not_list_does_not_hold_up_the_end() -> None:
    """The real cache and a real controller: stopped while RBAC denies the list, all ends at once."""
    world = World()
    world.server(THING).refuse = ForbiddenError("no")
    await world.cache.informer_for(THING)
    manager = Manager()
    manager.add(world.cache, phase=Phase.CACHES)
    manager.add(Controller("c", _nothing, sources=[KindSource(world.cache, THING, EnqueueRequestForObject())]))
    await run_for(manager, 1000)
    assert now() == pytest.approx(1000, abs=1)


async def test_a_cache_that_never_starts_is_no_busy_wait() -> None:
    """Waiting for the start of a cache costs nothing, and its end ends the wait."""
    world = World()
    waiting = asyncio.create_task(world.cache.wait_ready())
    await asyncio.sleep(100)
    assert not waiting.done()
    await world.cache.aclose()
    with pytest.raises(Exception, match="not started"):
        await waiting


async def test_stop_before_start() -> None:
    """The manager ends at once and nothing that leads has run."""
    log: list[str] = []
    manager = Manager()
    manager.add(Part("leader", log))
    manager.stop()
    await manager.start()
    assert log == []


async def test_cancelling_start_is_a_stop_and_again_ends_its_grace() -> None:
    """The first cancellation stops in order; the second one leaves no more time, but still ends everything."""
    log: list[str] = []
    manager = Manager(ManagerOptions(shutdown_timeout=None))
    manager.add(Part("slow", log, stop=10**6), phase=Phase.OTHERS)
    manager.add(Part("cache", log), phase=Phase.CACHES)
    task = asyncio.create_task(manager.start())
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.sleep(5)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert now() == pytest.approx(10, abs=2)
    assert "cache stops" in log


# ------------------------------------------------------------------ election
@pytest.mark.behaviour(107)
async def test_a_standby_starts_no_leader_runnable() -> None:
    """A replica that never leads starts no leader runnable, also while it stops, and releases no lease."""
    log: list[str] = []
    ballot = Ballot(log)
    manager = Manager(election=ballot)
    manager.add(Part("leader", log))
    asyncio.get_running_loop().call_later(10.0, ballot.won.set)
    await run_for(manager, 10.0)
    assert "leader starts" not in log
    assert ballot.released == 0


@pytest.mark.behaviour(106)
async def test_lost_leadership_ends_at_once() -> None:
    """Leader runnables get no grace; `start` raises the loss, and the lease is not released."""
    log: list[str] = []
    ballot = Ballot(log)
    ballot.won.set()
    manager = Manager(election=ballot)
    manager.add(Part("leader", log, stop=100))
    manager.add(Part("other", log), phase=Phase.OTHERS)
    asyncio.get_running_loop().call_later(5, ballot.end.set_exception, LeaderElectionLostError("leader election lost"))
    with pytest.raises(LeaderElectionLostError, match="leader election lost"):
        await manager.start()
    assert now() < 8
    assert log.index("leader stops") < log.index("other stops") if "leader stops" in log else True
    assert ballot.released == 0


async def test_leadership_lost_while_stopping_ends_the_grace() -> None:
    """A leader that takes its time must not outlive its lease."""
    ballot = Ballot()
    ballot.won.set()
    manager = Manager(ManagerOptions(shutdown_timeout=1000), election=ballot)
    manager.add(Part("leader", stop=10**6))
    asyncio.get_running_loop().call_later(20, ballot.end.set_exception, LeaderElectionLostError("lost"))
    with pytest.raises(ShutdownTimeoutError, match="<Part leader>"):
        await run_for(manager, 10)
    assert now() < 25


@pytest.mark.parametrize("how", ["error", "return", "cancel"])
async def test_an_election_that_ends_by_itself_ends_the_manager(how: str) -> None:
    """An elector that raises, returns or is cancelled ends the manager."""
    ballot = Ballot()
    ballot.won.set()
    manager = Manager(election=ballot)
    manager.add(Part("leader"))
    ends: dict[str, Callable[[], Any]] = {
        "error": lambda: ballot.end.set_exception(ZeroDivisionError()),
        "return": lambda: ballot.end.set_result(None),
        "cancel": ballot.end.cancel,
    }
    asyncio.get_running_loop().call_later(5, ends[how])
    with pytest.raises(ZeroDivisionError if how == "error" else LeaderElectionLostError):
        await manager.start()
    assert now() == pytest.approx(5, abs=2)


async def test_an_election_lost_at_once_starts_nothing() -> None:
    """A replica that loses the election in the moment of winning starts no leader runnable."""
    log: list[str] = []
    ballot = Ballot(log)
    manager = Manager(election=ballot)
    manager.add(Part("leader", log))
    loop = asyncio.get_running_loop()
    loop.call_later(5, lambda: (ballot.won.set(), ballot.end.set_exception(LeaderElectionLostError("lost"))))
    with pytest.raises(LeaderElectionLostError):
        await manager.start()
    assert "leader starts" not in log


async def test_a_lease_that_cannot_be_given_back_is_no_failure() -> None:
    """A lease that cannot be released expires, and the program ends without an error."""
    ballot = Ballot()
    ballot.won.set()
    ballot.release_error = ConnectionError("gone")
    await run_for(Manager(election=ballot), 5)
    assert ballot.released == 1


# ------------------------------------------------------------------ no task left
async def _nothing(_: Request) -> None: ...


def _whole(rng: random.Random, log: list[str]) -> tuple[Manager, list[Part]]:
    """A manager with something in every group."""
    ballot = Ballot(log)
    ballot.won.set()
    manager = Manager(ManagerOptions(shutdown_timeout=rng.choice([0.0, 5.0, 30.0, None])), election=ballot)
    parts = [Part(p.name, log, ready=rng.choice([None, 0, 0.01, 1]), stop=rng.choice([0, 0.01, 1])) for p in GROUPS]
    for part, phase in zip(parts, GROUPS, strict=True):
        manager.add(part, phase=phase)
    world = World()
    world.server(THING).put("a")
    manager.add(world.cache, phase=Phase.CACHES)
    manager.add(Controller("c", _nothing, sources=[KindSource(world.cache, THING, EnqueueRequestForObject())]))
    return manager, parts


@pytest.mark.behaviour(115)
@pytest.mark.parametrize("cancels", [1, 2, 3])
@pytest.mark.parametrize("seed", range(30))
async def test_cancelled_at_any_moment_nothing_is_left(seed: int, cancels: int) -> None:
    """Cancelled at random moments of start, work and stop: everything started stops, and no task is left."""
    rng = random.Random(seed * 7 + cancels)
    log: list[str] = []
    manager, _ = _whole(rng, log)
    task = asyncio.create_task(manager.start())
    for _ in range(cancels):
        for _ in range(rng.randrange(40)):
            await asyncio.sleep(rng.choice([0, 0, 0, 0.01, 0.5]))
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(2)
    started = {text.split()[0] for text in log if text.endswith("starts")}
    stopped = {text.split()[0] for text in log if text.endswith("stops")}
    hurried = manager.options.shutdown_timeout == 0 or cancels > 1
    assert stopped == started or (hurried and stopped <= started)


@pytest.mark.parametrize("step", range(60))
async def test_cancelled_at_the_nth_turn_of_the_loop(step: int) -> None:
    """The same at each of the first turns of the event loop, one after the other."""
    log: list[str] = []
    manager, _ = _whole(random.Random(1), log)
    task = asyncio.create_task(manager.start())
    for _ in range(step):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_parts_are_runnables() -> None:
    """The fakes are what the manager takes."""
    assert isinstance(Part("x"), Runnable)
    created: Awaitable[None] = Part("x", ends_at=0).start()
    await created


# ------------------------------------------------------------------ user code that does not cooperate
async def test_one_that_returns_at_once_does_not_hang_the_start() -> None:
    """A runnable whose `start` returns before its readiness is awaited does not hang the start."""
    log: list[str] = []

    class Quick(Part):
        async def start(self) -> None:
            self.log.append("quick ends")

    manager = Manager()
    manager.add(Quick("quick", log, ready=10**6), phase=Phase.CACHES)
    manager.add(Part("next", log))
    await run_for(manager, 60)
    assert log == ["quick ends", "next starts", "next stops"]


async def test_a_readiness_that_ignores_cancellation_does_not_hold_up_the_stop() -> None:
    """`start` returns within a small grace, and the log names the runnable."""
    free = asyncio.Event()

    class Deaf(Part):
        async def wait_ready(self) -> None:
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    continue

    manager = Manager(ManagerOptions(shutdown_timeout=2))
    manager.add(Deaf("deaf"), phase=Phase.CACHES)
    await run_for(manager, 5)
    assert now() < 5 + 2 + 3
    free.set()
    await asyncio.sleep(1)


async def test_the_stop_is_announced_once() -> None:
    """The stop is announced once, after `stop`, a cancellation or an error."""
    for how in ("stop", "cancel", "error"):
        calls: list[str] = []
        manager = Manager()
        manager.on_stop(lambda calls=calls: calls.append("stops"))  # type: ignore[misc]
        running = asyncio.create_task(manager.start())
        await asyncio.sleep(1)
        if how == "error":
            manager.add(Part("bad", fail=ValueError("mine")))
        elif how == "cancel":
            running.cancel()
        else:
            manager.stop()
            manager.stop()
        await asyncio.gather(running, return_exceptions=True)
        assert calls == ["stops"], how
