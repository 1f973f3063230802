"""Elections: at most one leads at any moment, and before long one does."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_cases import mostly_slow

from opsdk.api.coordination.v1 import Lease, LeaseSpec
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import deep_copy
from opsdk.apimachinery.time import MicroTime
from opsdk.client.client import Client
from opsdk.client.operations import Create, Get, Operation, Update
from opsdk.errors import (
    AlreadyExistsError,
    ConflictError,
    ConnectError,
    ConnectionLostError,
    ForbiddenError,
    LeaderElectionLostError,
    NotFoundError,
    UsageError,
)
from opsdk.manager.leader_election.leader_election_record import LeaderElectionOptions, LeaderElectionRules, Role
from opsdk.manager.leader_election.leader_elector import LeaderElector
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.loop import VirtualLoop

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class LeaseServer:
    """An executor that knows one lease. Answers may be late, lost after the write, or refused."""

    scheme: Any = None
    mapper: Any = None

    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random(0)
        self.lease: Lease | None = None
        self.revision = 0
        self.fault_rate = 0.0
        self.cut_off: set[str] = set()
        self.refuses = False
        self.hanging = 0
        self.denied = False

    def client(self, identity: str) -> Client:
        return Client(_Link(self, identity))

    async def execute(self, operation: Operation, identity: str) -> Any:
        if self.refuses:
            raise ConnectError("refused")
        if self.hanging:
            self.hanging -= 1
            await asyncio.sleep(3600)
        if self.denied:
            raise ForbiddenError("no leases for you")
        await self._trouble(identity)
        result = self._do(operation)
        await self._trouble(identity)
        return result

    async def _trouble(self, identity: str) -> None:
        if identity in self.cut_off:
            await asyncio.sleep(3600)
        if self.rng.random() < self.fault_rate:
            await asyncio.sleep(self.rng.choice([0.01, 1, 4, 9]))
            if self.rng.random() < 0.5:
                raise ConnectionLostError("cut")

    def _do(self, operation: Operation) -> Any:
        if isinstance(operation, Get):
            if self.lease is None:
                raise NotFoundError("no lease")
            return deep_copy(self.lease)
        assert isinstance(operation, Create | Update)
        obj = operation.obj
        assert isinstance(obj, Lease)
        if isinstance(operation, Create) and self.lease is not None:
            raise AlreadyExistsError("there is one")
        if isinstance(operation, Update):
            if self.lease is None:
                raise NotFoundError("no lease")
            if obj.metadata.resource_version != self.lease.metadata.resource_version:
                raise ConflictError("changed meanwhile")
        self.revision += 1
        obj.metadata.resource_version = str(self.revision)
        obj.metadata.uid = obj.metadata.uid or "uid"
        self.lease = deep_copy(obj)
        return obj


class _Link:
    scheme: Any = None
    mapper: Any = None

    def __init__(self, server: LeaseServer, identity: str) -> None:
        self.server, self.identity = server, identity

    async def execute(self, operation: Operation) -> Any:
        return await self.server.execute(operation, self.identity)

    def watch(self, operation: Any) -> Any:
        raise NotImplementedError


def options(identity: str) -> LeaderElectionOptions:
    """The usual times."""
    return LeaderElectionOptions(name="lock", namespace="ns", identity=identity)


async def leading(elector: LeaderElector) -> bool:
    """Whether it leads within a minute."""
    for _ in range(600):
        if elector.is_leader:
            return True
        await asyncio.sleep(0.1)
    return False


@pytest.mark.parametrize("seed", mostly_slow(range(30), every=3))
async def test_never_two_leaders(seed: int) -> None:
    """Slow and lost answers, partitions, crashes and releases: never do two lead; when it calms down, one does."""
    rng = random.Random(seed)
    server = LeaseServer(rng)
    server.fault_rate = 0.2
    electors: dict[str, LeaderElector] = {}
    tasks: dict[str, asyncio.Task[None]] = {}

    async def replica(name: str) -> None:
        while True:
            electors[name] = LeaderElector(server.client(name), options(name))
            try:
                await electors[name].run()
            except LeaderElectionLostError:
                await asyncio.sleep(rng.random())

    for name in "abc":
        tasks[name] = asyncio.create_task(replica(name))
    for _ in range(3000):
        await asyncio.sleep(0.1)
        assert sum(e.is_leader for e in electors.values()) <= 1
        roll = rng.random()
        name = rng.choice("abc")
        if roll < 0.003:
            server.cut_off ^= {name}
        elif roll < 0.006:  # dies without a word, comes back under a new name of the same slot
            tasks[name].cancel()
            await asyncio.gather(tasks[name], return_exceptions=True)
            electors.pop(name, None)
            tasks[name] = asyncio.create_task(replica(name))
    server.cut_off.clear()
    server.fault_rate = 0
    for _ in range(700):
        await asyncio.sleep(0.1)
        assert sum(e.is_leader for e in electors.values()) <= 1
    assert sum(e.is_leader for e in electors.values()) == 1
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.behaviour(118)
async def test_the_next_one_takes_over_after_the_lease_has_run_out() -> None:
    """A leader that dies is followed after the lease duration, not before."""
    server = LeaseServer()
    first, second = (LeaderElector(server.client(n), options(n)) for n in "ab")
    dying = asyncio.create_task(first.run())
    assert await leading(first)
    waiting = asyncio.create_task(second.run())
    await asyncio.sleep(60)
    assert not second.is_leader
    renewed_at = asyncio.get_running_loop().time()
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    assert await leading(second)
    waited = asyncio.get_running_loop().time() - renewed_at
    assert 12 <= waited <= 24
    assert server.lease is not None
    assert server.lease.spec.lease_transitions == 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.behaviour(111)
async def test_a_released_lease_is_taken_at_once() -> None:
    """Giving the lease back lets the next one win within a retry period."""
    server = LeaseServer()
    first, second = (LeaderElector(server.client(n), options(n)) for n in "ab")
    one = asyncio.create_task(first.run())
    assert await leading(first)
    two = asyncio.create_task(second.run())
    await asyncio.sleep(10)
    one.cancel()
    await asyncio.gather(one, return_exceptions=True)
    await first.release()
    assert not first.is_leader
    began = asyncio.get_running_loop().time()
    assert await leading(second)
    assert asyncio.get_running_loop().time() - began < 2 * 2.2 + 0.2
    two.cancel()
    await asyncio.gather(two, return_exceptions=True)


async def test_giving_back_never_hangs() -> None:
    """A server that does not answer holds up the end by half the renew deadline, no longer."""
    server = LeaseServer()
    elector = LeaderElector(server.client("a"), options("a"))
    task = asyncio.create_task(elector.run())
    assert await leading(elector)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    server.cut_off.add("a")
    began = asyncio.get_running_loop().time()
    await elector.release()
    assert asyncio.get_running_loop().time() - began == pytest.approx(5)


@pytest.mark.behaviour(117)
async def test_a_cut_off_leader_gives_up_before_others_may_begin() -> None:
    """A leader without an answer for the renew deadline gives up, also while a request hangs."""
    server = LeaseServer()
    elector = LeaderElector(server.client("a"), options("a"))
    task = asyncio.create_task(elector.run())
    assert await leading(elector)
    await asyncio.sleep(5)
    server.cut_off.add("a")
    began = asyncio.get_running_loop().time()
    with pytest.raises(LeaderElectionLostError, match="could not renew ns/lock"):
        await task
    assert asyncio.get_running_loop().time() - began <= 12.1
    assert not elector.is_leader


async def test_one_hung_renewal_does_not_lose_the_lease() -> None:
    """A try ends after half the renew deadline, so that the next one can still succeed."""
    server = LeaseServer()
    elector = LeaderElector(server.client("a"), options("a"))
    task = asyncio.create_task(elector.run())
    assert await leading(elector)
    for _ in range(5):
        await asyncio.sleep(10)
        server.hanging = 1
        await asyncio.sleep(10)
        assert server.hanging == 0
        assert elector.is_leader
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.behaviour(117)
@pytest.mark.parametrize("phase", [0.0, 0.5, 1.0, 1.5, 1.99])
async def test_an_outage_shorter_than_the_deadline_does_not_lose_the_lease(phase: float) -> None:
    """The renew deadline starts with the first try that fails: 7.9 s without a server are survived at any phase."""
    server = LeaseServer()
    elector = LeaderElector(server.client("a"), options("a"))
    task = asyncio.create_task(elector.run())
    assert await leading(elector)
    await asyncio.sleep(10 + phase)
    server.refuses = True
    await asyncio.sleep(7.9)
    server.refuses = False
    await asyncio.sleep(3)
    assert elector.is_leader
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_blocked_event_loop_ends_the_leadership_before_others_lead() -> None:
    """Without renewals, leadership ends before the lease does."""
    server = LeaseServer()
    elector = LeaderElector(server.client("a"), options("a"))
    task = asyncio.create_task(elector.run())
    await asyncio.sleep(0.1)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    assert elector.is_leader
    loop.block(13.9)
    assert elector.is_leader
    loop.block(0.5)
    assert not elector.is_leader
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.realtime
async def test_leadership_is_judged_by_a_time_that_passes_while_the_loop_is_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Uvloop's time stands still during a callback; the elector reads the system's time instead."""
    server = LeaseServer()
    elector = LeaderElector(server.client("a"), options("a"))
    loop = asyncio.get_running_loop()
    frozen, blocked = loop.time(), 0.0
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", lambda: frozen)
        patch.setattr("time.monotonic", lambda: frozen + blocked)
        task = asyncio.create_task(elector.run())
        await elector.wait_elected()
        assert elector.is_leader
        blocked = 60.0
        assert not elector.is_leader
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@given(
    lease=st.floats(2, 60),
    deadline=st.floats(0.1, 0.99),
    retry=st.floats(0.05, 0.8),
    tries=st.lists(st.floats(0, 5), max_size=5),
)
def test_leadership_ends_before_the_lease_does(lease: float, deadline: float, retry: float, tries: list[float]) -> None:
    """With any options, leadership has ended before an observer of renewals may take the lease."""
    renew_deadline = lease * deadline
    try:
        options = LeaderElectionOptions(
            name="n",
            namespace="ns",
            identity="a",
            lease_duration=lease,
            renew_deadline=renew_deadline,
            retry_period=renew_deadline * retry,
        )
    except UsageError:
        return
    ours, theirs = LeaderElectionRules(options), LeaderElectionRules(replace(options, identity="b"))
    now = 100.0
    record = ours.desired_record(EPOCH)
    ours.acquired(record, now, now)
    theirs.observed(record, now)
    for wait in tries:
        now += wait
        ours.trying(now)
        if ours.check(now) is Role.LEADING:
            assert ours.deadline() > now
    assert not theirs.can_acquire(ours.deadline())
    assert ours.check(ours.deadline()) is Role.LOST


