"""Formats the children of a reconcile as a tree, for ``opsdk why --not-ready``. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from opsdk.children.graph import ChildState
from opsdk.controller.journal import ReconcileRecord
from opsdk.telemetry.records import ReconcileOutcome


def last_attempts(records: Iterable[ReconcileRecord]) -> list[ReconcileRecord]:
    """Return the last reconcile of each object by each controller, without records of daemons and pauses."""
    outcomes = {outcome.value for outcome in ReconcileOutcome} - {ReconcileOutcome.PAUSED.value}
    newest: dict[tuple[str, str, str], ReconcileRecord] = {}
    for record in records:
        if record.result in outcomes:
            newest[record.controller, record.namespace, record.name] = record
    return list(newest.values())


def format_children(record: ReconcileRecord) -> str:
    """Return a reconciled object with its children, their states, and what each waits for.

    >>> from datetime import UTC, datetime
    >>> from opsdk.controller.progress import ChildRecord
    >>> children = (ChildRecord("ConfigMap default/db", "waiting", "is_up returned False"),
    ...             ChildRecord("ConfigMap default/web", "pending", "", ("ConfigMap default/db",)))
    >>> print(format_children(ReconcileRecord(
    ...     controller="app", kind="demo.dev/v1, Kind=App", namespace="default", name="a", reconcile_id="1",
    ...     started_at=datetime(2026, 1, 1, tzinfo=UTC), seconds=0.1, result="waiting", children=children,
    ... )))
    App default/a: waiting (controller app at 2026-01-01T00:00:00+00:00)
    ├─ ConfigMap default/db: waiting: is_up returned False
    └─ ConfigMap default/web: pending: comes after ConfigMap default/db
    """
    kind = record.kind.rpartition("=")[2] or record.controller
    key = f"{record.namespace}/{record.name}" if record.namespace else record.name
    when = record.started_at.isoformat(timespec="seconds")
    lines = [f"{kind} {key}: {record.result} (controller {record.controller} at {when})"]
    if record.result == ReconcileOutcome.ERROR.value:
        lines[0] += f": {record.detail}"
    for child in record.children:
        message = child.message
        if not message and child.state == ChildState.PENDING.value:
            message = f"comes after {', '.join(child.after)}"
        branch = "└─" if child is record.children[-1] else "├─"
        lines.append(f"{branch} {child.name}: {child.state}" + (f": {message}" if message else ""))
    return "\n".join(lines if record.children else [*lines, "└─ no ordered children (ready=, after=)"])
