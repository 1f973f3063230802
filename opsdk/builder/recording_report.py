"""The debug page and the metrics of the flight recorder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from opsdk.manager.manager import Manager
from opsdk.recording.status import RecordingCollector, RecordingStatus


def add_recording_report(manager: Manager, status: Callable[[], RecordingStatus]) -> None:
    """Add the page ``recording`` and the metrics of a recorded operator.

    Args:
        manager: of the operator.
        status: returns the state of the recording.
    """

    def recording() -> Mapping[str, object]:
        now = status()
        return {
            "directory": now.directory,
            "began": datetime.fromtimestamp(now.since, UTC).isoformat(timespec="seconds"),
            "seconds": round(max(time.time() - now.since, 0.0), 1),
            "size": now.size,
            "skipped": now.skipped,
            "problem": now.problem,
        }

    manager.debug.add("recording", recording, description="the flight recorder: directory, size, what it skipped")
    manager.metrics.add_collector(lambda: RecordingCollector(status))
