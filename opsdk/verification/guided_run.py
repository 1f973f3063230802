"""Runs a workload once: without a disturbance, or with one. The next action waits until the operator is at rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from opsdk.aio.garbage import OFTEN_REPEATED, rare_collections
from opsdk.aio.virtual_loop import DeadlockError, VirtualLoop
from opsdk.controller.journal import ReconcileRecord
from opsdk.engine.connections import refusal_of, refuse_connections
from opsdk.engine.determinism import seeded_entropy
from opsdk.engine.world.cluster import SimulatedCluster, journal_text
from opsdk.engine.world.declaration import SimulatedOperator
from opsdk.engine.world.exchange import CURRENT_EXCHANGE, Exchange, changes_state, is_lease
from opsdk.engine.world.faults import Fault
from opsdk.engine.world.replica import Observer
from opsdk.engine.writes import Entry
from opsdk.event.request import Request
from opsdk.verification.disturbances import FOREIGN, WRITES, Disturbance, DisturbanceKind, WatchMessage, WriteRecord
from opsdk.verification.foreign_client import delete_child, edit_child
from opsdk.verification.held_views import HeldViews
from opsdk.verification.rest_state import RestState, StateRecorder, is_retrying
from opsdk.verification.watch_events import watched_objects

__all__ = [
    "Disturber",
    "GuidedOutcome",
    "WorkloadRun",
    "WorkloadStep",
    "disturber_of",
    "outside_text",
    "run_guided",
    "run_workload",
]

_QUIET: Final = 60.0
"""Virtual seconds without a write, after which the operator is at rest: it may wait for its next retry."""
_SHORTEST: Final = 0.01
"""Virtual seconds between two looks: the rest of a difference of times may be too small to move the clock."""
_LONGEST: Final = 300.0
"""Virtual seconds after which the next action does not wait any longer."""
_LOST_SECONDS: Final = 50.0
"""Virtual seconds in which a leader cannot renew its lease: longer than most leases, shorter than a rest."""
_RESTLESS: Final = ("calm: ", "hot loop: ", "restart: ")
"""How violations begin that say that writes go on."""
_SUBJECT: Final = "the verification"
_FAULTS: Final = {
    DisturbanceKind.CRASH_AFTER: Fault.CRASH_AFTER_WRITE,
    DisturbanceKind.LOSE_ANSWER: Fault.LOSE_ANSWER,
    DisturbanceKind.CONFLICT: Fault.CONFLICTING_WRITE,
    DisturbanceKind.REFUSE: Fault.UNAVAILABLE,
}


class WorkloadStep(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One action of a workload.

    Attributes:
        name: of the action.
        seed: of its random numbers.
        is_harmful: what the operator makes of the state after it may depend on what it had done before.
    """

    name: str
    seed: int = 0
    is_harmful: bool = False


class GuidedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run.

    Attributes:
        violations: the broken invariants, each with its name before a colon.
        writes: of the operator, in the order in which they were sent.
        messages: of its watches.
        states: at rest, by the number of actions before; none where the view of the operator was stale.
        user_writes: method and path of each write of the actions.
        happened: whether the disturbance was reached.
        records: the operator's reconciles.
        seconds: of virtual time.
        restless: method and path of writes that went on when the operator should have come to rest.
        draws_random: whether anything drew from Python's global random numbers.
        connections: targets outside of the simulated cluster that were refused. Each is the only sort of violation of
            such a run, and it has no states: what the operator makes of a refusal says nothing.
    """

    violations: Sequence[str] = ()
    writes: Sequence[WriteRecord] = ()
    messages: Sequence[WatchMessage] = ()
    states: Mapping[int, RestState] = {}
    user_writes: Sequence[str] = ()
    happened: bool = False
    records: Sequence[ReconcileRecord] = ()
    seconds: float = 0.0
    restless: Sequence[str] = ()
    draws_random: bool = False
    connections: Sequence[str] = ()

    def journal(self, violations: Sequence[str]) -> str:
        """Return the last reconciles of the objects that violations name."""
        return journal_text(self.records, violations)


class Disturber:
    """Disturbs a run, or not: this one lets everything pass. Its methods are called in the run's event loop.

    Attributes:
        max_latency: see `Link.max_latency`.
    """

    max_latency: float = 0.01

    @property
    def happened(self) -> bool:
        """Whether the run was disturbed."""
        return False

    @property
    def is_stale(self) -> bool:
        """Whether the operator's view is held back now: its state is not compared then."""
        return False

    @property
    def has_missed(self) -> bool:
        """Whether an object came and went that the operator never saw: its state is not compared then."""
        return False

    def attach(self, run: WorkloadRun) -> None:
        """Begin with a run; called before its replicas start."""

    async def decide(self, exchange: Exchange, number: int) -> Fault | None:  # noqa: ARG002
        """Return the fault that hits a request. The number is that of the write; 0 if the request changes nothing."""
        return None

    async def hold(self, exchange: Exchange, message: WatchMessage, body: bytes) -> bool:  # noqa: ARG002
        """Wait until a message of a watch is delivered; False if it never is. The body is its bytes."""
        return True

    async def delay(self, exchange: Exchange) -> None:
        """Wait until the answer to a request is delivered."""

    async def begin(self, request: Request) -> None:
        """Wait until a reconcile begins."""

    def finish(self, request: Request) -> None:
        """Note the end of a reconcile."""

    def on_entry(self, entry: Entry, exchange: Exchange | None) -> None:
        """Note a stored write. The exchange is None if the operator did not send it."""

    async def at_rest(self) -> bool:
        """Return whether the operator's view was released now, at a rest: then it comes to rest once more."""
        return False

    async def end(self) -> None:
        """End all disturbances: the last action was taken."""


