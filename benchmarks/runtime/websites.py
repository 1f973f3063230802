"""Many Websites at once: the sample operator here, the API server as a process of its own, sockets and TLS between.

Checks, and fails loudly if one does not hold: every site becomes Ready; no key is ever reconciled twice at once; every
site, and every change of a child, was seen. Prints time, CPU and memory per site.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

from opsdk import (
    Cluster,
    Context,
    ControllerOptions,
    Kind,
    ObjectMeta,
    Operator,
    OperatorOptions,
    Request,
    Unstructured,
    crd_for,
    load_config,
)
from opsdk.recipes.conditions import is_condition_true
from website import operator as sample
from website.api import Website, WebsiteSpec

_reconcile = sample.reconcile


class Watched:
    """The sample's reconciler, with an eye on how it is called."""

    at_work: ClassVar[Counter[Request]] = Counter()
    runs: ClassVar[Counter[Request]] = Counter()
    most: ClassVar[int] = 0

    async def reconcile(self, site: Website, ctx: Context) -> None:
        """As the sample; never twice at once for one key."""
        request = ctx.request
        Watched.at_work[request] += 1
        Watched.runs[request] += 1
        assert Watched.at_work[request] == 1, f"{request} is reconciled twice at once"
        Watched.most = max(Watched.most, sum(Watched.at_work.values()))
        try:
            await _reconcile(site, ctx)
        finally:
            Watched.at_work[request] -= 1


def resident() -> int:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def run(count: int, workers: int) -> None:
    """Create `count` sites at once and wait until all are Ready."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        arguments = ["serve", "--port", "0", "--kubeconfig", str(kubeconfig), "--controllers", "cluster"]
        arguments += ["--service-cluster-ip-range", "10.0.0.0/16"]
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "envtest", *arguments, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            await server.stdout.readline()
            await _measure(kubeconfig, server.pid, count, workers)
        finally:
            server.terminate()
            await server.wait()


async def _measure(kubeconfig: Path, server: int, count: int, workers: int) -> None:
    config = load_config(kubeconfig=kubeconfig)
    sample.reconcile = Watched().reconcile
    options = OperatorOptions(controller=ControllerOptions(max_concurrent_reconciles=workers))
    async with Cluster(config) as cluster:
        await cluster.uncached.create(Unstructured.from_tree(crd_for(Website)))
        operator = sample.make_operator(options)
        working = asyncio.create_task(operator.start(config))
        await asyncio.sleep(1)
        gc.collect()
        memory, cpu, began = resident(), time.process_time(), time.monotonic()
        server_cpu = _cpu_of(server)
        await _create(cluster, count)
        created = time.monotonic()
        await _all_ready(cluster, count, working)
        ready = time.monotonic()
        cpu = time.process_time() - cpu
        gc.collect()
        stores = [i for k in operator.cluster.cache.kinds() for i in k.informers.values()]
        cached = sum(len(i.store) for i in stores)
        print(f"{count} Websites: created in {created - began:.1f} s, all Ready after {ready - began:.1f} s")
        print(f"  reconciles: {sum(Watched.runs.values())} of {len(Watched.runs)} keys, at most {Watched.most} at once")
        print(f"  operator CPU per site: {cpu / count * 1e3:.2f} ms (creating the sites and asking for them included)")
        print(f"  server CPU per site: {(_cpu_of(server) - server_cpu) / count * 1e3:.2f} ms")
        print(f"  operator memory per site: {(resident() - memory) / count / 1024:.1f} KiB, {cached} objects cached,")
        print(f"  {sum(i.store.size() for i in stores) / max(cached, 1) / 1024:.2f} KiB of JSON an object")
        counts = sum((i.counts for i in stores), Counter[str]())
        print(f"  informers: {dict(counts)}")
        await _check_nothing_missed(cluster, operator, count)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _create(cluster: Cluster, count: int) -> None:
    gate = asyncio.Semaphore(32)

    async def one(number: int) -> None:
        async with gate:
            meta = ObjectMeta(name=f"site-{number}", namespace="default")
            await cluster.uncached.create(Website(metadata=meta, spec=WebsiteSpec(image="nginx:1")))

    await asyncio.gather(*(one(n) for n in range(count)))


async def _all_ready(cluster: Cluster, count: int, working: asyncio.Task[None]) -> None:
    while True:
        if working.done():
            working.result()
        sites = await cluster.uncached.list(Website)
        ready = sum(s.status is not None and is_condition_true(s.status.conditions, "Ready") for s in sites)
        if ready == count:
            return
        await asyncio.sleep(2)


async def _check_nothing_missed(cluster: Cluster, operator: Operator, count: int) -> None:
    """The caches hold exactly what the server has, revision by revision; every site was reconciled."""
    await asyncio.sleep(2)
    assert len(Watched.runs) == count
    for kind in operator.cluster.cache.kinds():
        live = await cluster.uncached.list(Kind(kind.gvk, Unstructured))
        there = {(o.metadata.namespace, o.metadata.name): o.metadata.resource_version for o in live}
        here = {tuple(e.key): e.resource_version for e in kind.entries()}
        assert here == there, f"the cache of {kind.gvk} differs from the server"
        print(f"  {kind.gvk.kind}: {len(here)} objects here and there, revision by revision")


def _cpu_of(pid: int) -> float:
    """CPU seconds a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, int(sys.argv[2]) if len(sys.argv) > 2 else 8))