async def test_the_error_of_a_lost_lease_explains_it() -> None:
    """The error of a lost lease has its reason, such as a blocked event loop."""
    server = LeaseServer()
    elector = LeaderElector(server.client("a"), options("a"), explain=lambda: "the event loop was blocked for 20 s")
    task = asyncio.create_task(elector.run())
    assert await leading(elector)
    server.refuses = True
    with pytest.raises(LeaderElectionLostError, match=r"within 10 s .*; the event loop was blocked for 20 s$"):
        await task


@pytest.mark.behaviour(119, 120)
async def test_what_others_wrote_on_the_lease_stays() -> None:
    """Foreign labels survive renewals; ours are added; holder changes count as transitions, renewals do not."""
    server = LeaseServer()
    server.lease = Lease(
        metadata=ObjectMeta(name="lock", namespace="ns", uid="u", resource_version="0", labels={"team": "x"}),
        spec=LeaseSpec(holder_identity="", lease_transitions=4),
    )
    options = LeaderElectionOptions(name="lock", namespace="ns", identity="a", labels=(("mine", "y"),))
    elector = LeaderElector(server.client("a"), options)
    task = asyncio.create_task(elector.run())
    assert await leading(elector)
    acquired = server.lease.spec.acquire_time
    await asyncio.sleep(30)
    assert server.lease.metadata.labels == {"team": "x", "mine": "y"}
    assert server.lease.spec.lease_transitions == 5
    assert server.lease.spec.acquire_time == acquired
    assert server.lease.spec.renew_time != acquired
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.behaviour(120)
async def test_a_foreign_write_to_the_lease_does_not_end_the_leadership() -> None:
    """The renewal conflicts, reads the lease again, and keeps the foreign annotation."""
    server = LeaseServer()
    elector = LeaderElector(server.client("a"), options("a"))
    task = asyncio.create_task(elector.run())
    assert await leading(elector)
    assert server.lease is not None
    server.lease.metadata.annotations["team"] = "x"
    server.revision += 1
    server.lease.metadata.resource_version = str(server.revision)
    await asyncio.sleep(30)
    assert elector.is_leader
    assert server.lease.metadata.annotations == {"team": "x"}
    assert server.lease.spec.lease_transitions == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_denied_candidate_keeps_trying(caplog: pytest.LogCaptureFixture) -> None:
    """A missing permission is retried. The log names the namespace, where it comes from, and what to do."""
    server = LeaseServer()
    server.denied = True
    elector = LeaderElector(server.client("a"), replace(options("a"), namespace_source="context dev of ~/.kube/config"))
    task = asyncio.create_task(elector.run())
    await asyncio.sleep(100)
    assert not task.done()
    (text,) = {record.getMessage() for record in caplog.records}
    assert text == (
        "cannot take or renew the lease ns/lock: no leases for you; the election needs this permission in the "
        "namespace ns (context dev of ~/.kube/config): run with --leader-election-namespace for another one, or apply "
        "the roles that opsdk generate rbac --flag leader-elect prints"
    )
    server.denied = False
    assert await leading(elector)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.behaviour(118)
