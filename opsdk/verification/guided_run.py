"""Runs a workload once: without a disturbance, or with one. The next action waits until the operator is at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from opsdk.controller.journal import ReconcileRecord
from opsdk.engine.determinism import seeded_entropy
from opsdk.engine.writes import Entry
from opsdk.structured_merge.value import JSON_ERRORS
from opsdk.testing.loop import DeadlockError, VirtualLoop
from opsdk.testing.simulation.cluster import SimulatedCluster
from opsdk.testing.simulation.declaration import SimulatedOperator
from opsdk.testing.simulation.invariants import changes_state
from opsdk.testing.simulation.link import CURRENT_EXCHANGE, Exchange
from opsdk.testing.simulation.plan import Fault
from opsdk.testing.simulation.replica import Observer
from opsdk.verification.disturbances import WRITES, Disturbance, DisturbanceKind, WatchMessage, WriteRecord
from opsdk.verification.rest_state import RestState, StateRecorder

__all__ = ["GuidedOutcome", "WorkloadStep", "run_guided"]

_QUIET: Final = 60.0
"""Virtual seconds without a write, after which the operator is at rest: it may wait for its next retry."""
_SHORTEST: Final = 0.01
"""Virtual seconds between two looks: the rest of a difference of times may be too small to move the clock."""
_LONGEST: Final = 300.0
"""Virtual seconds after which the next action does not wait any longer."""
_MAX_STALE_WRITES: Final = 10
"""Writes on a stale view, after which it moves on. An operator that sees a deleted owner creates a child that the
garbage collector deletes, again and again: that is not its bug."""
_MAX_STALE_SECONDS: Final = _QUIET + 40.0
"""Virtual seconds after which a view moves on in any case: longer than a rest, so that the next action meets it, and
shorter than users wait for the end of a deletion."""
_FAULTS: Final = {
    DisturbanceKind.CRASH_AFTER: Fault.CRASH,
    DisturbanceKind.LOSE_ANSWER: Fault.LOSE_ANSWERS,
    DisturbanceKind.CONFLICT: Fault.CONFLICT,
    DisturbanceKind.REFUSE: Fault.UNAVAILABLE,
}


class WorkloadStep(msgspec.Struct, frozen=True):
    """One action of a workload.

    Attributes:
        name: of the action.
        seed: of its random numbers.
    """

    name: str
    seed: int = 0


class GuidedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run.

    Attributes:
        violations: the broken invariants, each with its name before a colon.
        writes: of the operator, in the order in which they were sent.
        messages: of its watches.
        states: at rest, by the number of actions before; none where the view of the operator was stale.
        user_writes: method and path of each write of the actions.
        happened: whether the disturbance was reached.
        journal: the operator's journal of the objects that the violations name.
        seconds: of virtual time.
    """

    violations: Sequence[str] = ()
    writes: Sequence[WriteRecord] = ()
    messages: Sequence[WatchMessage] = ()
    states: Mapping[int, RestState] = {}
    user_writes: Sequence[str] = ()
    happened: bool = False
    journal: str = ""
    seconds: float = 0.0


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
    run = _GuidedRun(declared, steps, disturbance, seed)
    with seeded_entropy(seed), asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        try:
            return runner.run(run.run())
        except DeadlockError as error:
            return run.outcome([f"deadlock: {error}"])


