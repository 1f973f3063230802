"""Prometheus metrics of informers, computed from their health when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from opsdk.cache.health import InformerHealth


class InformerCollector(Collector):
    """Collects the health of informers.

    Args:
        health: returns the health of every informer.
    """

    def __init__(self, health: Callable[[], Iterable[InformerHealth]]) -> None:
        self._health = health

    def collect(self) -> Iterator[Metric]:
        """Yield one sample of each metric for each informer."""
        ready = GaugeMetricFamily("opsdk_informer_ready", "1 while reads are current.", labels=["informer"])
        objects = GaugeMetricFamily("opsdk_informer_objects", "Objects in the store.", labels=["informer"])
        gap = GaugeMetricFamily(
            "opsdk_informer_seconds_without_watch", "Seconds since the watch was lost.", labels=["informer"]
        )
        contact = GaugeMetricFamily(
            "opsdk_informer_seconds_since_contact",
            "Seconds since a list, event or bookmark.",
            labels=["informer"],
        )
        failures = CounterMetricFamily(
            "opsdk_informer_function_failures", "Failures of index and transform functions.", labels=["informer"]
        )
        for health in self._health():
            labels = [health.name]
            ready.add_metric(labels, float(health.ready))
            objects.add_metric(labels, health.objects)
            gap.add_metric(labels, health.seconds_without_watch)
            failures.add_metric(labels, health.function_failures)
            if health.seconds_since_contact is not None:
                contact.add_metric(labels, health.seconds_since_contact)
        yield from (ready, objects, gap, contact, failures)
