"""The last state of every controller's queue and workers, from telemetry records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from opsdk.telemetry.describe import describe
from opsdk.telemetry.records import Queued, QueueView, Reconciled, Record, TelemetryHook, Workers


class _ControllerState(msgspec.Struct):
    queue: QueueView | None = None
    events: Counter[str] = msgspec.field(default_factory=Counter)
    results: Counter[str] = msgspec.field(default_factory=Counter)
    limit: int = 0
    last_error: str = ""
    last_error_at: float = 0.0


class QueueMonitor(TelemetryHook):
    """Keeps the queues of `Queued` and `Workers` records, and counts of reconciles, for each controller.

    Args:
        now: the clock of the work queues, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._controllers: dict[str, _ControllerState] = {}

    def record(self, record: Record) -> None:
        """Keep the state of one controller."""
        if not isinstance(record, Queued | Workers | Reconciled):
            return
        state = self._controllers.setdefault(record.controller, _ControllerState())
        match record:
            case Queued():
                state.events[record.event] += 1
                state.queue = record.queue
            case Workers():
                state.limit, state.queue = record.limit, record.queue
            case Reconciled():
                state.results[record.result.value] += 1
                if record.error is not None:
                    state.last_error, state.last_error_at = describe(record.error)[0], self._now()

    def states(self) -> list[dict[str, object]]:
        """Return the state of each controller as JSON, ordered by name. Durations are in seconds."""
        now, states = self._now(), []
        for name, state in sorted(self._controllers.items()):
            ready = state.queue.depth() if state.queue is not None else {}
            started = state.queue.processing().values() if state.queue is not None else ()
            states.append(
                {
                    "controller": name,
                    "ready": sum(ready.values()),
                    "ready_by_priority": {str(priority): count for priority, count in sorted(ready.items())},
                    "in_progress_seconds": sorted((now - began for began in started), reverse=True),
                    "workers": {"active": len(started), "limit": state.limit},
                    "added": state.events["added"],
                    "retried": state.events["retried"],
                    "reconciles": {result: state.results[result] for result in sorted(state.results)},
                    "last_error": state.last_error,
                    "seconds_since_last_error": now - state.last_error_at if state.last_error else None,
                }
            )
        return states

    def __repr__(self) -> str:
        return f"<QueueMonitor of {len(self._controllers)} controllers>"
