"""The metrics of a `PrometheusHook` as OpenTelemetry instruments. Needs the extra ``opsdk[otel]``.

No value is counted twice: counters and gauges are observable instruments, which read the Prometheus series when a
reader collects. Only histograms record each value in both, since OpenTelemetry has no observable histogram.

Upstream: opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics (v1.50)
Deviates: a summary is two counters, and histograms of a program's own registry are left out.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Final

from prometheus_client import Metric

from opsdk.base.extras import RequiredExtra
from opsdk.telemetry.prometheus import PrometheusHook
from opsdk.telemetry.safe_logger import SafeLogger
from opsdk.telemetry.series import Histograms

with RequiredExtra("otel", "OpenTelemetry metrics"):
    from opentelemetry import metrics

log = SafeLogger(__name__)

# Seconds that a reader's thread waits for the event loop.
_TIMEOUT: Final = 5.0
# The instruments of a family by its type: the endings of their names and of the samples that they read.
_ENDINGS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "counter": (("", "_total"),),
    "gauge": (("", ""),),
    "summary": (("_count", "_count"), ("_sum", "_sum")),
}
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,200}")

Samples = Mapping[str, list[metrics.Observation]]
"""The observations of one collection by the name of the Prometheus sample."""


class OpenTelemetryMetrics:
    """Instruments for all metrics of one `PrometheusHook`. Collections run on the event loop, from any thread.

    Args:
        meter: creates the instruments.
        source: counts the records.
        loop: the event loop that changes what gauges read; None to read in the thread of the reader.
    """

    def __init__(
        self, meter: metrics.Meter, source: PrometheusHook, *, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._meter = meter
        self._source = source
        self._loop = loop
        self._samples: Samples = {}
        self._served: set[str] = set()
        for histograms in source.histograms():
            self._forward(histograms)
        # Every collector yields its metrics even without samples, so their names are known now. Metrics that a program
        # registers later are not exported.
        for family in source.collect():
            self._observe(family)

    def _forward(self, histograms: Histograms) -> None:
        """Record each value of a histogram in an instrument with the same buckets, too."""
        instrument = self._meter.create_histogram(
            histograms.name,
            description=histograms.documentation,
            explicit_bucket_boundaries_advisory=histograms.bounds,
        )

        def recorder(labels: Mapping[str, str]) -> Callable[[float], None]:
            return functools.partial(_record, instrument, dict(labels))

        histograms.forward(recorder)

    def _observe(self, family: Metric) -> None:
        """Create the observable instruments of a counter, a gauge or a summary."""
        if _NAME.fullmatch(family.name) is None:
            log.warning("OpenTelemetry has no metric with the name %s, so it is not exported", family.name)
            return
        for ending, sample_ending in _ENDINGS.get(family.type, ()):
            create = (
                self._meter.create_observable_gauge if family.type == "gauge" else self._meter.create_observable_counter
            )
            callback = functools.partial(self._observations, f"{family.name}{sample_ending}")
            create(f"{family.name}{ending}", callbacks=[callback], description=family.documentation)

    def _observations(self, name: str, _: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        """Return the observations of one instrument. The first callback of a collection reads the values of all."""
        if not self._served or name in self._served:
            self._samples, self._served = self._collect(), set()
        self._served.add(name)
        return self._samples.get(name, [])

    def _collect(self) -> Samples:
        """Read all samples on the event loop. If it does not respond in time, there are none."""
        loop = self._loop
        if loop is None or not loop.is_running() or _is_current(loop):
            return self._read()
        samples: Future[Samples] = Future()

        def read() -> None:
            try:
                samples.set_result(self._read())
            except Exception as error:  # noqa: BLE001 - raised in the thread of the reader
                samples.set_exception(error)

        loop.call_soon_threadsafe(read)
        try:
            return samples.result(_TIMEOUT)
        except TimeoutError:
            log.warning("OpenTelemetry metrics: the event loop did not respond for %g s", _TIMEOUT)
            return {}

    def _read(self) -> Samples:
        observations: dict[str, list[metrics.Observation]] = {}
        for name, value, labels in _samples_of(self._source.collect()):
            observations.setdefault(name, []).append(metrics.Observation(value, labels))
        return observations

    def __repr__(self) -> str:
        return f"<OpenTelemetryMetrics of {self._source!r}>"


def _record(instrument: metrics.Histogram, labels: dict[str, str], value: float) -> None:
    try:
        instrument.record(value, labels)
    except Exception:
        log.exception("an OpenTelemetry histogram failed")


def _samples_of(families: Iterable[Metric]) -> Iterator[tuple[str, float, dict[str, str]]]:
    for family in families:
        if family.type in _ENDINGS:
            for sample in family.samples:
                yield sample.name, sample.value, dict(sample.labels)


def _is_current(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
