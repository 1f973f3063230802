"""The operations that are counted, against the embedded server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from benchmarks.clients.opsdk import Widget, children_of
from benchmarks.objects import GROUP, KIND, VERSION, config_map, name_of, widget, widget_definition
from benchmarks.quick import server
from benchmarks.quick.counting import Counts, Profiler, in_counted_task
from envtest import Environment
from opsdk import Cluster, Context, ObjectMeta, Operator, Result, Unstructured
from opsdk.api.core.v1 import ConfigMap
from opsdk.client.patch import merge_patch
from opsdk.testing.running import running

NAMESPACE = "default"
WARM_UP = 10
"""Operations before the counting, which build decoders and open informers."""


async def cached_get(env: Environment, count: int) -> Counts:
    """Read typed objects from the cache."""
    profiler = Profiler()

    async def work() -> Counts:
        async with Cluster(env.config) as cluster:
            running_cluster = asyncio.create_task(cluster.start())
            await cluster.wait_ready()
            await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="read", namespace=NAMESPACE)))
            for turn in range(WARM_UP + count):
                if turn == WARM_UP:
                    profiler.start()
                await cluster.client.get(ConfigMap, "read", namespace=NAMESPACE)
            counts = profiler.stop(count)
            running_cluster.cancel()
            await asyncio.gather(running_cluster, return_exceptions=True)
            return counts

    return await in_counted_task(work)


async def raw_create(env: Environment, count: int) -> Counts:
    """Create typed objects without a cache."""
    profiler = Profiler()

    async def work() -> Counts:
        async with Cluster(env.config) as cluster:
            for number in range(WARM_UP + count):
                if number == WARM_UP:
                    profiler.start()
                tree = config_map(NAMESPACE, number)
                metadata = ObjectMeta(name=name_of(number), namespace=NAMESPACE, labels={"app": "bench"})
                await cluster.uncached.create(ConfigMap(metadata=metadata, data=tree["data"]))
            return profiler.stop(count)

    return await in_counted_task(work)


async def _with_operator(env: Environment, operator: Operator, act: Callable[[], Awaitable[None]]) -> None:
    """Run an operator whose calls count, beside changes whose calls do not."""
    operator.follows_definitions = False  # it begins a second after the start, and would count in some operations
    started, ended = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with running(operator, env, definitions=False, hot_loops=True):
            started.set()
            await ended.wait()

    work = asyncio.create_task(in_counted_task(run))
    starting = asyncio.create_task(started.wait())
    await asyncio.wait([work, starting], return_when=asyncio.FIRST_COMPLETED)
    if started.is_set():
        await act()
    ended.set()
    await work


async def reconcile(env: Environment, count: int) -> Counts:
    """Reconcile new objects with one status write each, and drop the event that each write causes."""
    operator, profiler = Operator("bench"), Profiler()
    done, warm = asyncio.Event(), asyncio.Event()
    results: list[Counts] = []
    settled = 0

    @operator.reconciler(Widget)
    async def reconcile(widget: Widget, ctx: Context) -> None:
        nonlocal settled
        async with ctx.status(widget) as patch:
            patch.status.observed = widget.spec.value
        settled += 1
        if settled == WARM_UP:
            warm.set()
        elif settled == WARM_UP + count:
            results.append(profiler.stop(count))
            done.set()

    async def act() -> None:
        async with Cluster(env.config) as cluster:
            await _create(cluster, range(WARM_UP))
            await warm.wait()
            profiler.start()
            await _create(cluster, range(WARM_UP, WARM_UP + count))
            await done.wait()

    await _with_operator(env, operator, act)
    return results[0]


async def event(env: Environment, count: int) -> Counts:
    """Reconcile updates without doing anything."""
    operator, profiler = Operator("bench"), Profiler()
    values: asyncio.Queue[int] = asyncio.Queue()

    @operator.reconciler(Widget)
    async def reconcile(widget: Widget) -> None:
        values.put_nowait(widget.spec.value)

    results: list[Counts] = []

    async def act() -> None:
        async with Cluster(env.config) as cluster:
            await _create(cluster, [0])
            await values.get()
            for turn in range(WARM_UP + count):
                if turn == WARM_UP:
                    profiler.start()
                await _patch(cluster, turn + 2)
                await values.get()
            results.append(profiler.stop(count))

    await _with_operator(env, operator, act)
    return results[0]


async def noop_pass(env: Environment, count: int) -> Counts:
    """Reconcile one object whose five children are as desired."""
    operator, profiler = Operator("bench"), Profiler()
    done = asyncio.Event()
    results: list[Counts] = []
    passes = 0

    @operator.reconciler(Widget, owns=[ConfigMap])
    async def reconcile(widget: Widget, ctx: Context) -> Result:
        nonlocal passes
        await ctx.apply_all(children_of(widget), prune=[ConfigMap])
        passes += 1
        if passes == WARM_UP:
            profiler.start()
        elif passes == WARM_UP + count:
            results.append(profiler.stop(count))
            done.set()
            return Result()
        return Result(requeue_after=0.01)

    async def act() -> None:
        async with Cluster(env.config) as cluster:
            await _create(cluster, [0])
            await done.wait()

    await _with_operator(env, operator, act)
    return results[0]


async def _create(cluster: Cluster, numbers: range | list[int]) -> None:
    for number in numbers:
        await cluster.uncached.create(Unstructured.from_tree(widget(NAMESPACE, number)))


async def _patch(cluster: Cluster, value: int) -> None:
    identity = {"name": name_of(0), "namespace": NAMESPACE}
    obj = Unstructured.from_tree({"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": identity})
    await cluster.uncached.patch(obj, merge_patch({"spec": {"value": value}}))


OPERATIONS: dict[str, Callable[[Environment, int], Awaitable[Counts]]] = {
    "reconcile with a status write": reconcile,
    "cached get": cached_get,
    "event": event,
    "no-op pass over five children": noop_pass,
    "create": raw_create,
    **server.OPERATIONS,
}


async def measure(name: str, count: int) -> Counts:
    """Count `count` operations on a new server."""
    async with Environment(crds=[widget_definition()]) as env:
        return await OPERATIONS[name](env, count)
