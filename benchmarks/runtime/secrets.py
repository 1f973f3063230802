"""Referenced Secrets of a large cluster: ``python -m benchmarks.runtime secrets [SECRETS]``.

A server in a process of its own holds so many Secrets of 4 kB (33,000), of which 50 are referenced by ConfigMaps. An
operator process declares ``references(Secret, by=...)`` and reads each referenced one. Prints its resident memory, its
peak, and how many unreferenced Secrets its memory holds a byte of: each has a text of its own, which is searched for.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import sys
from pathlib import Path

from benchmarks.runtime.stage import stage
from opsdk import Cluster, Context, ObjectMeta, Operator, load_config, references
from opsdk.api.core.v1 import ConfigMap, Secret

REFERENCED, BYTES = 50, 4_000
_CONCURRENT = 64
_REFERENCE = "secret"


def text_of(number: int) -> bytes:
    """Return 4 kB that only the Secret of this number has."""
    block = hashlib.sha256(f"secret {number}".encode()).hexdigest().encode()
    return (block * (BYTES // len(block) + 1))[:BYTES]


async def fill(cluster: Cluster, count: int) -> None:
    """Create the Secrets, and the ConfigMaps that reference the first ones."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            meta = ObjectMeta(name=f"s-{number}", namespace="default")
            await cluster.uncached.create(Secret(metadata=meta, data={"p": text_of(number)}))

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONCURRENT):
            group.create_task(work())
    for number in range(REFERENCED):
        meta = ObjectMeta(name=f"user-{number}", namespace="default")
        await cluster.uncached.create(ConfigMap(metadata=meta, data={_REFERENCE: f"s-{number}"}))


def operate(name: str) -> None:
    """Run the operator; it writes a line for each Secret that it has read."""
    operator = Operator(name)
    secrets = references(Secret, by=lambda config: (config.data or {}).get(_REFERENCE))

    @operator.reconciler(ConfigMap, watches=[secrets])
    async def reconcile(config: ConfigMap, ctx: Context) -> None:
        if reference := (config.data or {}).get(_REFERENCE):
            secret = await ctx.client.get(Secret, f"default/{reference}")
            assert secret.data["p"] == text_of(int(reference.removeprefix("s-")))
            print(reference, flush=True)

    operator.run()


def memory_of(pid: int) -> dict[str, float]:
    """Return resident and peak memory in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return {key: int(re.search(rf"{key}:\s+(\d+)", status)[1]) / 1e3 for key in ("VmRSS", "VmHWM")}  # type: ignore[index]


def traces(pid: int, count: int) -> tuple[int, int]:
    """Return how many referenced, and how many other Secrets have their text in the memory of a process."""
    texts = {text_of(number)[:32]: number for number in range(count)}
    encoded = {base64.b64encode(text_of(number))[:32]: number for number in range(count)}
    pattern = re.compile(rb"[0-9a-f]{64}|[A-Za-z0-9+/]{64}")
    numbers: set[int] = set()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if "r" not in line.split()[1] or "[v" in line:
                continue
            memory.seek(begin)
            try:
                block = memory.read(end - begin)
            except OSError:
                continue
            for match in pattern.finditer(block):
                for table in (texts, encoded):
                    number = table.get(match[0][:32])
                    if number is not None:
                        numbers.add(number)
    return len([n for n in numbers if n < REFERENCED]), len([n for n in numbers if n >= REFERENCED])


async def run(count: int) -> None:
    """Fill the server, run the operator, and print what it holds."""
    async with stage() as this:
        async with Cluster(load_config(kubeconfig=str(this.kubeconfig))) as cluster:
            await fill(cluster, count)
        environ = {**os.environ, "KUBECONFIG": str(this.kubeconfig), "HOSTNAME": "secrets"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.runtime.secrets", "operator"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environ,
        )
        this.operators["secrets"] = process
        assert process.stdout is not None
        read: set[bytes] = set()
        while len(read) < REFERENCED:
            read.add(await process.stdout.readline())
        drain = asyncio.create_task(process.stdout.read())
        await asyncio.sleep(20)
        figures = memory_of(process.pid)
        referenced_texts, others = await asyncio.to_thread(traces, process.pid, count)
        drain.cancel()
        print(f"{count:,} Secrets of {BYTES:,} bytes, {REFERENCED} referenced")
        print(f"resident {figures['VmRSS']:.1f} MB, peak {figures['VmHWM']:.1f} MB")
        print(f"texts in memory: {referenced_texts} of {REFERENCED} referenced Secrets, {others} of the others")


if __name__ == "__main__":
    operate("secrets")
