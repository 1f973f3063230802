"""Runs one plan: an environment, replicas behind faulty links, a workload, and the invariants at the end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import replace

from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.determinism import seeded_entropy
from opsdk.engine.webhooks import without_sockets
from opsdk.errors import InternalServerError
from opsdk.http.asgi_types import App
from opsdk.rest.config import Config
from opsdk.testing.doubles import EMPTY_CLUSTER, Doubles, DoublesFactory, factory_of
from opsdk.testing.loop import DeadlockError, VirtualLoop
from opsdk.testing.simulation.invariants import LeaseLedger, calm_violations, hot_loops, restart_violations
from opsdk.testing.simulation.link import Exchange
from opsdk.testing.simulation.plan import DEFAULT_FAULTS, DELETIONS, Fault, PlanOptions, Step, draw_plan
from opsdk.testing.simulation.replica import Observer, Replica, seeded
from opsdk.testing.simulation.webhooks import AUTHORITY, ReplicaWebhooks, install_webhooks

# Seconds until a new leader is elected and has reconciled everything once.
_GRACE = 45.0
# A fixed User-Agent: the default names the running program, and is the default field manager.
_USER_AGENT = "simulation/1"
# Reconciles of the journal that an outcome has.
_JOURNAL_RECORDS = 8
# Faults cause expected warnings, which Python prints if there is no handler.
logging.getLogger("opsdk").addHandler(logging.NullHandler())


# Without these, deleted owners keep their children, and deleted namespaces never end.
_CONTROLLERS = ("garbage-collector", "namespace")
# Seconds between two tries of an action whose webhook no replica serves, and their number.
_ACTION_PAUSE = 1.0
_ACTION_TRIES = 60


class RunningEnvironment(Protocol):
    """A started environment, such as ``envtest.Environment``."""

    @property
    def config(self) -> Config:
        """Client configuration with an `app`: no sockets."""
        ...

    @property
    def local_apps(self) -> dict[str, App]:
        """Applications by ``host:port`` that the server calls in process: the operator's webhooks."""
        ...

    async def ensure_controllers(self, controllers: Collection[str]) -> None:
        """Start controllers if the environment was created without any."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The argument of actions, checks and invariants.

    Attributes:
        client: reads and writes directly, without faults.
        rng: the random numbers of this action.
        env: the environment, for its journal and its other tools.
        exchanges: every request of the replicas until now.
        systems: the doubles of external systems, see `Doubles.systems`; None without doubles.
    """

    client: Client
    rng: random.Random
    env: Any
    exchanges: Sequence[Exchange]
    systems: Any = None


Action = Callable[[World], Awaitable[None]]
"""An async function that changes the cluster as a user or another program would. It must accept any state."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """An operator, its environment, and the invariants at the end. Times are in virtual seconds.

    Attributes:
        operator: creates a new operator for each start of a replica; not with `doubles`.
        doubles: creates the doubles of external systems for each run, and the operators that use them.
        environment: creates a new environment, such as ``envtest.Environment``. If it has no controllers, the garbage
            collector and the namespace controller run.
        actions: the workload: the plan calls them at random times.
        check: raises AssertionError until the state of the cluster matches the specs.
        invariants: further checks, called once at the end of the run; they raise AssertionError.
        children: kinds whose objects the simulation deletes.
        replicas: number of replicas that run at the same time.
        faults: the faults to choose from.
        duration: the time in which actions and faults begin.
        settle: the time after the last fault until `check` must pass.
        calm: the time after that without any write.
        max_faults: largest number of faults in a plan.
        max_actions: largest number of actions in a plan.
        max_seconds: longest fault.
    """

    operator: Callable[[], Operator] | None = None
    doubles: DoublesFactory | None = None
    environment: Callable[[], AbstractAsyncContextManager[RunningEnvironment]]
    actions: Sequence[Action] = ()
    check: Action
    invariants: Sequence[Action] = ()
    children: Sequence[type[Any]] = ()
    replicas: int = 1
    faults: Sequence[Fault] = DEFAULT_FAULTS
    duration: float = 40.0
    settle: float = 300.0
    calm: float = 30.0
    max_faults: int = 6
    max_actions: int = 10
    max_seconds: float = 20.0

    def __post_init__(self) -> None:
        factory_of(self.operator, self.doubles)

    def new_doubles(self) -> Doubles[Any]:
        """Return the doubles of a new run, with the operator that uses them."""
        return factory_of(self.operator, self.doubles)(EMPTY_CLUSTER)

    def plan(self, seed: int) -> tuple[Step, ...]:
        """Return the plan of a seed."""
        faults = tuple(f for f in self.faults if f not in DELETIONS or self.children)
        options = PlanOptions(
            faults=faults,
            actions=[_name(action) for action in self.actions],
            replicas=self.replicas,
            duration=self.duration,
            max_faults=self.max_faults,
            max_actions=self.max_actions,
            max_seconds=self.max_seconds,
        )
        return draw_plan(seed, options)

    def run(self, seed: int, steps: Sequence[Step] | None = None) -> Outcome:
        """Run a plan in virtual time. Must not be called from a running event loop.

        Args:
            seed: of every random number.
            steps: the plan; None for the plan of the seed.
        """
        plan = self.plan(seed) if steps is None else tuple(steps)
        run = _Run(self, seed, plan)
        with seeded_entropy(seed), asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
            try:
                return runner.run(run.run())
            except DeadlockError as error:
                return run.outcome([f"deadlock: {error}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run.

    Attributes:
        seed: of the run.
        steps: the plan.
        violations: the broken invariants, each with its name before a colon.
        transcript: every request, action and the final check, one per line; the same for the same seed and plan.
        reconciles: number of reconciles.
        seconds: virtual time at the end.
        journal: the operator's journal of the objects that the violations name: causes, reads, writes, results.
    """

    seed: int
    steps: tuple[Step, ...]
    violations: tuple[str, ...]
    transcript: bytes = field(repr=False)
    reconciles: int = 0
    seconds: float = 0.0
    journal: str = field(default="", repr=False)

    @property
    def broken(self) -> frozenset[str]:
        """The names of the broken invariants."""
        return frozenset(violation.partition(":")[0] for violation in self.violations)


