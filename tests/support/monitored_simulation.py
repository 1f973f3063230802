"""A simulated operator whose metrics are scraped: the samples that Prometheus would have, in virtual time."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from boxes import Box, BoxSpec

import envtest
from opsdk import Context, MergeFrom, ObjectMeta, Operator, OperatorOptions, crd_for
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import deep_copy
from opsdk.engine.world.cluster import SimulatedCluster
from opsdk.engine.world.faults import DELETIONS
from opsdk.engine.world.link import Link
from opsdk.engine.world.replica import Observer, Replica
from opsdk.engine.world.runner import WorldRunner
from opsdk.testing.simulate import Fault, Simulation, Step, World

NAME = "boxes"
NAMESPACE = "boxes-system"
INTERVAL = 15
"""Seconds between two scrapes."""
POD = "boxes-0"
BEFORE = 240.0
"""Calm seconds before a fault: longer than the windows of the alerts."""
DURING = 120.0
"""Seconds of a fault: its alert fires until their end."""
_BOXES = 12
_AGAIN = 4.0
# With this seed, a placed fault begins with the next event.
_FIRST = 2
# The test process's own; the replicas are not processes.
_PROCESS = re.compile(r"(process|python)_")
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What users do: they change the specs of `edits` boxes every `pause` seconds."""

    edits: int = 12
    pause: float = 13.0


BUSY = Workload()
QUIET = Workload(edits=4, pause=120.0)
SPARSE = Workload(edits=1, pause=30.0)
"""So few writes that a view which is held back does not move on within two minutes."""
WORKLOADS = {"busy": BUSY, "sparse": SPARSE}
"""The workloads of the matrix."""


@dataclass
class Scrapes:
    """The samples of a run by series. Each has the position of its scrape.

    Attributes:
        samples: by name and labels as in the text format.
        count: of scrapes.
    """

    samples: dict[str, dict[int, str]] = field(default_factory=dict)
    count: int = 0

    def add(self, text: str, labels: str) -> None:
        """Add the text of one scrape at the present position."""
        for line in text.splitlines():
            match = None if line.startswith("#") or _PROCESS.match(line) else _SAMPLE.match(line)
            if match is not None:
                name, own, value = match.groups()
                series = f"{name}{{{','.join(filter(None, [own, labels]))}}}"
                self.samples.setdefault(series, {})[self.count] = value