def run_guided(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], disturbance: Disturbance | None = None, *, seed: int = 0
) -> GuidedOutcome:
    """Run a workload in virtual time. Must not be called from a running event loop.

    Args:
        declared: the operator, its environment, its actions and its invariants.
        steps: the workload.
        disturbance: what goes wrong; None for a reference run.
        seed: of every random number. Runs with one seed are equal until their disturbances.
    """
    return run_workload(declared, steps, disturber_of(disturbance), seed=seed)


def disturber_of(disturbance: Disturbance | None) -> Disturber:
    """Return what lets one disturbance happen, or nothing."""
    if disturbance is None:
        return Disturber()
    if disturbance.kind is DisturbanceKind.TAKE_OVER:
        return _TakeOver(disturbance)
    if disturbance.kind in FOREIGN:
        return _ForeignChange(disturbance)
    return _OneDisturbance(disturbance)


def run_workload(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], disturber: Disturber, *, seed: int = 0,
    order: int | None = None,
) -> GuidedOutcome:  # fmt: skip
    """Run a workload with a disturber, as `run_guided` does with one disturbance. For `order` see `VirtualLoop`."""
    return WorkloadRun(declared, steps, disturber, seed, order=order).run()


class WorkloadRun:
    """One run of a workload.

    Attributes:
        cluster: the environment and the replicas.
        state: the objects that the operator wrote.
        action: number of the action that was taken last, from 0; -1 before the first.
        hurry: set to end the present rest: the next action comes at once.
    """

    def __init__(
        self, declared: SimulatedOperator, steps: Sequence[WorkloadStep], disturber: Disturber, seed: int, *,
        order: int | None = None,
    ) -> None:  # fmt: skip
        self._declared, self._steps, self._disturber = declared, steps, disturber
        self._seed, self._order = seed, order
        self._observer = Observer(
            decide=self._decide,
            hold=self._hold,
            delay=disturber.delay,
            begin=disturber.begin,
            finish=disturber.finish,
            max_latency=disturber.max_latency,
        )
        self.cluster = SimulatedCluster(declared, self._observer)
        self.state = StateRecorder()
        self.action = -1
        self.hurry = asyncio.Event()
        self._writes: list[Exchange] = []
        self._messages: list[WatchMessage] = []
        self._counts: dict[str, int] = {}
        self._last_write = 0.0
        self._states: dict[int, RestState] = {}
        self._is_over = False
        self._broken_checks: list[str] = []
        self._restless: dict[str, None] = {}
        self._random_state: object = None
        self._seconds = 0.0
        self._connections: Collection[str] = ()
        disturber.attach(self)

    def run(self) -> GuidedOutcome:
        """Take all steps in a loop of their own, and return the result."""
        seed = self._seed
        with (
            rare_collections(OFTEN_REPEATED),
            seeded_entropy(seed),
            refuse_connections(self._declared.allowed_hosts, subject=_SUBJECT) as self._connections,
            asyncio.Runner(loop_factory=lambda: VirtualLoop(seed, order=self._order)) as runner,
        ):
            self._random_state = random.getstate()
            try:
                return runner.run(self._run())
            except DeadlockError as error:
                return self.outcome([f"deadlock: {error}"])
            except SystemExit as end:
                return self.outcome([f"crash: the operator ended its process with status {end.code}"])

    async def _run(self) -> GuidedOutcome:
        async with self.cluster as cluster:
            cluster.world(self._seed).env.journal.subscribe(self._on_entry)
            violations = await cluster.until_exhausted(self._play())
        self._seconds = asyncio.get_running_loop().time()
        return self.outcome(violations)

    def outcome(self, violations: Sequence[str]) -> GuidedOutcome:
        """Return the result of the run."""
        connections = tuple(self._connections)
        problems = tuple(f"outside: {outside_text(target)}" for target in connections)
        if not connections:
            problems = self.cluster.violations([*violations, *self._broken_checks, *self.state.violations])
        return GuidedOutcome(
            violations=problems,
            writes=[
                WriteRecord(number=number, method=each.method, path=each.path, changed=each.revision > 0)
                for number, each in enumerate(self._writes, 1)
            ],
            messages=self._messages,
            states={} if connections else self._states,
            user_writes=self.cluster.user_writes,
            happened=self._disturber.happened,
            records=self.cluster.records,
            seconds=self._seconds,
            restless=self._restless_writes(problems),
            draws_random=random.getstate() != self._random_state,
            connections=connections,
        )

    def _restless_writes(self, violations: Sequence[str]) -> Sequence[str]:
        """Return the writes that went on, with the last one before a violation that says so."""
        if self._writes and any(each.startswith(_RESTLESS) for each in violations):
            self._restless.setdefault(_text_of(self._writes[-1]))
        return list(self._restless)

    async def _play(self) -> list[str]:
        """Take the steps, each at rest, and return the violations."""
        await self.rest()
        if await self._disturber.at_rest():
            await self.rest()
        for number, step in enumerate(self._steps):
            action = self._declared.action(step.name)
            assert action is not None, step
            if not self._disturber.is_stale and not self.hurry.is_set():
                await self._note_rest(number)
            self.action = number
            self.hurry.clear()
            await self.cluster.act(action, step.seed)
            await self.rest(fails=step.is_harmful)
            if await self._disturber.at_rest():
                await self.rest()
        await self._disturber.end()
        self.cluster.heal()
        violations = await self.cluster.come_to_rest(self._seed)
        if not violations:
            await self._note_rest(len(self._steps))
            self._is_over = True
            violations = await self.cluster.restart()
        return violations

    async def _note_rest(self, number: int) -> None:
        """Note the state at the rest after some steps, and the checks that do not hold there.

        After a harmful step they need not hold: a pod whose image does not exist is not ready.
        """
        if not self._disturber.has_missed:
            self._states[number] = self.state.at_rest(self.cluster.records)
        if not number or not self._steps[number - 1].is_harmful:
            self._broken_checks += await self.cluster.failed_checks(self._declared.at_rest, self._seed)

    async def rest(self, *, fails: bool = False) -> None:
        """Wait until the operator wrote nothing for a while, or until the next action comes early.

        An operator that has failed for long waits for minutes before its next attempt, which may write.

        Args:
            fails: its attempts may fail for ever: then nothing waits for the next one.
        """
        loop = asyncio.get_running_loop()
        begin = self._last_write = loop.time()
        while not self.hurry.is_set() and (now := loop.time()) - begin < _LONGEST:
            quiet_at = self._last_write + _QUIET
            if now >= quiet_at:
                if fails or not is_retrying(self.cluster.records):
                    return
                quiet_at = now + _QUIET
            with suppress(TimeoutError):
                async with asyncio.timeout(max(min(quiet_at, begin + _LONGEST) - now, _SHORTEST)):
                    await self.hurry.wait()
        if loop.time() - self._last_write < _QUIET and not self.hurry.is_set():
            self._restless.update(
                dict.fromkeys(_text_of(each) for each in self._writes if each.time >= self._last_write - _QUIET)
            )

    async def _decide(self, exchange: Exchange) -> Fault | None:
        if not changes_state(exchange):
            return await self._disturber.decide(exchange, 0)
        self._last_write = exchange.time
        self._writes.append(exchange)
        return await self._disturber.decide(exchange, len(self._writes))

    async def _hold(self, exchange: Exchange, body: bytes) -> bool:
        """Count a message of a watch; returns whether it is delivered."""
        if self._is_over:
            return True  # no action follows that could meet an old view
        path = exchange.path
        number = self._counts[path] = self._counts.get(path, 0) + 1
        standby = self.cluster.is_standby(exchange.client)
        keys = tuple(each.key for each in watched_objects(body))
        message = WatchMessage(path=path, number=number, keys=keys, action=self.action, standby=standby)
        self._messages.append(message)
        return await self._disturber.hold(exchange, message, body)

    def _on_entry(self, entry: Entry) -> None:
        """Note a stored write: its request, and what it does to the state."""
        exchange = CURRENT_EXCHANGE.get()
        if exchange is not None:
            exchange.revision = entry.revision
        self.state.add(entry, own=exchange is not None, client=exchange.client if exchange is not None else "")
        self._disturber.on_entry(entry, exchange)


