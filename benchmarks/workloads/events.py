"""(b) Churn with predicates, (e) latency from a write to the reconcile, and the growth of the cost of an event."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from benchmarks.model import (
    OPSDK,
    CheckError,
    Metric,
    Results,
    Run,
    Variant,
    Workload,
    latency,
    named,
    per_operation,
    slope,
)
from benchmarks.objects import GROUP, KIND, VERSION, Tree, name_of, widget
from benchmarks.process import Outcome, run_process
from benchmarks.protocol import Options
from benchmarks.server import World, for_each
from opsdk import Unstructured
from opsdk.client.patch import merge_patch

_API_VERSION = f"{GROUP}/{VERSION}"
_PEERS = ("kubernetes_asyncio", "lightkube", "kr8s", "kubesdk")
_RAW = "aiohttp"
_UPDATES = 5
_GROWTH_RATE = 250.0


async def _patch(world: World, namespace: str, number: int, tree: Tree) -> None:
    identity = {"name": name_of(number), "namespace": namespace}
    obj = Unstructured.from_tree({"apiVersion": _API_VERSION, "kind": KIND, "metadata": identity})
    await world.cluster.uncached.patch(obj, merge_patch(tree))


async def _with_objects(
    world: World, run: Run, options: Options, change: Callable[[str], Awaitable[None]], *, raw: bool = False
) -> tuple[Outcome, Outcome | None]:
    """Create objects, start the client (and a raw watch), change the objects when all are ready, delete them."""
    namespace = run.namespace
    await world.create_namespace(namespace)
    await world.create(widget(namespace, number) for number in range(options["count"]))
    options = {**options, "kubeconfig": str(world.kubeconfig), "namespace": namespace}
    starting = asyncio.Barrier(2 if raw else 1)

    async def change_when_all_are_ready() -> None:
        if await starting.wait() == 0:
            await change(namespace)

    async def start(client: str) -> Outcome:
        return await run_process(client, "follow", options, time_limit=run.time_limit, during=change_when_all_are_ready)

    try:
        outcomes = await asyncio.gather(*(start(client) for client in ([run.client, _RAW] if raw else [run.client])))
        return outcomes[0], outcomes[1] if raw else None
    finally:
        await world.delete_all(_API_VERSION, KIND, namespace)


async def _write_steadily(rate: float, events: int, write: Callable[[int], Coroutine[object, None, None]]) -> None:
    """Start `write(0)`, `write(1)` and so on, at `rate` a second, however long each takes."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for event in range(events):
            await asyncio.sleep(max(0.0, began + event / rate - time.monotonic()))
            group.create_task(write(event))


async def churn(world: World, run: Run) -> Outcome:
    """Update each object five times; only the last one changes the generation."""
    count = run.variant.options["count"]
    options = {**run.variant.options, "changed": count, "final": 2, "events": count * _UPDATES}

    async def change(namespace: str) -> None:
        for turn in range(1, _UPDATES):
            tree = {"metadata": {"annotations": {"turn": str(turn)}}}
            await _patch_all(world, namespace, count, tree)
        await _patch_all(world, namespace, count, {"spec": {"value": 2}})

    outcome, _ = await _with_objects(world, run, options, change)
    return outcome


async def _patch_all(world: World, namespace: str, count: int, tree: Tree) -> None:
    async def patch(item: Tree) -> None:
        await _patch(world, namespace, item["number"], tree)

    await for_each(({"number": number} for number in range(count)), patch)


def churn_variants(scale: float) -> Sequence[Variant]:
    """Return one size, without and with a heartbeat."""
    count = max(50, round(500 * scale))
    return [
        Variant(name=f"{count:,} objects", options={"count": count}),
        Variant(name=f"{count:,} objects, heartbeat", options={"count": count, "heartbeat": True}),
    ]


CHURN = Workload(
    letter="b",
    title="Churn with predicates",
    note=(
        "Each object is updated five times; four updates change annotations, the last one the spec. A predicate on the "
        "generation lets the last one pass. CPU is the client's, from the first update to the last reconcile."
    ),
    clients=("opsdk", *_PEERS),
    variants=churn_variants,
    metrics=(
        Metric(name="CPU ms per event", value=per_operation("cpu", scale=1e3), digits=3),
        Metric(name="stall ms", value=named("stall", scale=1e3), digits=1),
        Metric(name="collector ms", value=named("gc_pause", scale=1e3), digits=1),
        Metric(name="peak RSS MB", value=lambda sample: sample.peak / 1024, digits=0),
    ),
    measure=churn,
    rounds=2,
)


async def grow(world: World, run: Run) -> Outcome:
    """Change the same number of objects, at the same rate, in caches of different sizes."""
    changed = run.variant.options["changed"]

    async def change(namespace: str) -> None:
        # As fast as possible, a server with more objects is slower, and the client handles fewer events at once.
        await _write_steadily(
            _GROWTH_RATE, changed, lambda number: _patch(world, namespace, number, {"spec": {"value": 2}})
        )

    outcome, _ = await _with_objects(world, run, {**run.variant.options, "final": 2, "events": changed}, change)
    return outcome


