"""Boxes whose operator makes hot loops while they have an annotation, for the simulator.

An oracle beside the operator follows the causes and the writes of each pass: it knows every loop, and each alarm.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec
from box_simulation import FINALIZER, NAMESPACE, delete_box, make_box
from boxes import Box, box

import envtest
from opsdk import Context, ControllerOptions, ObjectMeta, Operator, crd_for
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.client.patch import merge_patch
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter
from opsdk.recipes import is_deleting
from opsdk.telemetry.records import HotLoopFound, ReconcileStarted, Record, TelemetryHook
from opsdk.testing.simulate import Simulation, World

SPIN = "tests.opsdk.dev/spin"
"""A box with this annotation has a child that differs at each pass."""
LIMIT = 8
# The longest wait of a hot loop, and the passes until it is reached.
_LONGEST, _STEPS = 60.0, 7
# Seconds in which a loop has to be found.
_WINDOW = 5.0


class Loop(msgspec.Struct):
    """Passes in a row that the operator's own writes caused.

    Attributes:
        times: the start of each.
        delay: seconds that the next one has to wait at least; 0 before the alarm.
    """

    times: list[float] = msgspec.field(default_factory=list)
    delay: float = 0.0


class Oracle(TelemetryHook):
    """Follows the passes of one operator's process."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._written: set[tuple[str, str]] = set()
        self._loops: dict[str, Loop] = {}
        self.passes: dict[str, list[float]] = defaultdict(list)
        """The start of each pass, by box."""
        self.alarms: dict[str, list[str]] = defaultdict(list)
        """The descriptions of hot loops, by box."""

    def reconcile(self, started: ReconcileStarted) -> AbstractContextManager[object]:
        """A pass begins: it is own if each cause is an event of an own write, and the pass before it wrote."""
        name, now = started.name, asyncio.get_running_loop().time()
        self.passes[name].append(now)
        last = next(iter(reversed(list(self._operator.journal.find(name=name)))), None)
        sent = [request for request in (last.requests if last else ()) if request.verb not in ("get", "list")]
        writes = [request for request in sent if request.resource_version or not request.status]
        self._written.update((write.key, write.resource_version) for write in writes if write.resource_version)
        lost = {(write.gvk.rpartition("=")[2], write.key) for write in writes if not write.status}
        causes = [cause for cause in started.causes if not (lost and cause.source == "retry")]
        is_own = all(
            c.own
            or (c.event != "delete" and ((c.key, c.resource_version) in self._written or (c.source, c.key) in lost))
            for c in causes
        )
        if not (writes and causes and is_own):
            self._loops[name] = Loop()
            return nullcontext()
        loop = self._loops.setdefault(name, Loop())
        loop.times.append(now)
        if loop.delay:
            if (waited := now - loop.times[-2]) < loop.delay - 1e-6:
                PROBLEMS.append(f"{name} waited {waited:.3f} s in a hot loop, in place of {loop.delay:g} s")
            loop.delay = min(2 * loop.delay, _LONGEST)
        elif (count := sum(time >= now - _WINDOW for time in loop.times)) > LIMIT + _WINDOW + 2:
            PROBLEMS.append(f"{name} caused {count} of its passes in {_WINDOW:g} s, and no alarm")
        return nullcontext()

    def record(self, record: Record) -> None:
        """Receive an alarm."""
        if not isinstance(record, HotLoopFound):
            return
        name = record.request.rpartition("/")[2]
        loop = self._loops.get(name)
        if loop is None or len(loop.times) <= LIMIT:
            PROBLEMS.append(f"false alarm: {name} has {loop}: {record.description}")
        if name not in SPUN:
            PROBLEMS.append(f"false alarm: {name} never had a loop: {record.description}")
        chain = rf"apply v1, Kind=ConfigMap {NAMESPACE}/{name}: .*, then ConfigMap update {NAMESPACE}/{name} at \d+"
        if not re.search(chain, record.description) and "own write" not in record.description:
            PROBLEMS.append(f"the alarm of {name} does not name its cause: {record.description}")
        if loop is not None:
            loop.delay = 1.0
        self.alarms[name].append(record.description)


ORACLES: list[Oracle] = []
"""One for each process of the operator, the running one last."""
SPUN: set[str] = set()
"""The boxes that ever had the annotation."""
PROBLEMS: list[str] = []


def _operator(data: Callable[[Box, Context], dict[str, str]]) -> Operator:
    """Return an operator that gives each box a ConfigMap with the data, and a status with its size."""
    operator = Operator("boxes")
    ORACLES.append(Oracle(operator))
    operator.add_hook(ORACLES[-1])
    options = ControllerOptions(
        hot_loop_limit=LIMIT,
        max_concurrent_reconciles=2,
        rate_limiter=ItemExponentialFailureRateLimiter(base=0.5, cap=10),
    )

    async def clean_up(obj: Box, ctx: Context) -> None:
        """Let the box go: without a finalizer, a stale cache would make children anew that the server collects."""

    @operator.reconciler(Box, owns=[ConfigMap], options=options, finalizers={FINALIZER: clean_up})
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=obj.metadata.name), data=data(obj, ctx)))
        async with ctx.status(obj) as patch:
            patch.status.size = obj.spec.size

    return operator