class _GuidedRun:
    def __init__(
        self, declared: SimulatedOperator, steps: Sequence[WorkloadStep], disturbance: Disturbance | None, seed: int
    ) -> None:
        self._declared, self._steps, self._disturbance, self._seed = declared, steps, disturbance, seed
        self._observer = Observer(decide=self._decide, hold=self._hold)
        self._cluster = SimulatedCluster(declared, self._observer)
        self._state = StateRecorder()
        self._writes: list[Exchange] = []
        self._messages: list[WatchMessage] = []
        self._counts: dict[str, int] = {}
        self._action = -1
        self._last_write = 0.0
        self._happened_at: int | None = None
        self._hidden: list[asyncio.Event] = []
        self._hidden_keys: tuple[str, ...] = ()
        self._writes_while_stale = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._states: dict[int, RestState] = {}
        self._seconds = 0.0

    async def run(self) -> GuidedOutcome:
        async with self._cluster as cluster:
            cluster.world(self._seed).env.journal.subscribe(self._on_entry)
            violations = await cluster.until_exhausted(self._play())
        self._seconds = asyncio.get_running_loop().time()
        return self.outcome(violations)

    def outcome(self, violations: Sequence[str]) -> GuidedOutcome:
        """Return the result of the run."""
        problems = self._cluster.violations(violations)
        return GuidedOutcome(
            violations=problems,
            writes=[
                WriteRecord(number=number, method=each.method, path=each.path, changed=each.revision > 0)
                for number, each in enumerate(self._writes, 1)
            ],
            messages=self._messages,
            states=self._states,
            user_writes=self._cluster.user_writes,
            happened=self._happened_at is not None,
            journal=self._cluster.journal("\n".join(problems)) if problems else "",
            seconds=self._seconds,
        )

    async def _play(self) -> list[str]:
        """Take the steps, each at rest, and return the violations."""
        await self._rest()
        for number, step in enumerate(self._steps):
            self._action = number
            action = self._declared.action(step.name)
            assert action is not None, step
            if not self._is_stale:
                self._states[number] = self._state.at_rest(self._passes)
            await self._cluster.act(action, step.seed)
            await self._rest()
            if self._is_stale and self._happened_at is not None and self._action > self._happened_at:
                self._release()
                await self._rest()
        self._release()
        self._cluster.heal()
        violations = await self._cluster.come_to_rest(self._seed)
        if not violations:
            self._states[len(self._steps)] = self._state.at_rest(self._passes)
            violations = await self._cluster.restart()
        return violations

    @property
    def _passes(self) -> list[ReconcileRecord]:
        """The reconciles of all replicas, oldest first."""
        return [record for replica in self._cluster.replicas for each in replica.journals for record in each.find()]

    async def _rest(self) -> None:
        """Wait until the operator wrote nothing for a while."""
        loop = asyncio.get_running_loop()
        begin = self._last_write = loop.time()
        while (now := loop.time()) - self._last_write < _QUIET and now - begin < _LONGEST:  # noqa: ASYNC110 - each write puts the end off
            await asyncio.sleep(max(min(self._last_write + _QUIET, begin + _LONGEST) - now, _SHORTEST))

    # -------------------------------------------------------------- what goes wrong
    def _decide(self, exchange: Exchange) -> Fault | None:
        if not changes_state(exchange):
            return None
        self._last_write = exchange.time
        self._writes.append(exchange)
        disturbance = self._disturbance
        if disturbance is None or disturbance.kind not in WRITES or disturbance.number != len(self._writes):
            return None
        self._happened_at = self._action
        return _FAULTS[disturbance.kind]

    async def _hold(self, exchange: Exchange, body: bytes) -> bool:
        """Count a message of a watch; returns whether it is delivered."""
        path = exchange.path
        number = self._counts[path] = self._counts.get(path, 0) + 1
        keys = _keys_in(body)
        self._messages.append(WatchMessage(path=path, number=number, keys=keys, action=self._action))
        disturbance = self._disturbance
        if disturbance is None or disturbance.path != path or disturbance.kind in WRITES:
            return True
        if disturbance.number == number:
            self._happened_at = self._action
            asyncio.get_running_loop().call_later(_MAX_STALE_SECONDS, self._release)
            if disturbance.kind is DisturbanceKind.HIDE:
                self._hidden = [replica.link.hide(path) for replica in self._cluster.replicas]
                self._hidden_keys = keys
                return False
            self._flowing.clear()
        await self._flowing.wait()
        return True

    def _on_entry(self, entry: Entry) -> None:
        """Take note of a stored write: its request, and whether it ends what is hidden."""
        exchange = CURRENT_EXCHANGE.get()
        if exchange is not None:
            exchange.revision = entry.revision
            self._writes_while_stale += self._is_stale
            if self._writes_while_stale >= _MAX_STALE_WRITES:
                self._release()
        self._state.add(entry, own=exchange is not None)
        if entry.key.partition("/")[2].partition("/")[2] in self._hidden_keys:
            self._release()

    @property
    def _is_stale(self) -> bool:
        return not all(event.is_set() for event in (self._flowing, *self._hidden))

    def _release(self) -> None:
        for event in (self._flowing, *self._hidden):
            event.set()


def _keys_in(body: bytes) -> tuple[str, ...]:
    """Return namespace and name of the objects in a message of a watch. Bookmarks have none."""
    keys = []
    for line in body.splitlines():
        try:
            event = msgspec.json.decode(line, type=_Event)
        except JSON_ERRORS:
            continue
        if event.object.metadata.name:
            keys.append("/".join(filter(None, (event.object.metadata.namespace, event.object.metadata.name))))
    return tuple(keys)


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Event(msgspec.Struct):
    object: _Object = msgspec.field(default_factory=_Object)
