"""Latencies of admission and storage under kube-apiserver's names.

Upstream: k8s.io/apiserver/pkg/admission/metrics/metrics.go, pkg/storage/etcd3/metrics/metrics.go (v1.36)
Deviates: plugins that ignore a resource are not called for it, so they have no latency there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from opsdk.telemetry.series import Histograms, HistogramSeries, LoopHistogramSeries

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["REQUEST_SECONDS", "AdmissionMetrics", "StorageMetrics"]

REQUEST_SECONDS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
"""The buckets of requests to the server, and of those of the server to its storage."""
_ADMISSION_SECONDS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_SECONDS: Final = (*_ADMISSION_SECONDS, 10, 25)
_STEP_LABELS: Final = ("type", "operation", "rejected")
_MOST: Final = 10_000
"""Maximum sets of labels: clients choose the names of webhooks and resources. Further ones share an empty name."""


class AdmissionMetrics:
    """The latencies of admission: of a whole step, of each plugin, of each webhook."""

    def __init__(self) -> None:
        prefix, text = "apiserver_admission_", "Seconds of admission, by operation, type (validate or admit)"
        self._steps = Histograms(
            f"{prefix}step_admission_duration_seconds",
            f"{text} and result.",
            _STEP_LABELS,
            buckets=_ADMISSION_SECONDS,
            form=LoopHistogramSeries,
        )
        labels = ("name", *_STEP_LABELS)
        self._plugins = Histograms(
            f"{prefix}controller_admission_duration_seconds",
            f"{text} and plugin.",
            labels,
            buckets=_ADMISSION_SECONDS,
            form=LoopHistogramSeries,
        )
        self._webhooks = Histograms(
            f"{prefix}webhook_admission_duration_seconds",
            f"{text} and webhook.",
            labels,
            buckets=_WEBHOOK_SECONDS,
            form=LoopHistogramSeries,
        )
        self._named = set[str]()

    def __repr__(self) -> str:
        return f"<AdmissionMetrics of {len(self._named)} webhooks>"

    def of_step(self, step: str, operation: str, *, rejected: bool = False) -> Callable[[float], None]:
        """Return what counts the seconds of all plugins. `step` is ``admit`` or ``validate``."""
        return self._steps.series(step, operation, _word(rejected)).observe

    def of_plugin(self, name: str, step: str, operation: str, *, rejected: bool = False) -> Callable[[float], None]:
        """Return what counts the seconds of one plugin."""
        return self._plugins.series(name, step, operation, _word(rejected)).observe

    def observe_webhook(self, seconds: float, name: str, step: str, operation: str, *, rejected: bool) -> None:
        """Count one call of a webhook. `step` is ``admit`` or ``validating``."""
        if name not in self._named:
            if len(self._named) >= _MOST:
                name = ""
            self._named.add(name)
        self._webhooks.observe(seconds, name, step, operation, _word(rejected))

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        for histograms in (self._steps, self._plugins, self._webhooks):
            yield from histograms.collect()


def _word(rejected: bool) -> str:
    return "true" if rejected else "false"


class StorageMetrics:
    """The latencies of a storage's requests.

    Args:
        clock: returns the time in seconds.

    Attributes:
        clock: see above.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._requests = Histograms(
            "etcd_request_duration_seconds",
            "Seconds of requests to the storage, by operation and resource.",
            ("operation", "group", "resource"),
            buckets=REQUEST_SECONDS,
            form=LoopHistogramSeries,
        )
        self._series: dict[tuple[str, str], HistogramSeries] = {}

    def __repr__(self) -> str:
        return f"<StorageMetrics of {len(self._series)} operations>"

    def observe(self, operation: str, bucket: str, began: float) -> None:
        """Count a request that ends now. `bucket` is group and resource: ``apps/deployments``, ``core/pods``."""
        series = self._series.get((operation, bucket))
        if series is None:
            if len(self._series) >= _MOST:
                bucket = ""
            group, _, resource = bucket.partition("/")
            series = self._requests.series(operation, "" if group == "core" else group, resource)
            self._series[operation, bucket] = series
        series.observe(self.clock() - began)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric."""
        return self._requests.collect()
