"""(a) Fill a cache: ConfigMaps, custom objects, and Pods of 5 kB with an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.model import CheckError, Metric, Run, Variant, Workload, named, per_operation
from benchmarks.objects import GROUP, VERSION, Tree, config_map, pod, widget
from benchmarks.process import Outcome, run_process
from benchmarks.protocol import Sample
from benchmarks.server import World

PEERS = ("kubernetes_asyncio", "lightkube", "kopf", "kr8s", "kubesdk")
KINDS: dict[str, tuple[str, str, Callable[[str, int], Tree]]] = {
    "configmaps": ("v1", "ConfigMap", config_map),
    "widgets": (f"{GROUP}/{VERSION}", "Widget", widget),
    "pods": ("v1", "Pod", pod),
}
KOPF_LIMIT = 1000
"""Objects. The time of kopf's index grows with the square of their number: more than 120 s for 2,000."""


def variants(scale: float) -> Sequence[Variant]:
    """Return sizes of ConfigMaps, and one of each other kind."""
    sizes = [("configmaps", 1000), ("configmaps", 10_000), ("configmaps", 50_000), ("widgets", 10_000), ("pods", 5000)]
    counts = [(kind, max(50, round(size * scale))) for kind, size in sizes]
    return [Variant(name=f"{count:,} {kind}", options={"kind": kind, "count": count}) for kind, count in counts]


async def seed(world: World, kind: str, count: int) -> str:
    """Create `count` objects once for all clients, and return their namespace."""
    namespace = f"{kind}-{count}"
    api_version, name, make = KINDS[kind]
    await world.create_namespace(namespace)
    if await world.count(api_version, name, namespace) < count:
        await world.create(make(namespace, number) for number in range(count))
    return namespace


async def measure(world: World, run: Run) -> Outcome:
    """Fill a cache, and compare the number of its objects, and of the indexed ones, with what was created."""
    options = run.variant.options
    if run.client == "kopf" and options["count"] > KOPF_LIMIT:
        return Outcome(skipped=f"its index takes minutes above {KOPF_LIMIT:,} objects")
    namespace = await seed(world, options["kind"], options["count"])
    options = {**options, "kubeconfig": str(world.kubeconfig), "namespace": namespace}
    outcome = await run_process(run.client, "sync", options, time_limit=run.time_limit)
    if outcome.sample is not None:
        _check(outcome.sample, options["count"], indexed=options["kind"] == "pods")
    return outcome


def _check(sample: Sample, count: int, *, indexed: bool) -> None:
    # kube-root-ca.crt is in every namespace of a real cluster.
    if not count <= sample.count <= count + 1:
        raise CheckError(f"{sample.count} of {count} objects are cached")
    if indexed and sample.values.get("indexed") != count:
        raise CheckError(f"{sample.values.get('indexed')} of {count} objects are indexed")


def growth(sample: Sample) -> float | None:
    """KiB of resident memory for each object."""
    return (sample.rss - sample.rss_before) / sample.count


METRICS = (
    Metric(name="CPU ms per object", value=per_operation("cpu", scale=1e3), digits=3),
    Metric(name="seconds", value=lambda sample: sample.wall),
    Metric(name="RSS KiB per object", value=growth),
    Metric(name="peak - steady MB", value=lambda sample: (sample.peak - sample.rss) / 1024, digits=1),
)

WORKLOAD = Workload(
    letter="a",
    title="Fill a cache",
    note=(
        "Each client lists and holds all objects by name, in its own classes: opsdk's informer, kopf's index, a dict "
        "around the others. Memory is the growth of RSS from before the connection to after a garbage collection. "
        "Pods have an index by node. kopf's index is not run above 1,000 objects."
    ),
    clients=("opsdk", *PEERS),
    variants=variants,
    metrics=METRICS,
    measure=measure,
    rounds=1,
    world="large",
)


def stall_variants(scale: float) -> Sequence[Variant]:
    """Return the largest sizes, with a heartbeat in the loop."""
    sizes = [("configmaps", 50_000), ("pods", 5000)]
    counts = [(kind, max(50, round(size * scale))) for kind, size in sizes]
    return [
        Variant(name=f"{count:,} {kind}", options={"kind": kind, "count": count, "heartbeat": True})
        for kind, count in counts
    ]


STALLS = Workload(
    letter="i",
    title="Stalls of the event loop",
    note=(
        "(a) again, with a timer every millisecond in the same loop. The stall is the longest time between two of its "
        "turns; on a busy machine it holds other processes' turns, so the run prints its CPU time too."
    ),
    clients=("opsdk", "kubernetes_asyncio", "lightkube", "kr8s", "kubesdk"),
    variants=stall_variants,
    metrics=(
        Metric(name="stall ms", value=named("stall", scale=1e3), digits=1),
        Metric(name="CPU in a stall ms", value=named("stall_cpu", scale=1e3), digits=1),
        Metric(name="collector ms", value=named("gc_pause", scale=1e3), digits=1),
    ),
    measure=measure,
    rounds=1,
    world="large",
)
