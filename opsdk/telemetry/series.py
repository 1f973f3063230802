"""Counters, gauges and histograms that each request and each reconcile update.

They have the methods of a collector of `prometheus_client`, which writes the page. Its own `Counter` and `Histogram`
look each series up by its labels under a lock, and search buckets one by one: a reconcile with one write took 6 % of
its time there. Only a page needs the library, which takes as long to import as a tenth of opsdk.

Upstream: none.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

HistogramRecorder = Callable[[Mapping[str, str]], Callable[[float], None]]
"""Returns the function that gets the values of the series with these labels."""


class NumberSeries:
    """One number of a counter or gauge. For any thread.

    Attributes:
        value: the number now.
    """

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self._lock = threading.Lock()

    def inc(self, by: float = 1.0) -> None:
        """Add `by`."""
        with self._lock:
            self.value += by


class _Values:
    """One number for each combination of labels. For any thread."""

    _counts: ClassVar[bool]

    def __init__(self, name: str, documentation: str, labels: Sequence[str] = ()) -> None:
        self._name, self._documentation, self._labels = name, documentation, tuple(labels)
        self._series: dict[tuple[str, ...], NumberSeries] = {}

    def series(self, *labels: str) -> NumberSeries:
        """Return the series with these label values. The first call creates it, so it is shown with zero."""
        series = self._series.get(labels)
        # `setdefault` is atomic: two threads get the same series.
        return series if series is not None else self._series.setdefault(labels, NumberSeries())

    def collect(self) -> Iterator[Metric]:
        """Yield the metric."""
        from prometheus_client.metrics_core import (
            CounterMetricFamily,
            GaugeMetricFamily,
        )

        form = CounterMetricFamily if self._counts else GaugeMetricFamily
        family = form(self._name, self._documentation, labels=self._labels)
        for labels, series in tuple(self._series.items()):
            family.add_metric(labels, series.value)
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

    _counts = True

    def inc(self, *labels: str, by: float = 1.0) -> None:
        """Add `by` to the series with these label values. Zero creates the series."""
        self.series(*labels).inc(by)


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

    _counts = False

    def set(self, value: float, *labels: str) -> None:
        """Set the series with these label values."""
        self.series(*labels).value = float(value)


class HistogramSeries:
    """One histogram: the number of values in each bucket, and their sum. For any thread.

    Attributes:
        forward: gets each value, too; None for nobody.
    """

    __slots__ = ("_bounds", "_counts", "_lock", "_total", "forward")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)  # the last one counts what is above all bounds
        self._total = 0.0
        self._lock = threading.Lock()
        self.forward: Callable[[float], None] | None = None

    def observe(self, value: float) -> None:
        """Count a value. One that equals a bound is below it."""
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._total += value
        if self.forward is not None:
            self.forward(value)

    def read(self) -> tuple[list[int], float]:
        """Return the count of each bucket, and the sum."""
        with self._lock:
            return list(self._counts), self._total


class LoopHistogramSeries(HistogramSeries):
    """A histogram of one thread. A value is counted in a third of the time, without a lock."""

    __slots__ = ()

    def observe(self, value: float) -> None:
        """Count a value. One that equals a bound is below it."""
        # Nearly all latencies are in the first bucket, which needs no search.
        self._counts[0 if value <= self._bounds[0] else bisect_left(self._bounds, value)] += 1
        self._total += value
        if self.forward is not None:
            self.forward(value)


class Histograms:
    """A histogram with one series for each combination of labels. For any thread, unless `form` is of one.

    Args:
        name: of the metric.
        documentation: one sentence.
        labels: names of the labels.
        buckets: upper bounds, ascending, without infinity.
        form: the class of the series.

    Attributes:
        name: see above.
        documentation: see above.
        bounds: the buckets.

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
        form: type[HistogramSeries] = HistogramSeries,
    ) -> None:
        self._form = form
        self.name, self.documentation, self._labels = name, documentation, tuple(labels)
        self.bounds = tuple(buckets)
        self._series: dict[tuple[str, ...], HistogramSeries] = {}
        self._recorder: HistogramRecorder | None = None

    def series(self, *labels: str) -> HistogramSeries:
        """Return the series with these label values. The first call creates it, so it is shown with zeros."""
        series = self._series.get(labels)
        return series if series is not None else self._new_series(labels)

    def _new_series(self, labels: tuple[str, ...]) -> HistogramSeries:
        series = self._series.setdefault(labels, self._form(self.bounds))
        if self._recorder is not None:
            series.forward = self._recorder(dict(zip(self._labels, labels, strict=True)))
        return series

    def forward(self, recorder: HistogramRecorder) -> None:
        """Pass each value from now on to the function that `recorder` returns for the labels of its series.

        The function is called in the thread that counts the value, and must neither block nor raise.
        """
        self._recorder = recorder
        for labels, series in tuple(self._series.items()):
            series.forward = recorder(dict(zip(self._labels, labels, strict=True)))

    def observe(self, value: float, *labels: str) -> None:
        """Count a value in the series with these label values. A value that equals a bound is below it."""
        self.series(*labels).observe(value)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric."""
        from prometheus_client.metrics_core import HistogramMetricFamily
        from prometheus_client.utils import floatToGoString

        family = HistogramMetricFamily(self.name, self.documentation, labels=self._labels)
        names = [floatToGoString(bound) for bound in (*self.bounds, float("inf"))]  # type: ignore[no-untyped-call]
        for labels, series in tuple(self._series.items()):
            counts, total = series.read()
            passed = 0
            buckets = []
            for name, count in zip(names, counts, strict=True):
                passed += count
                buckets.append((name, passed))
            family.add_metric(labels, buckets, total)
        yield family
