"""What becomes of a recording while its operator runs, and its Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

__all__ = ["RecordingCollector", "RecordingStatus"]

_PREFIX = "opsdk_recording"


class RecordingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a recording.

    Attributes:
        directory: of the files.
        since: when it began, in seconds since 1970.
        size: of all files in the directory, in bytes.
        skipped: number of records that were not written, because the disk was too slow. A replay ends there.
        problem: why nothing is recorded any more; empty if it is.
    """

    directory: str
    since: float
    size: int = 0
    skipped: int = 0
    problem: str = ""


class RecordingCollector(Collector):
    """Collects the state of a recording.

    Args:
        status: returns it.
    """

    def __init__(self, status: Callable[[], RecordingStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield one sample of each metric."""
        status = self._status()
        yield GaugeMetricFamily(
            f"{_PREFIX}_active", "1 while the operator is recorded, 0 after a failure.", value=float(not status.problem)
        )
        yield GaugeMetricFamily(f"{_PREFIX}_bytes", "Bytes of all files of recordings.", value=status.size)
        yield CounterMetricFamily(
            f"{_PREFIX}_skipped_records", "Records that the disk was too slow for.", value=status.skipped
        )
