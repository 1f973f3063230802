"""One cluster, sharded between operator processes: throughput, memory, and what faults of processes and network do.

``python -m benchmarks.runtime sharding [OBJECTS [ROUNDS]]``; ``python -m benchmarks.runtime.sharding NAME`` is one
operator. Each namespace is a shard. The work for an object is one patch.

First 1, 2 and 4 processes patch all objects, and one of four is killed. Then come rounds of faults while objects change
all the time: SIGKILL; SIGSTOP and SIGCONT; a partition between one process and the server. Every patch must come from
the identity that holds the shard's lease at the revision of the patch, see `benchmarks.runtime.shard_journal`.
"""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from enum import Enum
from pathlib import Path

from benchmarks.runtime.shard_journal import ShardJournal
from benchmarks.runtime.stage import Stage, stage
from benchmarks.runtime.tcp_proxy import TcpProxy
from opsdk import (
    Cluster,
    Context,
    ControllerOptions,
    ManagerOptions,
    ObjectMeta,
    Operator,
    OperatorOptions,
    load_config,
)
from opsdk.api.coordination.v1 import Lease
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.client.patch import merge_patch
from opsdk.errors import OpsdkError
from opsdk.fleet import Fleet, FleetOptions, NamespaceShards
from opsdk.fleet.placement import bound

_NAMESPACES = 32
_PARALLEL = 16
_PATIENCE = 300.0
# Seconds that a fault goes on after others have taken over everything.
_AFTERMATH = 1.0
# Seconds between two changes while faults happen.
_CHANGE_PERIOD = 0.02


class Fault(Enum):
    """What happens to one process."""

    KILL = "SIGKILL"
    FREEZE = "SIGSTOP"
    PARTITION = "partition"


# ------------------------------------------------------------------ one operator
def operate() -> None:
    """Run an operator that writes its identity into each ConfigMap with a new ``want``."""
    off = ManagerOptions(health_probe_bind_address="0", metrics_bind_address="0", shutdown_timeout=5)
    operator = Operator("sharded", OperatorOptions(manager=off))
    options = FleetOptions(
        namespace="default",
        lease_duration=4,
        renew_deadline=3,
        retry_period=0.5,
        controller=ControllerOptions(max_concurrent_reconciles=2),
    )
    fleet = Fleet(operator, NamespaceShards(label_selector="bench"), options)

    @fleet.reconciler(ConfigMap)
    async def label(config_map: ConfigMap, ctx: Context) -> None:
        want = config_map.data.get("want")
        if want is not None and config_map.data.get("done") != want:
            await ctx.client.patch(
                config_map, merge_patch({"data": {"done": want, "by": fleet.runner.ownership.identity}})
            )

    operator.run(log_level="WARNING")


def process_of(identity: str) -> str:
    """Return the name of the process of an identity."""
    return identity.partition("_")[0]


