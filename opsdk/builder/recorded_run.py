"""Runs an operator with the flight recorder: its recording, debug page and metrics. Imported for such a run only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from opsdk.builder.options import OperatorOptions
from opsdk.builder.program import Prepare, ProgramRun
from opsdk.errors import BadRequestError, OpsdkError
from opsdk.manager.manager import Manager
from opsdk.manager.process import run_program
from opsdk.recording.loop import RecordingLoop
from opsdk.recording.options import RecordingMode
from opsdk.recording.process import ProcessRecording, RecordedProgram
from opsdk.recording.recorder import ExchangeRecorder
from opsdk.recording.records import Record
from opsdk.recording.status import RecordingCollector, RecordingStatus
from opsdk.rest.config import RestConfig
from opsdk.telemetry.records import Reconciled, TelemetryHook
from opsdk.telemetry.records import Record as TelemetryRecord

__all__ = ["PanicHook", "RecordedRun", "add_recording_report"]


class RecordedRun(ProgramRun):
    """The process of an operator whose run is recorded.

    Args:
        options: of the operator.
        prepare: see `Prepare`.
        program: what the recording says about this process.
        checkpoint: returns the state of the operator for its recording; None if it works.
    """

    def __init__(
        self,
        options: OperatorOptions,
        prepare: Prepare,
        *,
        program: RecordedProgram,
        checkpoint: Callable[[ExchangeRecorder], Iterable[Record] | None],
    ) -> None:
        super().__init__(options, prepare)
        self._recording = ProcessRecording(options.recording, program, checkpoint)

    def _run(self, config: RestConfig) -> None:
        run_program(self._recording.record(self._main(config), config), loop_factory=RecordingLoop)

    def _hooks(self) -> Sequence[TelemetryHook]:
        on_panic = self._options.recording.mode is RecordingMode.ON_PANIC
        return [PanicHook(self._recording)] if on_panic else []

    def _extend(self, manager: Manager) -> None:
        add_recording_report(manager, self._recording.status, save=self._recording.save)

    def _stop(self, manager: Manager) -> None:
        self._recording.request_stop(manager.stop)


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


def add_recording_report(
    manager: Manager, status: Callable[[], RecordingStatus], *, save: Callable[[str], None]
) -> None:
    """Add the page ``recording``, its action and the metrics of a recorded operator.

    Args:
        manager: of the operator.
        status: returns the state of the recording.
        save: writes what is in memory into the directory; its argument is the reason.
    """

    def act(arguments: Mapping[str, str]) -> Mapping[str, object]:
        if arguments:
            raise BadRequestError("write {}: the action has no arguments")
        save("POST /debug/recording")
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
    manager.debug.add_action("recording", act)
    manager.metrics.add_collector(lambda: RecordingCollector(status))
