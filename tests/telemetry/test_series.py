"""Counters and histograms in plain numbers, beside those of prometheus_client."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from opsdk.telemetry.series import Counters, Gauges, Histograms, HistogramSeries, LoopHistogramSeries

BUCKETS = (0.1, 1.0, 2.5)
labels = st.sampled_from(["a", "b", 'c"\n'])
values = st.sampled_from([0.0, 0.1, 1.0, 2.5, 3.0]) | st.floats(0, 10)


def page(registry: CollectorRegistry) -> list[str]:
    """The lines of the page, without those of creation times, which opsdk does not show."""
    lines = generate_latest(registry).decode().split("\n")
    return sorted(line for line in lines if "_created" not in line)


@given(st.lists(st.tuples(labels, values)), st.sampled_from([HistogramSeries, LoopHistogramSeries]))
def test_the_page_equals_that_of_the_prometheus_library(
    events: list[tuple[str, float]], form: type[HistogramSeries]
) -> None:
    """The page equals that of prometheus_client for any values."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counters = Counters("jobs", "Jobs.", ["kind"])
    histograms = Histograms("seconds", "Time.", ["kind"], buckets=BUCKETS, form=form)
    gauges = Gauges("jobs_left", "Jobs to do.", ["kind"])
    for series in (counters, histograms, gauges):
        ours.register(series)
    counter = Counter("jobs", "Jobs.", ["kind"], registry=theirs)
    histogram = Histogram("seconds", "Time.", ["kind"], buckets=BUCKETS, registry=theirs)
    gauge = Gauge("jobs_left", "Jobs to do.", ["kind"], registry=theirs)
    for label, value in events:
        gauges.set(value, label)
        gauge.labels(label).set(value)
        counters.inc(label, by=value)
        counter.labels(label).inc(value)
        histograms.observe(value, label)
        histogram.labels(label).observe(value)
    assert page(ours) == page(theirs)


def test_a_series_is_shown_before_its_first_value() -> None:
    """Series are shown before their first value, because rates need a first point."""
    registry = CollectorRegistry()
    counters = Counters("jobs", "Jobs.", ["kind"])
    histograms = Histograms("seconds", "Time.", ["kind"], buckets=BUCKETS)
    registry.register(counters)
    registry.register(histograms)
    counters.inc("a", by=0)
    histograms.series("a")
    lines = page(registry)
    assert 'jobs_total{kind="a"} 0.0' in lines
    assert 'seconds_count{kind="a"} 0.0' in lines


def test_threads_lose_no_count() -> None:
    """The thread of an election counts its requests beside the event loop."""
    registry = CollectorRegistry()
    counters = Counters("jobs", "Jobs.")
    histograms = Histograms("seconds", "Time.", buckets=BUCKETS)
    registry.register(counters)
    registry.register(histograms)

    def count() -> None:
        for _ in range(5000):
            counters.inc()
            histograms.observe(0.5)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "jobs_total 20000.0" in page(registry)
    assert "seconds_count 20000.0" in page(registry)