def test_remote_clocks_are_not_believed() -> None:
    """A lease whose renew time lies in the far past or future is only free when we saw it unchanged long enough."""
    for year in (1999, 2099):
        rules = LeaderElectionRules(options("a"))
        spec = LeaseSpec(holder_identity="b", lease_duration_seconds=15, renew_time=MicroTime(year, 1, 1))
        rules.observed(Lease(spec=spec), now=100.0)
        assert not rules.can_acquire(114.9)
        assert rules.can_acquire(115.0)
        assert rules.check(115.0) is Role.WAITING


@pytest.mark.behaviour(109)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, "leader_election_id"),
        ({"namespace": ""}, "leader_election_namespace"),
        ({"renew_deadline": 15.0}, "lease_duration > renew_deadline"),
        ({"retry_period": 9.0}, "retry_period"),
        ({"lease_duration": 1.9, "renew_deadline": 1.8, "retry_period": 1.0}, "whole seconds"),
    ],
)
def test_bad_options_are_refused_at_once(changes: JsonObject, words: str) -> None:
    """Times that cannot work, and missing names, say so at construction."""
    with pytest.raises(UsageError, match=words):
        LeaderElectionOptions(**{"name": "n", "namespace": "ns", "identity": "i", **changes})


def test_the_loop_is_virtual() -> None:
    """An hour of election takes no real time in these tests."""

    async def hour() -> float:
        server = LeaseServer()
        task = asyncio.create_task(LeaderElector(server.client("a"), options("a")).run())
        await asyncio.sleep(3600)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(hour()) == 3600


