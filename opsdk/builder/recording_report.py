"""The debug page and the metrics of the flight recorder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from opsdk.errors import BadRequestError, OpsdkError
from opsdk.manager.manager import Manager
from opsdk.recording.process import ProcessRecording
from opsdk.recording.status import RecordingCollector
from opsdk.telemetry.records import Reconciled, TelemetryHook
from opsdk.telemetry.records import Record as TelemetryRecord


class PanicHook(TelemetryHook):
    """Saves a recording when a reconcile raises an unexpected exception.

    Args:
        recording: of the operator.
    """

    def __init__(self, recording: ProcessRecording) -> None:
        self._recording = recording

    def record(self, record: TelemetryRecord) -> None:
        """See `TelemetryHook`."""
        if isinstance(record, Reconciled) and record.error is not None and not isinstance(record.error, OpsdkError):
            self._recording.note_panic(f"a reconcile of {record.controller} raised {record.error!r}")


def add_recording_report(manager: Manager, recorded: ProcessRecording) -> None:
    """Add the page ``recording``, its action and the metrics of a recorded operator.

    Args:
        manager: of the operator.
        recorded: its recording.
    """
    status = recorded.status

    def save(arguments: Mapping[str, str]) -> Mapping[str, object]:
        if arguments:
            raise BadRequestError("write {}: the action has no arguments")
        recorded.save("POST /debug/recording")
        return {"outcome": f"the recording is saved in {status().directory} within a second"}

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
    manager.debug.add_action("recording", save)
    manager.metrics.add_collector(lambda: RecordingCollector(status))
