"""One measured process: ``python worker.py ROW OPTIONS``. It imports what both trees have.

It prints one JSON object: CPU seconds, the number of operations, and resident KiB at the end.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from opsdk import (
    CacheOptions,
    Cluster,
    ClusterOptions,
    Context,
    ControllerOptions,
    GroupVersionKind,
    Model,
    Object,
    ObjectMeta,
    Operator,
    OperatorOptions,
    load_config,
)
from opsdk.aio.garbage import tune_garbage_collector
from opsdk.api.core.v1 import ConfigMap

Options = dict[str, Any]


class MeasuredSpec(Model):
    """See `benchmarks.objects.widget_definition`."""

    value: int = 0
    text: str = ""


class MeasuredStatus(Model):
    """See `benchmarks.objects.widget_definition`."""

    observed: int = 0


class MeasuredWidget(Object[MeasuredSpec, MeasuredStatus]):
    """The reconciled kind."""

    gvk = GroupVersionKind("bench.opsdk.dev", "v1", "Widget")


IDLE_KINDS = {
    "opsdk.api.apps.v1": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "opsdk.api.batch.v1": ("CronJob", "Job"),
    "opsdk.api.coordination.v1": ("Lease",),
    "opsdk.api.core.v1": (
        "ConfigMap",
        "Endpoints",
        "LimitRange",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "opsdk.api.networking.v1": ("Ingress", "NetworkPolicy"),
    "opsdk.api.policy.v1": ("PodDisruptionBudget",),
}
"""Twenty kinds of one namespace."""


def idle_kinds() -> Iterator[type[Any]]:
    """Yield the classes of the idle kinds."""
    for module, names in IDLE_KINDS.items():
        yield from (getattr(importlib.import_module(module), name) for name in names)


def resident() -> int:
    """Return the resident KiB of this process; 0 where /proc is missing."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - a process that starts light is measured
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except OSError:
        return 0


def finish(began: float, count: int) -> None:
    """Print the result of the row, and end."""
    print(json.dumps({"cpu": time.process_time() - began, "count": count, "resident": resident()}), flush=True)


def cluster_options(options: Options) -> ClusterOptions:
    """Cache one namespace."""
    return ClusterOptions(cache=CacheOptions(namespaces=[options["namespace"]]))


def operator_of(options: Options) -> Operator:
    """Return an operator of one namespace, with so many workers."""
    controller = ControllerOptions(max_concurrent_reconciles=options.get("workers", 1))
    return Operator("bench", OperatorOptions(cluster=cluster_options(options), controller=controller))


def run(operator: Operator, options: Options) -> None:
    """Run an operator as a cluster does, until its reconciler stops it."""
    operator.run(kubeconfig=options["kubeconfig"], log_level=logging.WARNING)


def stop() -> None:
    """End the operator as a cluster does."""
    os.kill(os.getpid(), signal.SIGTERM)


async def with_cluster(options: Options, work: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run work with a started cluster."""
    async with Cluster(load_config(kubeconfig=options["kubeconfig"]), cluster_options(options)) as cluster:
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        await work(cluster)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


# ------------------------------------------------------------------ rows
def fill(options: Options) -> None:
    """Fill a cache with the ConfigMaps of a namespace."""

    async def work(cluster: Cluster) -> None:
        began = time.process_time()
        cached = await cluster.cache.informer_for(ConfigMap)
        await cached.wait_synced()
        finish(began, sum(len(informer.store) for informer in cached.informers.values()))

    tune_garbage_collector()
    asyncio.run(with_cluster(options, work))


def idle(options: Options) -> None:
    """Do nothing for some seconds, with twenty informers."""

    async def work(cluster: Cluster) -> None:
        kinds = [
            getattr(importlib.import_module(module), name) for module, names in IDLE_KINDS.items() for name in names
        ]
        for kind in kinds:
            await (await cluster.cache.informer_for(kind)).wait_synced()
        await asyncio.sleep(1.0)
        began = time.process_time()
        await asyncio.sleep(options["seconds"])
        finish(began, options["seconds"])

    asyncio.run(with_cluster(options, work))


def reconcile(options: Options) -> None:
    """Write one status for each object."""
    operator = operator_of(options)
    written, began = 0, 0.0

    @operator.reconciler(MeasuredWidget)
    async def reconcile_widget(obj: MeasuredWidget, ctx: Context) -> None:
        nonlocal written, began
        began = began or time.process_time()
        if obj.status is not None and obj.status.observed == options["value"]:
            return
        async with ctx.status(obj) as patch:
            patch.status.observed = options["value"]
        written += 1
        if written == options["count"]:
            finish(began, written)
            stop()

    run(operator, options)


def events(options: Options) -> None:
    """Receive changes of objects that a predicate drops."""
    operator = operator_of(options)
    received, began = 0, 0.0

    def drop(event: object) -> bool:  # noqa: ARG001 - what a predicate is called with
        nonlocal received, began
        began = began or time.process_time()
        received += 1
        # The first list, then one change for each object.
        if received == options["count"]:
            began = time.process_time()
            print(json.dumps({"ready": True}), flush=True)
        if received == 2 * options["count"]:
            finish(began, options["count"])
            stop()
        return False

    @operator.reconciler(MeasuredWidget, predicates=[drop])
    async def reconcile_nothing(obj: MeasuredWidget) -> None:
        raise AssertionError(obj)

    run(operator, options)


def apply(options: Options) -> None:
    """Apply a child that is as desired, once for each object; a tenth of the passes warms up."""
    operator = operator_of(options)
    passes, began = 0, 0.0

    @operator.reconciler(MeasuredWidget, owns=[ConfigMap])
    async def reconcile_child(obj: MeasuredWidget, ctx: Context) -> None:
        nonlocal passes, began
        passes += 1
        if passes == options["count"] // 10:
            began = time.process_time()
        meta = ObjectMeta(name=obj.metadata.name, namespace=obj.metadata.namespace)
        await ctx.apply(ConfigMap(metadata=meta, data={"text": "x" * 200}))
        if passes == options["count"]:
            finish(began, options["count"] - options["count"] // 10)
            stop()

    run(operator, options)


def start(options: Options) -> None:
    """Start an operator until its first reconcile: all CPU of the process counts."""
    operator = operator_of(options)

    @operator.reconciler(MeasuredWidget)
    async def reconcile_first(obj: MeasuredWidget) -> None:  # noqa: ARG001
        finish(0.0, 1)
        stop()

    run(operator, options)


if __name__ == "__main__":
    {"fill": fill, "idle": idle, "reconcile": reconcile, "events": events, "apply": apply, "start": start}[sys.argv[1]](
        json.loads(sys.argv[2])
    )
