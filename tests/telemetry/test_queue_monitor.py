"""The last state of queues, from records."""

from __future__ import annotations

from opsdk.errors import ConflictError
from opsdk.queue.core import QueueCore
from opsdk.telemetry.queue_monitor import QueueMonitor
from opsdk.telemetry.records import Leadership, Queued, Reconciled, ReconcileOutcome, Workers


def test_each_controller_has_its_last_state() -> None:
    """Depth, running reconciles, workers, counts of events and results, and the last error with its age."""
    now = 100.0
    monitor = QueueMonitor(lambda: now)
    assert monitor.states() == []
    queue: QueueCore[str] = QueueCore()
    for item in ("x", "y"):
        queue.add(item, now=80.0)
    monitor.record(Leadership(name="l", leading=True))
    monitor.record(Workers(controller="b", limit=2, queue=queue))
    monitor.record(Queued(controller="a", event="added", queue=queue))
    monitor.record(Queued(controller="a", event="retried", queue=queue))
    queue.take(now=90.0)
    monitor.record(Reconciled(controller="a", result=ReconcileOutcome.SUCCESS, seconds=1))
    monitor.record(Reconciled(controller="a", result=ReconcileOutcome.ERROR, seconds=1, error=ConflictError("changed")))
    now = 103.0
    first, second = monitor.states()
    assert first == {
        "controller": "a",
        "ready": 1,
        "ready_by_priority": {"0": 1},
        "in_progress_seconds": [13.0],
        "workers": {"active": 1, "limit": 0},
        "added": 1,
        "retried": 1,
        "reconciles": {"error": 1, "success": 1},
        "last_error": "changed",
        "seconds_since_last_error": 3.0,
    }
    assert (second["controller"], second["workers"]) == ("b", {"active": 1, "limit": 2})
    assert second["seconds_since_last_error"] is None
