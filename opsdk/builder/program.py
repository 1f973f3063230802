"""Runs an operator as a program: event loop, signals, watchdog, flight recorder, and the end of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Final

from opsdk.aio.garbage import tune_garbage_collector
from opsdk.builder.options import OperatorOptions
from opsdk.builder.prepared import PreparedOperator
from opsdk.builder.recording_report import PanicHook, add_recording_report
from opsdk.manager.process import ExitGuard, run_program
from opsdk.manager.signals import stop_on_signals
from opsdk.recording.loop import RecordingLoop
from opsdk.recording.options import RecordingMode
from opsdk.recording.process import ProcessRecording, RecordedProgram
from opsdk.recording.recorder import ExchangeRecorder
from opsdk.recording.records import Record
from opsdk.rest.config import RestConfig
from opsdk.telemetry.records import TelemetryHook

__all__ = ["ProgramRun"]

_EXIT_GRACE: Final = 15.0
"""Seconds after the shutdown timeout when the process exits; longer than the manager's grace periods."""


class ProgramRun:
    """The process of an operator.

    Args:
        options: of the operator.
        prepare: builds the operator, in the event loop.
        checkpoint: returns the state of the operator for its recording; None if it works.
    """

    def __init__(
        self,
        options: OperatorOptions,
        *,
        prepare: Callable[[], PreparedOperator],
        checkpoint: Callable[[ExchangeRecorder], Iterable[Record] | None],
    ) -> None:
        self._options = options
        self._prepare, self._checkpoint = prepare, checkpoint
        timeout = options.manager.shutdown_timeout
        self._guard = ExitGuard(None if timeout is None else timeout + _EXIT_GRACE)
        self._recording: ProcessRecording | None = None

    def run(self, config: RestConfig, program: RecordedProgram) -> None:
        """Run until SIGTERM or SIGINT, or until something fails.

        Args:
            config: of the API server.
            program: what a recording says about this process.
        """
        try:
            if self._options.recording.directory:
                self._recording = ProcessRecording(self._options.recording, program, self._checkpoint)
                run_program(self._recording.record(self._main(), config), loop_factory=RecordingLoop)
            else:
                run_program(self._main())
        finally:
            self._guard.disarm()

    @property
    def hooks(self) -> Sequence[TelemetryHook]:
        """What the operator's telemetry has to tell the recording."""
        if self._recording is None or self._options.recording.mode is not RecordingMode.ON_PANIC:
            return []
        return [PanicHook(self._recording)]

    async def _main(self) -> None:
        prepared = self._prepare()
        manager = prepared.manager
        if self._recording is not None:
            add_recording_report(manager, self._recording.status, save=self._recording.save)

        def stop() -> None:
            if self._recording is not None:
                self._recording.request_stop(manager.stop)
            else:
                manager.stop()

        manager.on_stop(self._guard.arm)
        tune_garbage_collector()
        async with prepared.watchdog if self._options.watchdog_limit > 0 else nullcontext():
            with stop_on_signals(stop, on_signal=self._guard.arm):
                await prepared.start()

    def __repr__(self) -> str:
        return f"<ProgramRun, {'recorded' if self._options.recording.directory else 'not recorded'}>"
