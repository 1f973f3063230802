"""(c) Reconcile N objects, with one status write each, by 1, 16 and 64 workers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.model import CheckError, Metric, Run, Variant, Workload, per_operation, rate
from benchmarks.objects import GROUP, KIND, VERSION, widget
from benchmarks.process import Outcome, run_process
from benchmarks.server import World

CLIENTS = ("opsdk", "opsdk_recorded", "kubernetes_asyncio", "lightkube", "kopf", "kr8s", "kubesdk")
# Runs with 500 objects take a third of a second, and two of them differed by up to a third.
_OBJECTS = 1_000
_API_VERSION = f"{GROUP}/{VERSION}"


def variants(scale: float) -> Sequence[Variant]:
    """Return one variant for each number of workers."""
    count = max(50, round(_OBJECTS * scale))
    return [
        Variant(
            name=f"{workers} {'worker' if workers == 1 else 'workers'}", options={"count": count, "workers": workers}
        )
        for workers in (1, 16, 64)
    ]


async def measure(world: World, run: Run) -> Outcome:
    """Create fresh objects, run the client, and compare each status with its spec."""
    count, namespace = run.variant.options["count"], run.namespace
    await world.create_namespace(namespace)
    await world.create(widget(namespace, number) for number in range(count))
    options = {**run.variant.options, "kubeconfig": str(world.kubeconfig), "namespace": namespace}
    try:
        outcome = await run_process(run.client, "reconcile", options, time_limit=run.time_limit)
        if outcome.sample is not None:
            trees = await world.trees(_API_VERSION, KIND, namespace)
            written = sum(tree.get("status", {}).get("observed") == tree["spec"]["value"] for tree in trees)
            if written != count:
                raise CheckError(f"{written} of {count} objects have their status")
        return outcome
    finally:
        await world.delete_all(_API_VERSION, KIND, namespace)


WORKLOAD = Workload(
    letter="c",
    title="Reconcile with one status write",
    note=(
        "A controller starts on fresh custom objects and writes the status of each. CPU and time count from the start "
        "of the controller, its first list included, to the last answer; imports are done before. The watch returns "
        "each write, which costs a second, empty reconcile. kopf has worker_limit set to the number of workers and "
        "idle_timeout to 5 ms: with its 5 s, W workers handle W / 5 objects a second. kubesdk reaches the status "
        "through the object's name. `opsdk_recorded` is opsdk with a [recording](howto/replay.md)."
    ),
    clients=CLIENTS,
    variants=variants,
    metrics=(
        Metric(name="CPU ms per object", value=per_operation("cpu", scale=1e3)),
        Metric(name="objects/s", value=rate, lower_is_better=False, digits=0),
        Metric(name="objects", value=lambda sample: sample.count, digits=0),
        Metric(name="peak RSS MB", value=lambda sample: sample.peak / 1024, digits=0),
    ),
    measure=measure,
)
