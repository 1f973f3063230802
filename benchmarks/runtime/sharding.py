"""One cluster, sharded between 1, 2 and 4 operator processes: throughput, memory, and what a kill moves.

``python -m benchmarks.runtime sharding [OBJECTS]``; ``python -m benchmarks.runtime.sharding NAME`` is one operator.
Each namespace is a shard. The work for an object is one patch. At last one of four processes is killed with SIGKILL.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

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
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.fleet import Fleet, FleetOptions, NamespaceShards
from opsdk.patch import merge_patch

ROOT = Path(__file__).resolve().parents[2]
_NAMESPACES = 32
_PARALLEL = 16
_PATIENCE = 300.0


# ------------------------------------------------------------------ one operator
def operate(name: str) -> None:
    """Run an operator that writes its name into each ConfigMap with a new ``want``."""
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
            await ctx.client.patch(config_map, merge_patch({"data": {"done": want, "by": name}}))

    operator.run(log_level="WARNING")


# ------------------------------------------------------------------ the stage
class ShardedOperators:
    """A server, operator processes, and a client that sees every object."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder = folder
        self.client = cluster.uncached
        self.operators: dict[str, asyncio.subprocess.Process] = {}
        self.want = 0

    async def add_operator(self) -> None:
        """Start another operator process."""
        name = f"replica-{len(self.operators) + 1}"
        with (self.folder / f"{name}.log").open("wb") as log:
            self.operators[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.runtime.sharding", name),
                cwd=ROOT,
                stderr=log,
                env={**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig"), "HOSTNAME": name},
            )

    async def fill(self, objects: int) -> None:
        """Create the namespaces and the objects."""
        for number in range(_NAMESPACES):
            metadata = ObjectMeta(name=f"bench-{number}", labels={"bench": "yes"})
            await self.client.create(Namespace(metadata=metadata))
        limit = asyncio.Semaphore(_PARALLEL)

        async def create(number: int) -> None:
            async with limit:
                metadata = ObjectMeta(name=f"x{number}", namespace=f"bench-{number % _NAMESPACES}")
                await self.client.create(ConfigMap(metadata=metadata, data={"filler": "x" * 500}))

        await asyncio.gather(*map(create, range(objects)))

    async def objects(self) -> list[ConfigMap]:
        """Return all objects."""
        return [obj for obj in (await self.client.list(ConfigMap)).items if obj.metadata.namespace.startswith("bench-")]

    async def ask(self) -> None:
        """Change every object, which asks for one patch each."""
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
                return {f"{obj.metadata.namespace}/{obj.metadata.name}": obj.data["by"] for obj in objects}
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
async def stage() -> AsyncIterator[ShardedOperators]:
    """A server process. Everything ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "envtest", "serve", "--port", "0", "--kubeconfig", str(kubeconfig)),
            stdout=asyncio.subprocess.PIPE,
        )
        this: ShardedOperators | None = None
        try:
            assert server.stdout is not None
            await server.stdout.readline()
            async with Cluster(load_config(kubeconfig=kubeconfig)) as cluster:
                this = ShardedOperators(Path(folder), cluster)
                yield this
        finally:
            for process in (*(this.operators.values() if this is not None else ()), server):
                if process.returncode is None:
                    process.kill()
                    await process.wait()


async def run(objects: int = 4000) -> None:
    """Print the figures of 1, 2 and 4 processes, and those of a kill."""
    async with stage() as this:
        await this.fill(objects)
        print(f"sharding: {objects} ConfigMaps in {_NAMESPACES} namespaces, a shard each")
        by: Mapping[str, str] = {}
        for count in (1, 2, 4):
            await this.ask()
            began = time.monotonic()
            for _ in range(count):
                await this.add_operator()
            await this.answered()
            seconds = time.monotonic() - began
            # Placed anew since all processes are there.
            await asyncio.sleep(5)
            await this.ask()
            by = await this.answered()
            shares = sorted(Counter(by.values()).values())
            memory = ", ".join(f"{value:.0f}" for value in this.memory())
            print(f"  {count}: all patched {seconds:.1f} s after the start; shares {shares}; memory {memory} MiB")
            if count < 4:
                await this.end_operators()
        await _kill_one(this, by)


async def _kill_one(this: ShardedOperators, before: Mapping[str, str]) -> None:
    """Kill a process, and print what moved."""
    name, process = next(iter(this.operators.items()))
    process.kill()
    await process.wait()
    del this.operators[name]
    killed = time.monotonic()
    await this.ask()
    after = await this.answered()
    lost = [key for key, writer in before.items() if writer == name]
    moved = [key for key, writer in before.items() if writer not in (name, after[key])]
    print(f"  SIGKILL of one of 4: its {len(lost)} objects are patched after {time.monotonic() - killed:.1f} s")
    print(f"  {len(moved)} objects of the others moved")
    assert name not in after.values()
    await this.end_operators()


if __name__ == "__main__":
    operate(sys.argv[1])