def make_monitored_operator(
    broken: Callable[[Box], None] = lambda _: None, *, leader_election: bool = True
) -> Operator:
    """Each box has a ConfigMap with its size, and a status. One worker, one leader."""
    options = OperatorOptions(leader_election=leader_election, leader_election_namespace="default")
    operator = Operator(NAME, options)

    @operator.reconciler(Box, owns=[ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        broken(obj)
        child = ConfigMap(metadata=ObjectMeta(name=obj.metadata.name), data={"size": str(obj.spec.size)})
        await ctx.apply(child)
        async with ctx.status(obj) as patch:
            patch.status.size = obj.spec.size

    return operator


def _keep_faults(replica: Replica) -> None:
    """Let the faults of the network outlast a process: it may end because of them, and starts again behind them."""
    new_link = replica._new_link

    def linked() -> Link:
        link = new_link()
        link._windows.extend(replica.link._windows)
        return link

    replica._new_link = linked  # type: ignore[method-assign]


async def _nothing(world: World) -> None:
    """Nothing: the alerts judge this run."""


def monitored(operator: Callable[[], Operator] = make_monitored_operator) -> Simulation:
    """Return the simulation of an operator of boxes."""
    return Simulation(
        operator=operator,
        environment=lambda: envtest.Environment(crds=[crd_for(Box)]),
        check=_nothing,
        children=[ConfigMap],
    )


class MonitoredRun:
    """One run: boxes whose specs change, a fault, and a scrape every 15 s.

    Args:
        simulation: the operator.
        fault: that begins after `before` seconds; None for a calm run. One without a duration is repeated.
        workload: of the users.
        before: calm seconds.
        during: seconds of the fault.
        once: the fault happens once, if it has no duration.
    """

    def __init__(
        self,
        simulation: Simulation,
        fault: Fault | None = None,
        *,
        workload: Workload = BUSY,
        before: float = BEFORE,
        during: float = DURING,
        once: bool = False,
    ) -> None:
        self._fault, self._workload = fault, workload
        self._before, self._during, self._once = before, during, once
        self._scrapes = Scrapes()
        self._cluster = SimulatedCluster(simulation, Observer())
        self._started: dict[int, float] = {}

    def scrapes(self, seed: int = 0) -> Scrapes:
        """Run in virtual time, and return the samples."""
        WorldRunner[None](seed=seed, order=seed).run(self._run())
        return self._scrapes

    async def _run(self) -> None:
        async with self._cluster as cluster, asyncio.TaskGroup() as tasks:
            for replica in cluster.replicas:
                _keep_faults(replica)
            for number in range(_BOXES):
                meta = ObjectMeta(name=f"box-{number}", namespace="default")
                await cluster.client.create(Box(metadata=meta, spec=BoxSpec(size=1)))
            users = tasks.create_task(self._use(random.Random(1)))
            faults = tasks.create_task(self._break())
            for _ in range(round((self._before + self._during) / INTERVAL)):
                await asyncio.sleep(INTERVAL)
                for replica in cluster.replicas:
                    self._scrape(replica)
                self._scrapes.count += 1
            users.cancel()
            faults.cancel()
            cluster.heal()

    def _scrape(self, replica: Replica) -> None:
        """Read the metrics of a replica, as Prometheus does over HTTP."""
        target = f'job="{NAME}-metrics",namespace="{NAMESPACE}",pod="{POD}"'
        operator = replica.running_operator
        self._scrapes.add(f"up {int(operator is not None)}", target)
        if operator is not None:
            self._scrapes.add(operator.manager.metrics.expose().decode(), target)
            started = self._started.setdefault(len(replica.journals), asyncio.get_running_loop().time())
            self._scrapes.samples.setdefault(f"process_start_time_seconds{{{target}}}", {})[self._scrapes.count] = str(
                started
            )

    async def _use(self, rng: random.Random) -> None:
        while True:
            for name in rng.sample(range(_BOXES), self._workload.edits):
                obj = await self._cluster.client.get(Box, f"default/box-{name}")
                before = deep_copy(obj)
                obj.spec.size += 1
                await self._cluster.client.patch(obj, MergeFrom(before))
            await asyncio.sleep(self._workload.pause)

    async def _break(self) -> None:
        await asyncio.sleep(self._before)
        fault, replica = self._fault, self._cluster.replicas[0]
        if fault is None:
            return
        rng, loop = random.Random(2), asyncio.get_running_loop()
        end = loop.time() + self._during
        while loop.time() < end:
            seconds = max(end - loop.time(), 0.0)
            if fault in (Fault.CRASH, Fault.STOP):
                await replica.restart(seconds, crash=fault is Fault.CRASH)
                return
            if fault in DELETIONS:
                await self._delete_children(rng, gap=fault is Fault.DELETE_IN_GAP)
            else:
                seed = _FIRST if fault in WINDOWS else rng.getrandbits(30)
                await replica.link.apply(Step(time=0.0, name=fault.value, seconds=seconds, seed=seed))
            if self._once or fault in WINDOWS:
                return
            await asyncio.sleep(_AGAIN)

    async def _delete_children(self, rng: random.Random, *, gap: bool) -> None:
        if gap:
            await self._cluster.replicas[0].link.apply(Step(time=0.0, name=Fault.CUT_WATCHES.value))
        children = [obj for obj in await self._cluster.client.list(ConfigMap) if obj.metadata.owner_references]
        if children:
            await self._cluster.client.delete(rng.choice(list(children)), missing_ok=True)


REPEATED: Sequence[Fault] = (
    Fault.CUT_WATCHES,
    Fault.EXPIRE_WATCHES,
    Fault.CRASH_AFTER_WRITE,
    Fault.LOSE_ANSWER,
    Fault.CONFLICTING_WRITE,
    Fault.DELETE_CHILD,
    Fault.DELETE_IN_GAP,
)
"""Faults without a duration, which a run repeats every four seconds."""
WINDOWS = frozenset(Fault) - {*REPEATED}
"""Faults with a duration."""