@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize("deleted_at", [0.1 + number * 0.45 for number in range(12)])
async def test_a_deleted_lease_never_has_two_leaders(deleted_at: float, times: int) -> None:
    """A replica that has seen the lease waits until it would have expired; its holder creates it again before.

    Deleted again and again, it may change its holder, but not before the former one has stopped.
    """
    server = LeaseServer()
    first, second = (LeaderElector(server.client(name), options(name)) for name in ("first", "second"))
    tasks = [asyncio.create_task(first.run())]
    assert await leading(first)
    tasks.append(asyncio.create_task(second.run()))
    await asyncio.sleep(5 + deleted_at)
    both = 0
    for _ in range(times):
        server.lease = None
        for _ in range(21):
            await asyncio.sleep(0.1)
            both += first.is_leader and second.is_leader
    assert both == 0
    if times == 1:
        await asyncio.sleep(60)
        assert first.is_leader
    await _stop(tasks)


class DeletedLeases(LeaseServer):
    """Deletes each lease of one holder at once, so that no other replica sees it."""

    deleted_holder = ""
    delays_create: float = 0.0

    def _do(self, operation: Operation) -> Any:
        result = super()._do(operation)
        holder = "" if self.lease is None else self.lease.spec.holder_identity
        if not isinstance(operation, Get) and holder == self.deleted_holder:
            self.lease = None
        return result

    async def _trouble(self, identity: str) -> None:
        if identity == "second" and self.delays_create and self.lease is None:
            await asyncio.sleep(self.delays_create)
        await super()._trouble(identity)


