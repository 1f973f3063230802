"""Counters, gauges and histograms that each request and each reconcile update.

They have the methods of a collector of `prometheus_client`, which writes the page. Its own `Counter` and `Histogram`
look each series up by its labels under a lock, and search buckets one by one: a reconcile with one write took 6 % of
its time there. The library is imported by the first page: it takes longer to import than the client and the cache.

Upstream: none.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from opsdk.loading import on_first_use

with on_first_use:
    from opsdk.telemetry import prometheus_library as library


class _Values(ABC):
    """One number for each combination of labels. For any thread."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str] = ()) -> None:
        self._name, self._documentation, self._labels = name, documentation, tuple(labels)
        self._values: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def _family(self) -> library.CounterMetricFamily | library.GaugeMetricFamily:
        """Return the metric without samples."""

    def collect(self) -> Iterator[library.Metric]:
        """See `prometheus_client.registry.Collector`."""
        family = self._family()
        with self._lock:
            values = list(self._values.items())
        for labels, value in values:
            family.add_metric(labels, value)
        yield family


class Counters(_Values):
    """A counter with one series for each combination of labels. For any thread.

    Args:
        name: without ``_total``.
        documentation: one sentence.
        labels: names of the labels.

    >>> requests = Counters("requests", "Requests.", ["code"])
    >>> requests.inc("200")
    >>> [sample.value for metric in requests.collect() for sample in metric.samples]
    [1.0]
    """

    def inc(self, *labels: str, by: float = 1.0) -> None:
        """Add `by` to the series with these label values. Zero creates the series."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0.0) + by

    def _family(self) -> library.CounterMetricFamily | library.GaugeMetricFamily:
        return library.CounterMetricFamily(self._name, self._documentation, labels=self._labels)


class Gauges(_Values):
    """A gauge with one series for each combination of labels. For any thread.

    Args:
        name: of the metric.
        documentation: one sentence.
        labels: names of the labels.

    >>> depth = Gauges("depth", "Ready items.", ["queue"])
    >>> depth.set(3, "website")
    >>> [sample.value for metric in depth.collect() for sample in metric.samples]
    [3.0]
    """

    def set(self, value: float, *labels: str) -> None:
        """Set the series with these label values."""
        with self._lock:
            self._values[labels] = float(value)

    def _family(self) -> library.CounterMetricFamily | library.GaugeMetricFamily:
        return library.GaugeMetricFamily(self._name, self._documentation, labels=self._labels)


class Histograms:
    """A histogram with one series for each combination of labels. For any thread.

    Args:
        name: of the metric.
        documentation: one sentence.
        labels: names of the labels.
        buckets: upper bounds, ascending, without infinity.

    >>> seconds = Histograms("seconds", "Time.", ["verb"], buckets=(0.1, 1.0))
    >>> seconds.observe(0.1, "get"), seconds.observe(5, "get")
    (None, None)
    >>> {s.labels["le"]: s.value for m in seconds.collect() for s in m.samples if s.name.endswith("bucket")}
    {'0.1': 1, '1.0': 1, '+Inf': 2}
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float],
    ) -> None:
        self._name, self._documentation, self._labels = name, documentation, tuple(labels)
        self._bounds = tuple(buckets)
        # The number of values in each bucket, and above all; then their sum.
        self._series: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}
        self._lock = threading.Lock()

    def create(self, *labels: str) -> None:
        """Create the series with these label values, so that it is shown before the first value."""
        with self._lock:
            self._series.setdefault(labels, ([0] * (len(self._bounds) + 1), [0.0]))

    def observe(self, value: float, *labels: str) -> None:
        """Count a value in the series with these label values. A value that equals a bound is below it."""
        if labels not in self._series:
            self.create(*labels)
        counts, total = self._series[labels]
        with self._lock:
            counts[bisect_left(self._bounds, value)] += 1
            total[0] += value

    def collect(self) -> Iterator[library.Metric]:
        """See `prometheus_client.registry.Collector`."""
        family = library.HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        with self._lock:
            series = [(labels, list(counts), total[0]) for labels, (counts, total) in self._series.items()]
        names = [library.floatToGoString(bound) for bound in (*self._bounds, float("inf"))]  # type: ignore[no-untyped-call]
        for labels, counts, total in series:
            passed = 0
            buckets = []
            for name, count in zip(names, counts, strict=True):
                passed += count
                buckets.append((name, passed))
            family.add_metric(labels, buckets, total)
        yield family
