"""Workloads of one process without changes from outside: (d) no-op passes, (f) reads, (g) requests, (h) the queue."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.model import CheckError, Metric, Run, Variant, Workload, named, per_operation, rate
from benchmarks.objects import GROUP, KIND, VERSION, WARM_UP, config_map, widget
from benchmarks.process import Outcome, run_process
from benchmarks.server import World
from benchmarks.workloads import sync

_CPU = Metric(name="CPU ms per request", value=per_operation("cpu", scale=1e3))
_MILLISECONDS = Metric(name="CPU ms per pass", value=per_operation("cpu", scale=1e3), digits=3)


async def noop(world: World, run: Run) -> Outcome:
    """Reconcile one object whose children are as desired, and expect no request."""
    namespace = run.namespace
    await world.create_namespace(namespace)
    await world.create([widget(namespace, 0)])
    options = {**run.variant.options, "kubeconfig": str(world.kubeconfig), "namespace": namespace}
    outcome = await run_process(run.client, "noop", options, time_limit=run.time_limit)
    await world.delete_all(f"{GROUP}/{VERSION}", KIND, namespace)
    if outcome.sample is not None:
        children = await world.count("v1", "ConfigMap", namespace)
        if children < 5:
            raise CheckError(f"{children} of 5 children exist")
    return outcome


NOOP = Workload(
    letter="d",
    title="No-op passes over five children",
    note="`ctx.apply_all` of five ConfigMaps that are as desired, with pruning, through the queue each time.",
    clients=("opsdk",),
    variants=lambda scale: [
        Variant(name="5 children", options={"count": max(50, round(2000 * scale)), "warm_up": 20, "workers": 1})
    ],
    metrics=(
        _MILLISECONDS,
        Metric(name="ms per pass", value=per_operation("wall", scale=1e3), digits=3),
        Metric(name="requests", value=named("requests"), digits=0),
    ),
    measure=noop,
)


async def reads(world: World, run: Run) -> Outcome:
    """Read from a full cache; the client checks how many objects each list has."""
    options = run.variant.options
    namespace = await sync.seed(world, "configmaps", options["count"])
    options = {**options, "kubeconfig": str(world.kubeconfig), "namespace": namespace}
    return await run_process(run.client, "reads", options, time_limit=run.time_limit)


READS = Workload(
    letter="f",
    title="Reads from the cache",
    note="Typed gets, and lists that select one object of a hundred, by label and by index.",
    clients=("opsdk",),
    variants=lambda scale: [
        Variant(
            name=f"{count:,} ConfigMaps",
            options={"count": count, "gets": max(1000, round(20_000 * scale)), "lists": 20},
        )
        for count in [max(200, round(500 * scale) * 100)]
    ],
    metrics=(
        Metric(name="gets/s", value=rate, lower_is_better=False, digits=0),
        Metric(name="list by label ms", value=named("by_label", scale=1e3)),
        Metric(name="list by index ms", value=named("by_index", scale=1e3)),
        Metric(name="list of all ms", value=named("all", scale=1e3), digits=0),
        Metric(name="decode of a 5 kB Pod us", value=named("decode_pod", scale=1e6), digits=0),
    ),
    measure=reads,
    rounds=1,
    world="large",
)


async def requests(world: World, run: Run) -> Outcome:
    """Send requests of one verb, and compare the objects on the server with what was written."""
    options = run.variant.options
    verb, count, namespace = options["verb"], options["count"], run.namespace
    await world.create_namespace(namespace)
    warm_up = config_map(namespace, 0)
    warm_up["metadata"]["name"] = WARM_UP
    await world.create([warm_up])
    if verb != "create":
        await world.create(config_map(namespace, number) for number in range(count))
    options = {**options, "kubeconfig": str(world.kubeconfig), "namespace": namespace}
    try:
        outcome = await run_process(run.client, "requests", options, time_limit=run.time_limit)
        if outcome.sample is not None:
            trees = [t for t in await world.trees("v1", "ConfigMap", namespace) if t["metadata"]["name"] != WARM_UP]
            right = [t for t in trees if verb != "patch" or t.get("data", {}).get("value") == "changed"]
            right = [t for t in right if "text" in t.get("data", {})]
            if len(right) != count:
                raise CheckError(f"{len(right)} of {count} objects are as written")
        return outcome
    finally:
        await world.delete_all("v1", "ConfigMap", namespace)


def request_variants(scale: float) -> Sequence[Variant]:
    """Return each verb at each concurrency."""
    count = max(50, round(500 * scale))
    return [
        Variant(name=f"{verb}, {workers} at once", options={"verb": verb, "count": count, "workers": workers})
        for verb in ("create", "get", "patch")
        for workers in (1, 16, 64)
    ]


REQUESTS = Workload(
    letter="g",
    title="Single requests",
    note=(
        "ConfigMaps of half a kilobyte, typed where the client has types. aiohttp sends and reads plain dicts. Before "
        "that, each client sends five bursts of as many reads as there are workers, so that its connections are open."
    ),
    clients=("opsdk", "aiohttp", "kubernetes_asyncio", "lightkube", "kr8s", "kubesdk"),
    variants=request_variants,
    metrics=(
        _CPU,
        Metric(name="requests/s", value=rate, lower_is_better=False, digits=0),
        Metric(name="requests", value=lambda sample: sample.count, digits=0),
    ),
    measure=requests,
    rounds=2,
)


async def queue(_: World, run: Run) -> Outcome:
    """Run the queue alone."""
    return await run_process(run.client, "queue", run.variant.options, time_limit=run.time_limit)


QUEUE = Workload(
    letter="h",
    title="The work queue",
    note="One add, one get, one forget and one done for each item, without sockets.",
    clients=("opsdk",),
    variants=lambda scale: [
        Variant(name=f"batches of {batch:,}", options={"count": round(20 * scale + 1) * 10_000, "batch": batch})
        for batch in (10, 10_000)
    ],
    metrics=(
        Metric(name="items/s", value=rate, lower_is_better=False, digits=0),
        Metric(name="CPU us per item", value=per_operation("cpu", scale=1e6)),
    ),
    measure=queue,
)
