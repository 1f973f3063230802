"""What becomes of a recording while its operator runs, and its Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from opsdk.telemetry.series import Counters, Gauges

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

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


class RecordingCollector:
    """Collects the state of a recording.

    Args:
        status: returns it.
    """

    def __init__(self, status: Callable[[], RecordingStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield one sample of each metric."""
        status = self._status()
        active = Gauges(f"{_PREFIX}_active", "1 while the operator is recorded, 0 after a failure.")
        active.set(not status.problem)
        size = Gauges(f"{_PREFIX}_bytes", "Bytes of all files of recordings.")
        size.set(status.size)
        skipped = Counters(f"{_PREFIX}_skipped_records", "Records that the disk was too slow for.")
        skipped.inc(by=status.skipped)
        for metric in (active, size, skipped):
            yield from metric.collect()