def make_looping_operator() -> Operator:
    """The child of a box with the annotation differs at each pass."""

    def data(obj: Box, ctx: Context) -> dict[str, str]:
        turn = {"turn": ctx.reconcile_id} if SPIN in obj.metadata.annotations else {}
        return {"size": str(obj.spec.size), **turn}

    return _operator(data)


def make_correct_operator() -> Operator:
    """The annotation has no effect: no pass causes another one without end."""
    return _operator(lambda obj, ctx: {"size": str(obj.spec.size)})


async def _annotate(world: World, obj: Box, value: str | None) -> None:
    SPUN.update([obj.metadata.name] if value else [])
    await world.client.patch(obj, merge_patch({"metadata": {"annotations": {SPIN: value}}}))


async def begin_a_loop(world: World) -> None:
    """Annotate a box."""
    if boxes := [obj for obj in await world.client.list(Box) if not is_deleting(obj)]:
        await _annotate(world, world.rng.choice(boxes), "yes")


async def end_a_loop(world: World) -> None:
    """Remove the annotation of a box."""
    if boxes := [obj for obj in await world.client.list(Box) if SPIN in obj.metadata.annotations]:
        await _annotate(world, world.rng.choice(boxes), None)


async def boxes_are_built(world: World) -> None:
    """Each box has its size, and a child with it. Ends the loops that are left, as a corrected program would."""
    assert not PROBLEMS, PROBLEMS
    children = {c.metadata.name: c.data for c in await world.client.list(ConfigMap, namespace=NAMESPACE)}
    for obj in await world.client.list(Box):
        name = obj.metadata.name
        if SPIN in obj.metadata.annotations:
            await _annotate(world, obj, None)
        assert not is_deleting(obj), f"{name} is not let go"
        assert obj.status is not None, f"{name} has no status"
        assert obj.status.size == obj.spec.size, f"{name} has the size {obj.status.size}"
        assert children.get(name) == {"size": str(obj.spec.size)}, f"{name} has the child {children.get(name)}"


async def a_loop_is_named_slowed_and_let_go(world: World) -> None:
    """After all faults: a new loop has one alarm, is slow, lets foreign changes pass, and ends with its cause."""
    await asyncio.sleep(700)  # a watch without packets is found out by its timeout
    name = "box-last"
    obj = await world.client.create(box(name))
    await asyncio.sleep(5)
    oracle = ORACLES[-1]
    await _annotate(world, obj, "yes")
    await asyncio.sleep(600)
    assert len(oracle.alarms[name]) == 1, f"alarms: {oracle.alarms[name]}"
    passes = oracle.passes[name]
    assert len(passes) <= LIMIT + 6 + _STEPS + 600 / _LONGEST, f"{len(passes)} passes in ten minutes"
    events = [e for e in await world.client.list(Event, namespace=NAMESPACE) if e.reason == "HotLoop"]
    own = [e for e in events if e.regarding is not None and e.regarding.name == name]
    assert [e.type for e in own] == ["Warning"], f"Events: {own}"
    await _resize(world, obj, 7)
    await _annotate(world, obj, None)
    alarms = len(oracle.alarms[name])
    for size in range(10, 30):
        await _resize(world, obj, size)
    assert len(oracle.alarms[name]) == alarms, f"an alarm after the end: {oracle.alarms[name]}"
    assert not PROBLEMS, PROBLEMS


async def _resize(world: World, obj: Box, size: int) -> None:
    """Change the size of a box: it is in the status half a second later, as without a loop."""
    await world.client.patch(obj, merge_patch({"spec": {"size": size}}))
    await asyncio.sleep(0.5)
    stored = await world.client.get(Box, obj.metadata.name, namespace=NAMESPACE)
    assert stored.status is not None
    assert stored.status.size == size, f"{obj.metadata.name} waits: its size is {stored.status.size}, not {size}"


async def nothing_is_an_alarm(_: World) -> None:
    """No process of the operator ever reported a hot loop."""
    alarms = [alarm for oracle in ORACLES for alarms in oracle.alarms.values() for alarm in alarms]
    assert not alarms, alarms
    assert not PROBLEMS, PROBLEMS


def _environment() -> Any:
    for memory in (ORACLES, SPUN, PROBLEMS):
        memory.clear()
    return envtest.Environment(crds=[crd_for(Box)])


LOOPS = Simulation(
    operator=make_looping_operator,
    environment=_environment,
    actions=[make_box, begin_a_loop, begin_a_loop, end_a_loop, delete_box],
    check=boxes_are_built,
    invariants=[a_loop_is_named_slowed_and_let_go],
    children=[ConfigMap],
    max_actions=14,
)
"""An operator with hot loops."""

NO_LOOPS = Simulation(
    operator=make_correct_operator,
    environment=_environment,
    actions=LOOPS.actions,
    check=boxes_are_built,
    invariants=[nothing_is_an_alarm],
    children=[ConfigMap],
    max_actions=14,
)
"""A correct operator with the same faults and actions."""
