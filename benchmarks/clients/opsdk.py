"""opsdk, as its documentation writes operators."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.clients.loop import Follower
from benchmarks.clients.peer import run_requests
from benchmarks.objects import GROUP, VERSION, config_map, name_of, pod
from benchmarks.protocol import Heartbeat, Meter, Options, Sample, run_client, send, send_sample
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
    Request,
    Result,
    load_config,
)
from opsdk.aio.garbage import tune_garbage_collector
from opsdk.api.core.v1 import ConfigMap, Pod
from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.kinds import kind_of
from opsdk.client.patch import merge_patch
from opsdk.event.predicates import generation_changed
from opsdk.queue.work_queue import WorkQueue
from opsdk.recording.options import RecordingOptions
from opsdk.telemetry.records import Record, Requested, TelemetryHook


class WidgetSpec(Model):
    """See `benchmarks.objects.widget_definition`."""

    value: int = 0
    text: str = ""


class WidgetStatus(Model):
    """See `benchmarks.objects.widget_definition`."""

    observed: int = 0


class Widget(Object[WidgetSpec, WidgetStatus]):
    """The reconciled kind."""

    gvk = GroupVersionKind(GROUP, VERSION, "Widget")


class RequestCounter(TelemetryHook):
    """Counts requests to the server."""

    def __init__(self) -> None:
        self.count = 0

    def record(self, record: Record) -> None:
        """Count a request."""
        self.count += isinstance(record, Requested)


def cluster_options(options: Options) -> ClusterOptions:
    """Cache one namespace."""
    return ClusterOptions(cache=CacheOptions(namespaces=[options["namespace"]]))


def operator_of(options: Options, recording: str = "") -> Operator:
    """Return an operator of one namespace with so many workers, recorded into a directory if there is one."""
    controller = ControllerOptions(max_concurrent_reconciles=options.get("workers", 1))
    return Operator(
        "bench",
        OperatorOptions(
            cluster=cluster_options(options), controller=controller, recording=RecordingOptions(directory=recording)
        ),
    )


def stop_operator() -> None:
    """End `Operator.run` as a cluster does."""
    os.kill(os.getpid(), signal.SIGTERM)


def reconcile_workload(options: Options, recording: str = "") -> None:
    """Write one status for each of `count` objects."""
    operator = operator_of(options, recording)
    written = 0
    sample: Sample | None = None

    @operator.reconciler(Widget)
    async def reconcile(widget: Widget, ctx: Context) -> None:
        nonlocal written, sample
        if widget.status is not None and widget.status.observed == widget.spec.value:
            return
        async with ctx.status(widget) as patch:
            patch.status.observed = widget.spec.value
        written += 1
        if written == options["count"]:
            sample = meter.stop(written)
            send_sample(sample, options)
            stop_operator()

    meter = Meter()
    operator.run(kubeconfig=options["kubeconfig"], log_level=logging.WARNING)


def follow_workload(options: Options) -> None:
    """Reconcile each generation of each object, until the last value of each changed object."""
    operator = operator_of(options)
    meter: Meter | None = None
    beat = Heartbeat(enabled=options.get("heartbeat", False))

    def finish() -> None:
        assert meter is not None
        beat.stop()
        sample = meter.stop(options["events"])
        sample.values.update(beat.figures(), **follower.stamps)
        send_sample(sample, options)
        stop_operator()

    follower = Follower(options, finish)

    @operator.reconciler(Widget, predicates=[generation_changed()])
    async def reconcile(widget: Widget) -> None:
        follower.see(widget.metadata.name, widget.spec.value)

    class Begin:
        """Starts the measurement when the first reconciles are done."""

        async def start(self) -> None:
            nonlocal meter
            await (await operator.cluster.cache.informer_for(Widget)).wait_synced()
            [controller] = operator.controllers.values()
            await controller.queue.wait_idle()
            meter = Meter()
            beat.start()
            send(ready=True)
            await asyncio.Event().wait()

    @operator.setup
    def watch_start(operator: Operator) -> None:
        operator.manager.add(Begin())

    operator.run(kubeconfig=options["kubeconfig"], log_level=logging.WARNING)


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


def node_of(pod: Pod) -> list[str]:
    """Return the value of the index."""
    return [pod.spec.node_name or ""]


async def sync_workload(options: Options) -> Sample:
    """Fill the cache with `count` objects, Pods with an index."""
    kinds: dict[str, type[ConfigMap | Pod | Widget]]
    kinds = {"configmaps": ConfigMap, "pods": Pod, "widgets": Widget}
    kind = kinds[options["kind"]]
    tune_garbage_collector()  # as Operator.run, when all modules are loaded
    meter = Meter()
    beat = Heartbeat(enabled=options.get("heartbeat", False))
    beat.start()
    async with running_cluster(options) as cluster:
        if kind is Pod:
            cluster.cache.index_field(Pod, "spec.nodeName", node_of)
        cached = await cluster.cache.informer_for(kind)
        await cached.wait_synced()
        beat.stop()
        sample = meter.stop(sum(len(informer.store) for informer in cached.informers.values()))
        sample.values.update(beat.figures())
        if kind is Pod:
            sample.values["indexed"] = 0
            for number in range(200):
                pods = await cluster.client.list(Pod, field_selector={"spec.nodeName": f"node-{number}"})
                sample.values["indexed"] += len(list(pods))
    return sample


async def reads_workload(options: Options) -> Sample:
    """Read from a cache: typed gets, lists by label, lists by index."""
    gets, lists = options["gets"], options["lists"]
    tune_garbage_collector()
    async with running_cluster(options) as cluster:
        cluster.cache.index_field(ConfigMap, "value", lambda item: [str(int(item.data["value"]) % 100)])
        await (await cluster.cache.informer_for(ConfigMap)).wait_synced()
        client, namespace = cluster.client, options["namespace"]
        names = [name_of(number * 7919 % options["count"]) for number in range(gets)]
        meter = Meter()
        for name in names:
            await client.get(ConfigMap, name, namespace=namespace)
        sample = meter.stop(gets)
        meter = Meter()
        for number in range(lists):
            selected = await client.list(ConfigMap, label_selector={"app": f"app-{number % 100}"})
            assert len(list(selected)) == options["count"] // 100, "list by label"
        sample.values["by_label"] = meter.stop(lists).wall / lists
        meter = Meter()
        for number in range(lists):
            selected = await client.list(ConfigMap, field_selector={"value": str(number % 100)})
            assert len(list(selected)) == options["count"] // 100, "list by index"
        sample.values["by_index"] = meter.stop(lists).wall / lists
        meter = Meter()
        assert len(list(await client.list(ConfigMap))) == options["count"], "list of all"
        sample.values["all"] = meter.stop(1).wall
    data = json.dumps(pod(namespace, 0)).encode()
    meter = Meter()
    for _ in range(lists * 10):
        decode(data, kind_of(Pod))
    sample.values["decode_pod"] = meter.stop(1).cpu / (lists * 10)
    return sample


class OpsdkRequests:
    """Single requests with typed objects."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._namespace = options["namespace"]

    async def connect(self) -> None:
        """Load the kubeconfig."""
        self._cluster = Cluster(load_config(kubeconfig=self._options["kubeconfig"]))
        self._client = self._cluster.uncached

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.aclose()

    async def create(self, number: int) -> None:
        """Create a ConfigMap."""
        tree = config_map(self._namespace, number)
        meta = tree["metadata"]
        metadata = ObjectMeta(name=meta["name"], namespace=meta["namespace"], labels=meta["labels"])
        await self._client.create(ConfigMap(metadata=metadata, data=tree["data"]))

    async def get(self, name: str) -> None:
        """Read a ConfigMap."""
        await self._client.get(ConfigMap, name, namespace=self._namespace)

    async def patch(self, name: str, value: str) -> None:
        """Merge-patch a ConfigMap."""
        obj = ConfigMap(metadata=ObjectMeta(name=name, namespace=self._namespace))
        await self._client.patch(obj, merge_patch({"data": {"value": value}}))