# ------------------------------------------------------------------ the stage
class ShardedOperators:
    """Operator processes, and a client that sees every object.

    Attributes:
        operators: the running processes by name.
        proxies: what is between a process and the server, for those that were started with one.
        namespaces: the number of shards.
    """

    def __init__(self, processes: Stage, cluster: Cluster, namespaces: int) -> None:
        self.client = cluster.uncached
        self.operators = processes.operators
        self.proxies: dict[str, TcpProxy] = {}
        self.namespaces = namespaces
        self.want = 0
        self._processes = processes
        self._endpoint = cluster.transport.endpoint
        self._count = 0

    async def add_operator(self, *, kubeconfig: Path | None = None) -> str:
        """Start another operator process; returns its name."""
        self._count += 1
        name = f"replica-{self._count}"
        await self._processes.start("benchmarks.runtime.sharding", name, kubeconfig=kubeconfig)
        return name

    async def add_operator_behind(self, proxies: AsyncExitStack) -> None:
        """Start another operator process with a proxy, which ends with the stack."""
        host, port = self._endpoint.host, self._endpoint.port
        proxy = await proxies.enter_async_context(TcpProxy(host, port))
        kubeconfig = self._processes.folder / f"kubeconfig-{proxy.port}"
        text = self._processes.kubeconfig.read_text()
        kubeconfig.write_text(text.replace(f"//{host}:{port}", f"//127.0.0.1:{proxy.port}"))
        self.proxies[await self.add_operator(kubeconfig=kubeconfig)] = proxy

    def log(self, name: str) -> str:
        """Return what an operator has logged."""
        return self._processes.log(name)

    async def fill(self, objects: int) -> None:
        """Create the namespaces and the objects."""
        for number in range(self.namespaces):
            metadata = ObjectMeta(name=f"bench-{number}", labels={"bench": "yes"})
            await self.client.create(Namespace(metadata=metadata))
        limit = asyncio.Semaphore(_PARALLEL)

        async def create(number: int) -> None:
            async with limit:
                metadata = ObjectMeta(name=f"x{number}", namespace=f"bench-{number % self.namespaces}")
                await self.client.create(ConfigMap(metadata=metadata, data={"filler": "x" * 500}))

        await asyncio.gather(*map(create, range(objects)))

    async def objects(self) -> list[ConfigMap]:
        """Return all objects."""
        return [obj for obj in (await self.client.list(ConfigMap)).items if obj.metadata.namespace.startswith("bench-")]

    async def change_all(self) -> None:
        """Change every object, so that each needs one patch."""
        self.want += 1
        limit = asyncio.Semaphore(_PARALLEL)

        async def change(obj: ConfigMap) -> None:
            async with limit:
                await self.client.patch(obj, merge_patch({"data": {"want": str(self.want)}}))

        await asyncio.gather(*map(change, await self.objects()))

    async def answered(self) -> Mapping[str, str]:
        """Return who patched each object, when all are patched."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            objects = await self.objects()
            if all(obj.data.get("done") == str(self.want) for obj in objects):
                return {f"{obj.metadata.namespace}/{obj.metadata.name}": process_of(obj.data["by"]) for obj in objects}
            assert time.monotonic() < deadline, "not every object was patched"
            await asyncio.sleep(0.1)

    def memory(self) -> list[float]:
        """Return the resident memory of each operator in MiB."""
        pages = [int(Path(f"/proc/{p.pid}/statm").read_text().split()[1]) for p in self.operators.values()]
        return [count * 4 / 1024 for count in pages]

    async def end_operators(self) -> None:
        """Stop every operator in good order."""
        for process in self.operators.values():
            process.terminate()
        await asyncio.gather(*(process.wait() for process in self.operators.values()))
        self.operators.clear()


@asynccontextmanager
async def sharded(objects: int, namespaces: int) -> AsyncIterator[ShardedOperators]:
    """A server process with objects. Everything ends with the block."""
    async with stage() as processes, Cluster(load_config(kubeconfig=processes.kubeconfig)) as cluster:
        this = ShardedOperators(processes, cluster, namespaces)
        await this.fill(objects)
        yield this


# ------------------------------------------------------------------ faults
class FaultRounds:
    """Rounds of faults, while objects change and a journal follows the server."""

    def __init__(self, this: ShardedOperators, journal: ShardJournal, proxies: AsyncExitStack) -> None:
        self.this = this
        self.journal = journal
        self.takeovers: dict[Fault, list[float]] = {fault: [] for fault in Fault}
        self._proxies = proxies
        self._shards = [f"bench-{number}" for number in range(this.namespaces)]

    async def change(self) -> None:
        """Change objects all the time."""
        rng = random.Random(1)
        objects = await self.this.objects()
        while True:
            self.this.want += 1
            with suppress(OpsdkError):
                await self.this.client.patch(rng.choice(objects), merge_patch({"data": {"want": str(self.this.want)}}))
            await asyncio.sleep(_CHANGE_PERIOD)

    async def play(self, fault: Fault) -> None:
        """Let one fault happen to the process with the most shards, and wait until all take part again."""
        await self._until(lambda: self._are_owned_by(self.this.operators), f"every process has shards before {fault}")
        victim, _ = Counter(process_of(self.journal.holder(shard)) for shard in self._shards).most_common(1)[0]
        process = self.this.operators[victim]
        began = time.monotonic()
        match fault:
            case Fault.KILL:
                process.kill()
                await process.wait()
            case Fault.FREEZE:
                process.send_signal(signal.SIGSTOP)
            case Fault.PARTITION:
                self.this.proxies[victim].cut()
        others = self.this.operators.keys() - {victim}
        await self._until(lambda: self._are_owned_by(others), f"others take over after {fault}")
        self.takeovers[fault].append(time.monotonic() - began)
        await asyncio.sleep(_AFTERMATH)
        match fault:
            case Fault.KILL:
                del self.this.operators[victim]
                await self.this.add_operator_behind(self._proxies)
            case Fault.FREEZE:
                process.send_signal(signal.SIGCONT)
            case Fault.PARTITION:
                self.this.proxies[victim].heal()
        await self._until(lambda: self._are_owned_by(self.this.operators), f"every process has shards after {fault}")

    def _are_owned_by(self, names: Collection[str]) -> bool:
        """Whether each shard belongs to one of some processes, and each of these has one."""
        return {process_of(self.journal.holder(shard)) for shard in self._shards} == set(names)

    async def caught_up(self) -> None:
        """Return when the journal has everything that the server stored until now."""
        revision = int((await self.this.client.list(ConfigMap)).metadata.resource_version)
        await self._until(
            lambda: min(self.journal.latest[kind.__name__] for kind in (Lease, ConfigMap)) >= revision, "the journal"
        )

    async def _until(self, condition: Callable[[], bool], description: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(f"--- {name}\n{self.this.log(name)[-2000:]}" for name in self.this.operators)
                raise AssertionError(f"waited in vain: {description}\n{logs}")
            await asyncio.sleep(0.02)


async def run_faults(
    rounds: int, *, objects: int = 320, namespaces: int = _NAMESPACES, processes: int = 4
) -> ShardJournal:
    """Play each fault `rounds` times, print the times of take-overs, and return the journal. Raises on a violation.

    There must be so many namespaces that each process gets one, also if the others are at their bound.
    """
    assert namespaces > (processes - 1) * bound(processes, namespaces, FleetOptions().load_factor)
    async with sharded(objects, namespaces) as this, AsyncExitStack() as proxies:
        journal = ShardJournal()
        revision = (await this.client.list(Namespace)).metadata.resource_version
        playing = FaultRounds(this, journal, proxies)
        followers = [asyncio.create_task(journal.follow(this.client, kind, revision)) for kind in (Lease, ConfigMap)]
        changing = asyncio.create_task(playing.change())
        try:
            for _ in range(processes):
                await this.add_operator_behind(proxies)
            for fault in [*Fault] * rounds:
                await playing.play(fault)
            changing.cancel()
            await this.change_all()
            await this.answered()
            await playing.caught_up()
            assert not any(follower.done() for follower in followers), "the journal has a hole"
        finally:
            for task in (changing, *followers):
                task.cancel()
            await asyncio.gather(changing, *followers, return_exceptions=True)
    print(f"faults: {processes} processes, lease 4 s; {len(journal.writes)} patches checked")
    for fault, seconds in playing.takeovers.items():
        worst, median = max(seconds), statistics.median(seconds)
        print(f"  {fault.value}: others have every shard after {median:.1f} s (median), at most {worst:.1f} s")
    wrong = journal.violations()
    assert not wrong, "\n".join([f"{len(wrong)} patches without the lease:", *wrong[:10]])
    print("  every patch came from the holder of the shard's lease, and every object was patched at the end")
    return journal


# ------------------------------------------------------------------ figures
async def run(objects: int = 4000, rounds: int = 5) -> None:
    """Print the figures of 1, 2 and 4 processes, those of a kill, and those of faults."""
    async with sharded(objects, _NAMESPACES) as this:
        print(f"sharding: {objects} ConfigMaps in {_NAMESPACES} namespaces, a shard each")
        by: Mapping[str, str] = {}
        for count in (1, 2, 4):
            await this.change_all()
            began = time.monotonic()
            for _ in range(count):
                await this.add_operator()
            await this.answered()
            seconds = time.monotonic() - began
            # Placed anew since all processes are there.
            await asyncio.sleep(5)
            await this.change_all()
            by = await this.answered()
            shares = sorted(Counter(by.values()).values())
            memory = ", ".join(f"{value:.0f}" for value in this.memory())
            print(f"  {count}: all patched {seconds:.1f} s after the start; shares {shares}; memory {memory} MiB")
            if count < 4:
                await this.end_operators()
        await _kill_one(this, by)
    await run_faults(rounds)


async def _kill_one(this: ShardedOperators, before: Mapping[str, str]) -> None:
    """Kill a process, and print what moved."""
    name, process = next(iter(this.operators.items()))
    process.kill()
    await process.wait()
    del this.operators[name]
    killed = time.monotonic()
    await this.change_all()
    after = await this.answered()
    lost = [key for key, writer in before.items() if writer == name]
    moved = [key for key, writer in before.items() if writer not in (name, after[key])]
    print(f"  SIGKILL of one of 4: its {len(lost)} objects are patched after {time.monotonic() - killed:.1f} s")
    print(f"  {len(moved)} objects of the others moved")
    assert name not in after.values()
    await this.end_operators()


if __name__ == "__main__":
    operate()
