"""Runs an operator as a program: event loop, signals, watchdog, and the end of the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Final

from opsdk.aio.garbage import tune_garbage_collector
from opsdk.builder.options import OperatorOptions
from opsdk.builder.prepared import PreparedOperator
from opsdk.manager.manager import Manager
from opsdk.manager.process import ExitGuard, run_program
from opsdk.manager.signals import stop_on_signals
from opsdk.rest.config import RestConfig
from opsdk.telemetry.records import TelemetryHook

__all__ = ["Prepare", "ProgramRun"]

_EXIT_GRACE: Final = 15.0
"""Seconds after the shutdown timeout when the process exits; longer than the manager's grace periods."""

Prepare = Callable[[RestConfig, Sequence[TelemetryHook]], PreparedOperator]
"""Builds the operator, in the event loop, with hooks of the run."""


class ProgramRun:
    """The process of an operator.

    Args:
        options: of the operator.
        prepare: see `Prepare`.
    """

    def __init__(self, options: OperatorOptions, prepare: Prepare) -> None:
        self._options = options
        self._prepare = prepare
        timeout = options.manager.shutdown_timeout
        self._guard = ExitGuard(None if timeout is None else timeout + _EXIT_GRACE)

    def run(self, config: RestConfig) -> None:
        """Run until SIGTERM or SIGINT, or until something fails.

        Args:
            config: of the API server.
        """
        try:
            self._run(config)
        finally:
            self._guard.disarm()

    def _run(self, config: RestConfig) -> None:
        run_program(self._main(config))

    def _hooks(self) -> Sequence[TelemetryHook]:
        return ()

    def _extend(self, manager: Manager) -> None:
        """Add what this form of a run has to the manager, before it starts."""

    def _stop(self, manager: Manager) -> None:
        manager.stop()

    async def _main(self, config: RestConfig) -> None:
        prepared = self._prepare(config, self._hooks())
        manager = prepared.manager
        self._extend(manager)
        manager.on_stop(self._guard.arm)
        tune_garbage_collector()
        async with prepared.watchdog if self._options.watchdog_limit > 0 else nullcontext():
            with stop_on_signals(lambda: self._stop(manager), on_signal=self._guard.arm):
                await prepared.start()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
