"""Logs each reconcile that runs for long, once: it occupies a worker."""

from __future__ import annotations

import asyncio
from typing import Any

from opsdk.aio.clock import monotonic
from opsdk.controller.options import ControllerOptions
from opsdk.queue.core import QueueCore
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds after which a running reconcile is mentioned in the log.
_SLOW_RECONCILE = 60.0


class SlowReconciles:
    """One timer for all reconciles of a controller: most of them end long before it.

    Args:
        controller: its name, for the log.
        options: of the controller; the line names its limits.
        queue: has the running reconciles and their start times.

    Attributes:
        timer: None if none is set: the next reconcile calls `begin`.
    """

    def __init__(self, controller: str, options: ControllerOptions, queue: QueueCore[Any]) -> None:
        self._controller = controller
        self._options = options
        self._queue = queue
        self.timer: asyncio.TimerHandle | None = None
        self._reported: set[tuple[Any, float]] = set()

    def begin(self) -> None:
        """A reconcile begins while no timer is set: set it."""
        self.timer = asyncio.get_running_loop().call_later(_SLOW_RECONCILE, self._report)

    def close(self) -> None:
        """Remove the timer. Idempotent."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _report(self) -> None:
        self.timer = None
        now, processing = monotonic(), self._queue.processing()
        self._reported &= processing.items()
        for item, started in processing.items() - self._reported:
            # The sum, as in the timer below: by rounding, `now - started` may be less than the limit when the timer is
            # due. In virtual time it would then be due forever.
            if started + _SLOW_RECONCILE > now:
                continue
            self._reported.add((item, started))
            log.warning(
                "controller %s: the reconcile of %s has been running for %.0f s and occupies a worker "
                "(max_concurrent_reconciles=%d, reconciliation_timeout=%g)",
                self._controller,
                item,
                now - started,
                self._options.max_concurrent_reconciles,
                self._options.reconciliation_timeout,
            )
        if waiting := processing.items() - self._reported:
            next_at = min(started for _, started in waiting) + _SLOW_RECONCILE
            self.timer = asyncio.get_running_loop().call_later(next_at - now, self._report)
