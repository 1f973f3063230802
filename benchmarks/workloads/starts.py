"""(j) Imports, and the time until a controller has reconciled its first object."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from benchmarks.model import Metric, Run, Variant, Workload, named
from benchmarks.objects import widget
from benchmarks.process import ROOT, Outcome, missing, python_of, run_process
from benchmarks.protocol import Sample
from benchmarks.server import World

_IMPORTS = {
    "opsdk": "from opsdk import Operator, Object, Model, Context",
    "kubernetes_asyncio": "from kubernetes_asyncio import client, config, watch",
    "lightkube": "from lightkube import AsyncClient; from lightkube.resources.core_v1 import ConfigMap",
    "kopf": "import kopf",
    "kr8s": "import kr8s.asyncio",
    "kubesdk": "import kubesdk",
}
_PROGRAM = """
import json, time
wall, cpu = time.perf_counter(), time.process_time()
{statement}
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


async def measure(world: World, run: Run) -> Outcome:
    """Import in a fresh interpreter, or run a controller until it has written one status."""
    if run.variant.options["part"] == "import":
        return await _import(run.client)
    await world.create_namespace(run.namespace)
    await world.create([widget(run.namespace, 0)])
    options = {"kubeconfig": str(world.kubeconfig), "namespace": run.namespace, "count": 1, "workers": 1}
    options["started"] = time.monotonic()
    return await run_process(run.client, "reconcile", options, time_limit=run.time_limit)


async def _import(client: str) -> Outcome:
    if client not in _IMPORTS:
        return Outcome(skipped="no Python client")
    python = str(python_of(client))
    if reason := missing(python):
        return Outcome(skipped=reason)
    process = await asyncio.create_subprocess_exec(
        *(python, "-c", _PROGRAM.format(statement=_IMPORTS[client])),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    output, errors = await process.communicate()
    if process.returncode:
        return Outcome(failed=errors.decode(errors="replace").strip().splitlines()[-1])
    wall, cpu = json.loads(output)
    return Outcome(sample=Sample(wall=wall, cpu=cpu, count=1, values={"since_start": wall}))


WORKLOAD = Workload(
    letter="j",
    title="Starts",
    note=(
        f"Import: what an operator imports, in a fresh Python {sys.version_info.major}.{sys.version_info.minor} with "
        "compiled modules. First status: from the start of the process to the answer to its first status write."
    ),
    clients=tuple(_IMPORTS),
    variants=lambda _: [
        Variant(name="import", options={"part": "import"}),
        Variant(name="first status", options={"part": "ready"}),
    ],
    metrics=(
        Metric(name="ms", value=named("since_start", scale=1e3), digits=0),
        Metric(name="CPU ms", value=lambda sample: sample.cpu * 1e3, digits=0),
    ),
    measure=measure,
)