class _OneDisturbance(Disturber):
    """Lets one thing go wrong."""

    def __init__(self, disturbance: Disturbance) -> None:
        self._disturbance = disturbance
        self._happened = False
        self._loses_lease = ""
        self._views = HeldViews()

    @property
    def happened(self) -> bool:
        """Whether the disturbance was reached."""
        return self._happened

    @property
    def is_stale(self) -> bool:
        """Whether a watch stands still, or hides an event."""
        return self._views.any_held

    @property
    def has_missed(self) -> bool:
        return self._views.has_missed

    def attach(self, run: WorkloadRun) -> None:
        self._run = run

    async def decide(self, exchange: Exchange, number: int) -> Fault | None:
        disturbance = self._disturbance
        if exchange.client == self._loses_lease and is_lease(exchange):
            return Fault.UNAVAILABLE
        if disturbance.kind not in WRITES or disturbance.number != number:
            return None
        self._happened = True
        if disturbance.kind is DisturbanceKind.LOSE_LEASE:
            self._loses_lease = exchange.client
            asyncio.get_running_loop().call_later(_LOST_SECONDS, self._keep_lease)
            return None
        return _FAULTS[disturbance.kind]

    def _keep_lease(self) -> None:
        self._loses_lease = ""

    async def hold(self, exchange: Exchange, message: WatchMessage, body: bytes) -> bool:  # noqa: ARG002
        disturbance, run, path = self._disturbance, self._run, message.path
        if disturbance.kind in WRITES or disturbance.path != path:
            return True
        if disturbance.number == message.number:
            self._happened = True
            if disturbance.kind is DisturbanceKind.HIDE:
                hidden = {each.link.client: each.link.hide(path) for each in run.cluster.replicas}
                self._views.hide(hidden, message.keys, run.action)
                return False
            self._views.stop(path, run.action, message.keys)
        await self._views.wait(path)
        return True

    def on_entry(self, entry: Entry, exchange: Exchange | None) -> None:
        self._views.on_entry(entry, own=exchange is not None)

    async def at_rest(self) -> bool:
        return self._views.at_rest(self._run.action)

    async def end(self) -> None:
        self._keep_lease()
        self._views.release()