@pytest.mark.parametrize("delays_create", [0.0, 2.3])
@pytest.mark.parametrize("hangs_after", [number * 0.7 for number in range(1, 40)])
async def test_a_leader_whose_requests_hang_has_stopped_before_the_next_one_leads(
    hangs_after: float, delays_create: float
) -> None:
    """Its renewals create the lease again, each is deleted before the standby sees it, and then its requests hang."""
    server = DeletedLeases()
    first, second = (LeaderElector(server.client(name), options(name)) for name in ("first", "second"))
    tasks = [asyncio.create_task(first.run())]
    assert await leading(first)
    tasks.append(asyncio.create_task(second.run()))
    await asyncio.sleep(5)
    server.deleted_holder, server.delays_create = "first", delays_create
    server.lease = None
    both = 0
    for tenth in range(900):
        if tenth == int(hangs_after * 10):
            server.cut_off.add("first")
        await asyncio.sleep(0.1)
        both += first.is_leader and second.is_leader
    leaders = (first.is_leader, second.is_leader)
    await _stop(tasks)
    assert (both, leaders) == (0, (False, True))


@pytest.mark.parametrize("seed", mostly_slow(range(60), every=4))
async def test_deletions_never_lead_to_two_leaders(seed: int) -> None:
    """Leases are deleted at random times, while requests hang, are late, and lose their answers."""
    rng = random.Random(seed)
    server = LeaseServer(rng)
    replicas = [LeaderElector(server.client(name), options(name)) for name in "abcd"]
    tasks = [asyncio.create_task(replicas[0].run())]
    assert await leading(replicas[0])
    tasks += [asyncio.create_task(replica.run()) for replica in replicas[1:]]
    await asyncio.sleep(10)
    server.fault_rate = 0.3
    most = 0
    for _ in range(30):
        deletes, cut = rng.random() < 0.6, rng.choice("abcd-")
        server.cut_off = {cut} - {"-"}
        for _ in range(rng.randrange(20, 200)):
            await asyncio.sleep(0.1)
            if deletes and rng.random() < 0.3:
                server.lease = None
            most = max(most, sum(replica.is_leader for replica in replicas))
    await _stop(tasks)
    assert most == 1


async def test_a_deleted_lease_of_a_leader_that_is_gone_expires() -> None:
    """The standby waits for the lease that it saw, and for its own one as long, not forever."""
    server = LeaseServer()
    first, second = (LeaderElector(server.client(name), options(name)) for name in ("first", "second"))
    tasks = [asyncio.create_task(first.run())]
    assert await leading(first)
    tasks.append(asyncio.create_task(second.run()))
    await asyncio.sleep(5)
    tasks[0].cancel()
    server.lease = None
    began = asyncio.get_running_loop().time()
    assert await leading(second)
    assert 28 <= asyncio.get_running_loop().time() - began <= 35
    await _stop(tasks)


async def test_a_leader_whose_deleted_lease_is_taken_stops_at_its_next_renewal() -> None:
    """A replica that never saw the lease creates it; the former leader reads it at once, and has lost."""
    server = LeaseServer()
    first, second = (LeaderElector(server.client(name), options(name)) for name in ("first", "second"))
    running = asyncio.create_task(first.run())
    assert await leading(first)
    server.lease = None
    other = asyncio.create_task(second.run())
    assert await leading(second)
    await asyncio.sleep(2.1)
    assert (first.is_leader, second.is_leader) == (False, True)
    with pytest.raises(LeaderElectionLostError):
        await running
    await _stop([other])


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
