"""OpenTelemetry metrics are the Prometheus metrics: the same names, labels and values, from one count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.parser import text_string_to_metric_families

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: pip install opsdk[dev]")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from opsdk.cache.health import InformerHealth, InformerState
from opsdk.cache.metrics import InformerCollector
from opsdk.manager.manager import Manager
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.otel import OpenTelemetryHook
from opsdk.telemetry.prometheus import PrometheusHook
from opsdk.telemetry.records import (
    DaemonChanged,
    Hooks,
    Leadership,
    Reconciled,
    ReconcileOutcome,
    Requested,
    TelemetryHook,
    Workers,
)

Point = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a metric and the labels of a series."""


def exported() -> tuple[PrometheusHook, InMemoryMetricReader, OpenTelemetryHook]:
    """Prometheus metrics that are exported to a reader in memory."""
    metrics, reader = PrometheusHook(CollectorRegistry(), now=lambda: 100.0), InMemoryMetricReader()
    hook = OpenTelemetryHook(meter_provider=MeterProvider([reader]))
    return metrics, reader, hook


def collected(reader: InMemoryMetricReader) -> Mapping[Point, Any]:
    """The data points of one collection."""
    data = reader.get_metrics_data()
    return {
        (metric.name, tuple(sorted(dict(point.attributes or {}).items()))): point
        for resource in (data.resource_metrics if data is not None else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }  # type: ignore[misc]


def record_everything(hook: TelemetryHook) -> None:
    """Records of some kinds, twice."""
    queue: WorkQueue[str] = WorkQueue("website")
    queues = hook.queue_hooks("website", queue.core)
    hook.record(Workers(controller="website", limit=3, queue=queue.core))
    for seconds in (0.1, 7.0):
        queues.added()
        queues.taken(seconds)
        queues.finished(seconds)
        hook.record(Reconciled(controller="website", result=ReconcileOutcome.SUCCESS, seconds=seconds))
        hook.record(Requested(method="GET", host="a", status=200, seconds=seconds, received_bytes=3))
        hook.record(Leadership(name="lease", leading=seconds > 1))
        hook.record(DaemonChanged(controller="website", daemon="d", event="failed", running=1))


@pytest.mark.parametrize("late", [False, True])
def test_every_sample_is_a_data_point(*, late: bool) -> None:
    """Counters, gauges and histograms have the values of the page, also if they are exported late."""
    metrics, reader, hook = exported()
    if late:
        metrics.queue_hooks("website", WorkQueue[str]("website").core)
    hook.export_metrics(metrics)
    record_everything(Hooks([metrics, hook]))
    points = collected(reader)
    compared = 0
    for family in text_string_to_metric_families(metrics.expose().decode()):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "le"}
            point = points.get((family.name, tuple(sorted(labels.items()))))
            if family.type == "histogram":
                if sample.name.endswith("_count") and sample.value:
                    assert isinstance(point, HistogramDataPoint)
                    assert point.count == sample.value
                elif sample.name.endswith("_sum") and sample.value:
                    assert isinstance(point, HistogramDataPoint)
                    assert point.sum == pytest.approx(sample.value)
                continue
            assert point is not None, sample
            assert point.value == sample.value
            compared += 1
    assert compared >= 30


def test_histograms_have_the_buckets_of_prometheus() -> None:
    """The boundaries are advice for the SDK, which takes them."""
    metrics, reader, hook = exported()
    hook.export_metrics(metrics)
    metrics.record(Reconciled(controller="website", result=ReconcileOutcome.SUCCESS, seconds=0.1))
    point = collected(reader)["controller_runtime_reconcile_time_seconds", (("controller", "website"),)]
    assert isinstance(point, HistogramDataPoint)
    assert point.explicit_bounds[:3] == (0.005, 0.01, 0.025)
    assert point.bucket_counts[point.explicit_bounds.index(0.1)] == 1


def test_metrics_of_informers_and_of_the_program_are_exported() -> None:
    """Collectors, summaries and a program's counters; a program's histogram and a name with a colon are left out."""
    metrics, reader, hook = exported()
    health = InformerHealth(
        name="pods", state=InformerState.CURRENT, seconds_since_contact=2.0, seconds_without_watch=0.0, last_error=None,
        failing_functions=(), function_failures=0, objects=7, own_writes_seen=2, own_write_delay=0.5,
    )  # fmt: skip
    metrics.registry.register(InformerCollector(lambda: [health]))
    orders = Counter("shop_orders", "Orders.", ["region"], registry=metrics.registry)
    Histogram("shop_seconds", "Time.", registry=metrics.registry).observe(1)
    Counter("shop:rule", "Recorded.", registry=metrics.registry)
    hook.export_metrics(metrics)
    for expected in (1, 2):
        orders.labels("eu").inc()
        points = collected(reader)
        assert points["shop_orders", (("region", "eu"),)].value == expected
    pods = (("informer", "pods"),)
    assert points["opsdk_informer_objects", pods].value == 7
    assert points["opsdk_informer_own_write_delay_seconds_count", pods].value == 2
    assert points["opsdk_informer_own_write_delay_seconds_sum", pods].value == 0.5
    assert not any(name.startswith(("shop_seconds", "shop:")) for name, _ in points)


async def test_a_manager_exports_its_metrics() -> None:
    """Readers collect in any thread; the values are read on the event loop."""
    reader = InMemoryMetricReader()
    manager = Manager(hooks=[OpenTelemetryHook(meter_provider=MeterProvider([reader]))])
    running = asyncio.create_task(manager.start())
    await manager.wait_ready()
    manager.hook.record(Leadership(name="lease", leading=True))
    lease = ("leader_election_master_status", (("name", "lease"),))
    assert collected(reader)[lease].value == 1
    with ThreadPoolExecutor(1) as threads:
        points = await asyncio.get_running_loop().run_in_executor(threads, collected, reader)
    assert points[lease].value == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert collected(reader)[lease].value == 1


def test_without_a_meter_provider_nothing_is_exported() -> None:
    """Tracing alone costs no metric."""
    metrics = PrometheusHook(CollectorRegistry())
    OpenTelemetryHook().export_metrics(metrics)
    seconds = next(each for each in metrics.histograms() if each.name == "controller_runtime_reconcile_time_seconds")
    assert seconds.series("website").forward is None