class _TakeOver(Disturber):
    """Lets a view of a standby stand still. After the next action the standby leads with it for a while."""

    def __init__(self, disturbance: Disturbance) -> None:
        self._disturbance = disturbance
        self._views = HeldViews()
        self._standby = ""
        self._action = -1
        self._has_led = False

    @property
    def happened(self) -> bool:
        """Whether the view of a standby stood still."""
        return bool(self._standby)

    @property
    def is_stale(self) -> bool:
        """Whether the replica that leads has an old view."""
        return self._has_led and self._views.any_held

    def attach(self, run: WorkloadRun) -> None:
        self._run = run

    async def hold(self, exchange: Exchange, message: WatchMessage, body: bytes) -> bool:  # noqa: ARG002
        path = message.path
        place = (self._disturbance.path, self._disturbance.number)
        # In a run of another version of the operator, the message may be one of the leader's.
        if (path, message.number) == place and message.standby:
            self._standby, self._action = exchange.client, self._run.action
            self._views.stop(f"{self._standby} {path}", self._action, limited=False)
        await self._views.wait(f"{exchange.client} {path}")
        return True

    def on_entry(self, entry: Entry, exchange: Exchange | None) -> None:
        self._views.on_entry(entry, own=exchange is not None)

    async def at_rest(self) -> bool:
        if not self._standby or self._has_led or self._run.action <= self._action:
            return False
        await self._lead()
        return True

    async def end(self) -> None:
        if self._standby and not self._has_led:
            await self._lead()

    async def _lead(self) -> None:
        """End every replica but the standby, until it has led for a while."""
        self._has_led = True
        self._views.limit()
        others = [each for each in self._run.cluster.replicas if each.link.client != self._standby]
        for replica in others:
            await replica.crash()
        await self._run.rest()
        self._views.release()
        for replica in others:
            replica.wake()
        await self._run.rest()


class _ForeignChange(Disturber):
    """Lets a foreign client delete or edit a child, when the operator is at rest."""

    def __init__(self, disturbance: Disturbance) -> None:
        self._disturbance = disturbance
        self._happened = False

    @property
    def happened(self) -> bool:
        """Whether the child existed."""
        return self._happened

    def attach(self, run: WorkloadRun) -> None:
        self._run = run

    async def at_rest(self) -> bool:
        run, disturbance = self._run, self._disturbance
        if self._happened or run.action + 1 != disturbance.number:
            return False
        if (child := run.state.child(disturbance.path)) is None:
            return False
        self._happened = True
        stored, own = child
        if disturbance.kind is DisturbanceKind.DELETE_CHILD:
            await delete_child(run.cluster.env.config, stored)
        else:
            await edit_child(run.cluster.env.config, stored, own)
        return True


def _text_of(exchange: Exchange) -> str:
    return f"{exchange.method} {exchange.path}"


def outside_text(target: str) -> str:
    """Return the sentence about a target outside of the simulated cluster, and what to add."""
    return refusal_of(target, _SUBJECT)