class _Run:
    def __init__(self, simulation: Simulation, seed: int, plan: tuple[Step, ...]) -> None:
        self._simulation, self._seed, self._plan = simulation, seed, plan
        self._observer = Observer()
        self._ledger = LeaseLedger()
        self._replicas: list[Replica] = []
        self._notes: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._seconds = 0.0
        self._doubles = simulation.new_doubles()

    async def run(self) -> Outcome:
        s = self._simulation
        config: Config
        async with s.environment() as env, Cluster(replace(env.config, user_agent=_USER_AGENT)) as cluster:
            config = replace(env.config, user_agent=_USER_AGENT)
            await env.ensure_controllers(_CONTROLLERS)
            self._replicas = [
                Replica(number, self._doubles.operator, config, self._observer, self._ledger, prepare=without_sockets)
                for number in range(s.replicas)
            ]
            if (operator := self._doubles.operator()).has_webhooks:
                env.local_apps[AUTHORITY] = ReplicaWebhooks(self._replicas)
                await install_webhooks(cluster.uncached, operator)
            for replica in self._replicas:
                replica.start()
            self._env, self._client = env, cluster.uncached
            try:
                violations = await self._until_exhausted(self._play())
            finally:
                for task in self._tasks:
                    task.cancel()
                for replica in self._replicas:
                    await replica.stop()
        self._seconds = asyncio.get_running_loop().time()
        return self.outcome(violations)

    async def _until_exhausted(self, play: Coroutine[Any, Any, list[str]]) -> list[str]:
        """Return the violations of a run, or none when a replica exceeds its budget of writes: that is a violation."""
        playing = asyncio.ensure_future(play)
        exhausted = asyncio.ensure_future(self._observer.exhausted.wait())
        try:
            await asyncio.wait([playing, exhausted], return_when=asyncio.FIRST_COMPLETED)
            return playing.result() if playing.done() else []
        finally:
            for task in (playing, exhausted):
                task.cancel()
            await asyncio.wait([playing, exhausted])

    async def _play(self) -> list[str]:
        """Take the steps of the plan, end all faults, and return the violations."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for step in self._plan:
            await asyncio.sleep(max(begin + step.time - loop.time(), 0.0))
            # A step may last: later steps do not wait for it.
            self._tasks.append(loop.create_task(self._take(step), name=f"step {step.name}"))
        for task in self._tasks:
            await task
        end = max([self._simulation.duration, *(step.time + step.seconds for step in self._plan)])
        await asyncio.sleep(max(begin + end - loop.time(), 0.0))
        for replica in self._replicas:
            replica.link.heal()
            replica.wake()
        return await self._judge()

    def outcome(self, violations: Sequence[str]) -> Outcome:
        requests = [str(exchange) for exchange in self._observer.exchanges]
        problems = [*violations, *self._observer.violations, *self._ledger.violations]
        problems += hot_loops(self._observer.exchanges)
        return Outcome(
            seed=self._seed,
            steps=self._plan,
            violations=tuple(dict.fromkeys(problems)),
            transcript="\n".join([*requests, *self._notes, ""]).encode(),
            reconciles=self._observer.reconciles,
            seconds=self._seconds,
            journal=self._journal("\n".join(problems)),
        )

    def _journal(self, text: str) -> str:
        """Return the last reconciles of the objects that the violations name, or of all if they name none."""
        records = [record for replica in self._replicas for journal in replica.journals for record in journal.find()]
        records.sort(key=lambda record: record.started_at)
        words = "".join(char if char.isalnum() or char in "-." else " " for char in text).split()
        names = {word.strip(".") for word in words}
        matching = [record for record in records if record.name in names]
        return "\n".join(str(record) for record in (matching or records)[-_JOURNAL_RECORDS:])

    def _world(self, seed: int) -> World:
        return World(
            client=self._client,
            rng=seeded(seed),
            env=self._env,
            exchanges=self._observer.exchanges,
            systems=self._doubles.systems,
        )

    # -------------------------------------------------------------- the plan
    async def _take(self, step: Step) -> None:
        """Carry out one step of the plan: an action of the user, a deletion, a restart, or a fault."""
        self._notes.append(f"{asyncio.get_running_loop().time():.6f} {step!r}")
        action = next((a for a in self._simulation.actions if _name(a) == step.name), None)
        if action is not None:
            await self._act(action, step)
            return
        fault = Fault(step.name)
        replica = self._replicas[step.replica % len(self._replicas)]
        if fault in DELETIONS:
            if fault is Fault.DELETE_IN_GAP:
                await replica.link.apply(Step(time=step.time, name=Fault.CUT_WATCHES.value))
            rng = seeded(step.seed)
            kind = rng.choice(list(self._simulation.children))
            objects = [obj for obj in await self._client.list(kind) if obj.metadata.owner_references]
            if objects:
                victim = rng.choice(objects)
                self._notes.append(f"delete {kind.__name__} {victim.metadata.namespace}/{victim.metadata.name}")
                await self._client.delete(victim, missing_ok=True)
        elif fault in (Fault.CRASH, Fault.STOP):
            await replica.restart(step.seconds, crash=fault is Fault.CRASH)
        else:
            await replica.link.apply(step)

    async def _act(self, action: Action, step: Step) -> None:
        """Call an action. While no replica serves a webhook, the server answers with 500: then it is tried again."""
        for attempts_left in reversed(range(_ACTION_TRIES)):
            try:
                await action(self._world(step.seed))
            except InternalServerError as error:
                if "failed calling webhook" not in str(error) or not attempts_left:
                    raise
                await asyncio.sleep(_ACTION_PAUSE)
            else:
                return

    # -------------------------------------------------------------- the judgement
    async def _judge(self) -> list[str]:
        """Return the violations at the end of a run: of convergence, of the calm after it, and of the checks."""
        s = self._simulation
        if (problem := await self._settle()) is not None:
            return [f"converged: {problem}"]
        # A new leader may still reconcile every object, and status updates of the last change follow.
        await asyncio.sleep(_GRACE)
        count = len(self._observer.exchanges)
        await asyncio.sleep(s.calm)
        violations = calm_violations(self._observer.exchanges[count:], s.calm)
        for check in (s.check, *s.invariants):
            try:
                await check(self._world(self._seed))
            except AssertionError as error:
                violations.append(f"{_name(check)}: {_text(error)}")
        return violations or await self._restart()

    async def _restart(self) -> list[str]:
        """Restart every replica at rest. Returns the writes: each object is reconciled again, and has what it needs."""
        count = len(self._observer.exchanges)
        for replica in self._replicas:
            await replica.restart(0.0, crash=False)
        await asyncio.sleep(_GRACE)
        return restart_violations(self._observer.exchanges[count:])

    async def _settle(self) -> str | None:
        """Wait until the check passes. Returns its last error if it never does."""
        deadline = asyncio.get_running_loop().time() + self._simulation.settle
        while True:
            try:
                await self._simulation.check(self._world(self._seed))
            except AssertionError as error:
                if asyncio.get_running_loop().time() >= deadline:
                    return _text(error)
            else:
                return None
            await asyncio.sleep(5.0)


def _text(error: AssertionError) -> str:
    return str(error).partition("\n")[0] or "the check failed"


def _name(action: Action) -> str:
    return getattr(action, "__name__", repr(action))