def growth_variants(scale: float) -> Sequence[Variant]:
    """Return caches of 1,000 to 50,000 objects."""
    changed = max(50, round(1000 * scale))
    counts = [max(50, round(count * scale)) for count in (1000, 10_000, 50_000)]
    return [Variant(name=f"{count:,} objects", options={"count": count, "changed": changed}) for count in counts]


def growth_summary(results: Results) -> str:
    """Return the slope of the cost of an event over the size of the cache."""
    metric = results.workload.metrics[0]
    points = []
    for variant in results.variants():
        cost = results.median(variant, OPSDK, metric)
        if cost is not None:
            points.append((float(variant.split()[0].replace(",", "")), cost))
    return f"Slope: {slope(points) * 10_000:+.4f} ms of CPU per event for 10,000 more objects."


GROWTH = Workload(
    letter="n",
    title="Cost of an event in small and large caches",
    note=(
        f"The same spec changes and reconciles, {_GROWTH_RATE:g} a second, in caches of different sizes. Each event "
        "wakes the client, so an event costs more than in (b), where many arrive at once."
    ),
    clients=("opsdk",),
    variants=growth_variants,
    metrics=(Metric(name="CPU ms per event", value=per_operation("cpu", scale=1e3), digits=3),),
    measure=grow,
    rounds=1,
    summary=growth_summary,
)


async def delay(world: World, run: Run) -> Outcome:
    """Write at a steady rate; compare the time of each reconcile with the write and with a raw watch's delivery."""
    rate, events = run.variant.options["rate"], run.variant.options["events"]
    count = run.variant.options["count"]
    sent: dict[str, float] = {}

    async def change(namespace: str) -> None:
        locks = [asyncio.Lock() for _ in range(count)]

        async def write(event: int) -> None:
            number, value = event % count, event // count + 2
            async with locks[number]:  # values of one object stay in order, so that its last value is the largest
                sent[f"{name_of(number)}/{value}"] = time.monotonic()
                await _patch(world, namespace, number, {"spec": {"value": value}})

        await _write_steadily(rate, events, write)

    options = {**run.variant.options, "changed": count, "final": events // count + 1, "stamps": True}
    outcome, raw = await _with_objects(world, run, options, change, raw=True)
    if outcome.sample is None:
        return outcome
    if raw is None or raw.sample is None:
        return Outcome(failed=f"the raw watch failed: {raw.failed if raw is not None else ''}")
    reconciled = {name: outcome.sample.values.pop(name) for name in sent if name in outcome.sample.values}
    # A queue may combine two values of one object; the client has ended, so it has seen the last value of each.
    if len(reconciled) < count:
        raise CheckError(f"{len(reconciled)} values of {count} objects were reconciled")
    outcome.sample.values["combined"] = events - len(reconciled)
    delivered = raw.sample.values
    both = [name for name in reconciled if name in delivered]
    outcome.sample.latencies = {
        "from write": [reconciled[name] - sent[name] for name in reconciled],
        "delivery": [delivered[name] - sent[name] for name in both],
        "above delivery": [reconciled[name] - delivered[name] for name in both],
    }
    ends = [max(sent.values()), min(sent.values())]
    outcome.sample.values["rate"] = (events - 1) / (ends[0] - ends[1])
    return outcome


def delay_variants(scale: float) -> Sequence[Variant]:
    """Return three rates; each object gets ten values."""
    seconds = 5 * scale
    counts = [(rate, max(5, round(rate * seconds / 10))) for rate in (10, 100, 500)]
    return [
        Variant(name=f"{rate} events/s", options={"rate": rate, "count": count, "events": count * 10})
        for rate, count in counts
    ]


LATENCY = Workload(
    letter="e",
    title="From a write to the reconcile",
    note=(
        "The spec of an object changes at a steady rate. A raw watch in a process of its own notes when the bytes of "
        "each value arrive; above delivery is the reconcile's time minus that. The writer, the server, the raw watch "
        "and the client share the cores, so the higher rates also measure the machine."
    ),
    clients=("opsdk", *_PEERS),
    variants=delay_variants,
    metrics=tuple(
        itertools.chain(
            (
                Metric(name=f"above delivery p{label} ms", value=latency("above delivery", share))
                for label, share in (("50", 0.5), ("99", 0.99), ("999", 0.999))
            ),
            (
                Metric(name="from write p50 ms", value=latency("from write", 0.5)),
                Metric(name="from write p99 ms", value=latency("from write", 0.99)),
                Metric(name="combined", value=named("combined"), digits=0),
                Metric(name="writes/s", value=named("rate"), lower_is_better=False, digits=0),
            ),
        )
    ),
    measure=delay,
    rounds=2,
)
