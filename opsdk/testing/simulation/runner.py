"""Runs one plan: replicas behind faulty links, a workload, and the invariants at the end."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from opsdk.aio.randomness import seeded
from opsdk.engine.world.declaration import SimulatedOperator, name_of
from opsdk.engine.world.faults import DEFAULT_FAULTS, DELETIONS, Fault, Step
from opsdk.engine.world.outcome import Outcome
from opsdk.engine.world.run import WorldRun
from opsdk.testing.simulation.plan import PlanOptions, draw_plan
from opsdk.testing.simulation.recorded_starts import RecordedStart, StartRecorder

# Faults cause expected warnings, which Python prints if there is no handler.
logging.getLogger("opsdk").addHandler(logging.NullHandler())


@dataclass(frozen=True, kw_only=True)
class Simulation(SimulatedOperator):
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
        at_rest: checks that hold whenever the operator is at rest: at the end, and in `verify` also after each action.
        allowed_hosts: outside of the simulation that the operator may reach. Other connections are refused and named.
        ignored: what `verify` does not compare: ``RESOURCE`` for objects that record the past, or ``RESOURCE:PATH``.
        max_faults: largest number of faults in a plan.
        max_actions: largest number of actions in a plan.
        max_seconds: longest fault.
    """

    faults: Sequence[Fault] = DEFAULT_FAULTS
    duration: float = 40.0
    max_faults: int = 8
    max_actions: int = 10
    max_seconds: float = 20.0

    def plan(self, seed: int) -> tuple[Step, ...]:
        """Return the plan of a seed."""
        faults = tuple(f for f in self.faults if f not in DELETIONS or self.children)
        options = PlanOptions(
            faults=faults,
            actions=[name_of(action) for action in self.actions],
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
        return self._run(seed, steps, order=seed)

    def record(
        self, seed: int, steps: Sequence[Step] | None = None, *, checkpoint_period: float = math.inf
    ) -> tuple[Outcome, Sequence[RecordedStart]]:
        """Run a plan, and record every start of a replica, for `opsdk replay`. Must not be called from a running loop.

        Tasks run in the order in which they become ready, as on a real event loop; `run` mixes their order. Reconciles
        are not slowed: that happens inside of the operator, and a replay has nothing of the simulation. Each start
        seeds the module `random`, as a recorded process does, so a replay repeats its numbers if there is one replica.

        Args:
            seed: of every random number.
            steps: the plan; None for the plan of the seed.
            checkpoint_period: seconds between two checkpoints: places where a replay may begin.
        """
        plan = self.plan(seed) if steps is None else steps
        recorder = StartRecorder(checkpoint_period)
        replayed = [step for step in plan if step.name != Fault.SLOW_RECONCILE.value]
        outcome = self._run(seed, replayed, order=None, recorder=recorder)
        return outcome, recorder.starts

    def _run(
        self, seed: int, steps: Sequence[Step] | None, *, order: int | None, recorder: StartRecorder | None = None
    ) -> Outcome:
        plan = self.plan(seed) if steps is None else tuple(steps)
        return _PlannedRun(self, seed, plan, order=order, recorder=recorder).execute()


class _PlannedRun(WorldRun):
    """A run whose steps come at the times of a plan."""

    def __init__(
        self,
        simulation: Simulation,
        seed: int,
        plan: tuple[Step, ...],
        *,
        order: int | None,
        recorder: StartRecorder | None,
    ) -> None:
        record = recorder.record if recorder is not None else None
        super().__init__(simulation, seed=seed, order=order, record=record)
        self._simulation, self._plan = simulation, plan
        self._notes: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def play(self) -> list[str]:
        """Take the steps of the plan, end all faults, and return the violations."""
        try:
            return await self._play()
        finally:
            for task in self._tasks:
                task.cancel()

    def complete(self, outcome: Outcome) -> Outcome:
        """Return the result with the plan, and with what it did."""
        return replace(outcome, steps=self._plan, notes=self._notes)

    async def _play(self) -> list[str]:
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
        self.cluster.heal()
        return await self.cluster.judge(self.seed)

    async def _take(self, step: Step) -> None:
        """Carry out one step of the plan: an action of the user, a deletion, a restart, or a fault."""
        self._notes.append(f"{asyncio.get_running_loop().time():.6f} {step!r}")
        action = self._simulation.action(step.name)
        if action is not None:
            await self.cluster.act(action, step.seed)
            return
        fault = Fault(step.name)
        replica = self.cluster.replicas[step.replica % len(self.cluster.replicas)]
        if fault in DELETIONS:
            if fault is Fault.DELETE_IN_GAP:
                await replica.link.apply(Step(time=step.time, name=Fault.CUT_WATCHES.value))
            await self._delete_a_child(step.seed)
        elif fault in (Fault.CRASH, Fault.STOP):
            await replica.restart(step.seconds, crash=fault is Fault.CRASH)
        else:
            await replica.link.apply(step)

    async def _delete_a_child(self, seed: int) -> None:
        """Delete a random object that has an owner, as a foreign client."""
        rng, client = seeded(seed), self.cluster.client
        kind = rng.choice(list(self._simulation.children))
        objects = [obj for obj in await client.list(kind) if obj.metadata.owner_references]
        if objects:
            victim = rng.choice(objects)
            self._notes.append(f"delete {kind.__name__} {victim.metadata.namespace}/{victim.metadata.name}")
            await client.delete(victim, missing_ok=True)