async def requests_workload(options: Options) -> Sample:
    """Send requests of one verb."""
    return await run_requests(OpsdkRequests(options), options)


def children_of(widget: Widget) -> list[ConfigMap]:
    """Return the five desired children."""
    data = {"value": str(widget.spec.value), "text": "x" * 200}
    return [ConfigMap(metadata=ObjectMeta(name=f"{widget.metadata.name}-{n}"), data=data) for n in range(5)]


def noop_workload(options: Options) -> None:
    """Reconcile one object again and again while its five children are as desired."""
    operator = operator_of(options)
    requests = RequestCounter()
    meter: Meter | None = None
    runs = before = 0

    @operator.reconciler(Widget, owns=[ConfigMap])
    async def reconcile(widget: Widget, ctx: Context) -> Result:
        nonlocal meter, runs, before
        await ctx.apply_all(children_of(widget), prune=[ConfigMap])
        runs += 1
        if runs == options["warm_up"]:
            meter, before = Meter(), requests.count
        elif meter is not None and runs == options["warm_up"] + options["count"]:
            sample = meter.stop(options["count"])
            sample.values["requests"] = requests.count - before
            send_sample(sample, options)
            stop_operator()
            return Result()
        return Result(requeue_after=1e-6)

    operator.run(kubeconfig=options["kubeconfig"], log_level=logging.WARNING, hooks=[requests])


async def queue_workload(options: Options) -> Sample:
    """Add, get and finish items, in batches."""
    queue: WorkQueue[Request] = WorkQueue()
    items = [Request("default", name_of(number)) for number in range(options["batch"])]
    meter = Meter()
    for _ in range(options["count"] // options["batch"]):
        for item in items:
            queue.add(item)
        for _ in items:
            handed = await queue.get()
            queue.forget(handed.item)
            queue.done(handed.item)
    return meter.stop(options["count"])


if __name__ == "__main__":
    run_client(
        {
            "reconcile": reconcile_workload,
            "follow": follow_workload,
            "sync": sync_workload,
            "reads": reads_workload,
            "requests": requests_workload,
            "noop": noop_workload,
            "queue": queue_workload,
        }
    )
