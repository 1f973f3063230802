"""One measured process: ``python worker.py ROW OPTIONS``. It imports what both trees have of opsdk."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.objects import GROUP, KIND, VERSION
from benchmarks.protocol import Meter, Options, Sample, memory, run_client, send, send_sample
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


class MeasuredSpec(Model):
    """See `benchmarks.objects.widget_definition`."""

    value: int = 0
    text: str = ""


class MeasuredStatus(Model):
    """See `benchmarks.objects.widget_definition`."""

    observed: int = 0


class MeasuredWidget(Object[MeasuredSpec, MeasuredStatus]):
    """The reconciled kind."""

    gvk = GroupVersionKind(GROUP, VERSION, KIND)


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


def finish(sample: Sample, options: Options) -> None:
    """Print the result, and end the operator as a cluster does."""
    send_sample(sample, options)
    os.kill(os.getpid(), signal.SIGTERM)


@asynccontextmanager
async def running_cluster(options: Options) -> AsyncIterator[Cluster]:
    """Run a cluster with its caches."""
    async with Cluster(load_config(kubeconfig=options["kubeconfig"]), cluster_options(options)) as cluster:
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        try:
            yield cluster
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


# ------------------------------------------------------------------ rows
async def fill(options: Options) -> Sample:
    """Fill a cache with the ConfigMaps of a namespace."""
    tune_garbage_collector()
    async with running_cluster(options) as cluster:
        meter = Meter()
        cached = await cluster.cache.informer_for(ConfigMap)
        await cached.wait_synced()
        return meter.stop(sum(len(informer.store) for informer in cached.informers.values()))


async def idle(options: Options) -> Sample:
    """Do nothing for some seconds, with twenty informers."""
    async with running_cluster(options) as cluster:
        for kind in idle_kinds():
            await (await cluster.cache.informer_for(kind)).wait_synced()
        await asyncio.sleep(1.0)
        meter = Meter()
        await asyncio.sleep(options["seconds"])
        return meter.stop(options["seconds"])


def reconcile(options: Options) -> None:
    """Write one status for each object."""
    operator = operator_of(options)
    written = 0
    meter: Meter | None = None

    @operator.reconciler(MeasuredWidget)
    async def reconcile_widget(obj: MeasuredWidget, ctx: Context) -> None:
        nonlocal written, meter
        meter = meter or Meter()
        if obj.status is not None and obj.status.observed == options["value"]:
            return
        async with ctx.status(obj) as patch:
            patch.status.observed = options["value"]
        written += 1
        if written == options["count"]:
            finish(meter.stop(written), options)

    run(operator, options)


def events(options: Options) -> None:
    """Receive changes of objects that a predicate drops."""
    operator = operator_of(options)
    received, meter = 0, Meter()

    def drop(event: object) -> bool:  # noqa: ARG001 - what a predicate is called with
        nonlocal received, meter
        received += 1
        # The first list, then one change for each object.
        if received == options["count"]:
            meter = Meter()
            send(ready=True)
        if received == 2 * options["count"]:
            finish(meter.stop(options["count"]), options)
        return False

    @operator.reconciler(MeasuredWidget, predicates=[drop])
    async def reconcile_nothing(obj: MeasuredWidget) -> None:
        raise AssertionError(obj)

    run(operator, options)


def apply(options: Options) -> None:
    """Apply a child that is as desired, once for each object; a tenth of the passes warms up."""
    operator = operator_of(options)
    passes, meter = 0, Meter()

    @operator.reconciler(MeasuredWidget, owns=[ConfigMap])
    async def reconcile_child(obj: MeasuredWidget, ctx: Context) -> None:
        nonlocal passes, meter
        passes += 1
        if passes == options["count"] // 10:
            meter = Meter()
        meta = ObjectMeta(name=obj.metadata.name, namespace=obj.metadata.namespace)
        await ctx.apply(ConfigMap(metadata=meta, data={"text": "x" * 200}))
        if passes == options["count"]:
            finish(meter.stop(options["count"] - options["count"] // 10), options)

    run(operator, options)


def start(options: Options) -> None:
    """Start an operator until its first reconcile: all CPU of the process counts."""
    operator = operator_of(options)

    @operator.reconciler(MeasuredWidget)
    async def reconcile_first(obj: MeasuredWidget) -> None:  # noqa: ARG001
        finish(Sample(wall=0.0, cpu=time.process_time(), count=1, rss=memory()), options)

    run(operator, options)


if __name__ == "__main__":
    run_client({"fill": fill, "idle": idle, "reconcile": reconcile, "events": events, "apply": apply, "start": start})
