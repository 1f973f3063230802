"""Records of events inside opsdk, and the hook that receives them.

opsdk calls the hook synchronously, so a hook must not block. Combine several hooks with `Hooks`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

log = logging.getLogger(__name__)


class ReconcileOutcome(Enum):
    """Result of a reconcile. The values are controller-runtime's label values."""

    SUCCESS = "success"
    REQUEUE = "requeue"
    REQUEUE_AFTER = "requeue_after"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """A reconcile has ended.

    Attributes:
        seconds: duration of the reconcile.
        terminal: it raised `TerminalError`, so it is not retried.
        panicked: it let a cancellation of its own escape.
        timed_out: it exceeded ``reconciliation_timeout``.
    """

    controller: str
    result: ReconcileOutcome
    seconds: float
    terminal: bool = False
    panicked: bool = False
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Number of busy workers of a controller, and its limit."""

    controller: str
    active: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A work queue has changed.

    Attributes:
        event: ``added``, ``retried``, ``taken`` (ready for `seconds`) or ``finished`` (processed for `seconds`).
        depth: number of ready items by priority.
        in_progress: start times of the items that workers process, by the queue's clock.
    """

    controller: str
    event: str
    seconds: float = 0.0
    depth: tuple[tuple[int, int], ...] = ()
    in_progress: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """This replica won or lost an election."""

    name: str
    leading: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """A request to an API server has ended.

    Attributes:
        status: the HTTP status; 0 if no response arrived.
        seconds: duration of the request.
    """

    method: str
    host: str
    status: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStalled:
    """The event loop was blocked for a while, see `opsdk.aio.watchdog`.

    Attributes:
        seconds: how long, at least.
        where: task, file, line and function, while it was blocked.
    """

    seconds: float
    where: str


Record = Reconciled | Workers | Queued | Leadership | Requested | LoopStalled


class TelemetryHook:
    """Receives records and drops them. Override `record`."""

    def record(self, record: Record) -> None:
        """Receive one record. Must not block."""


class Hooks(TelemetryHook):
    """Combines several hooks. An exception of one hook is logged; the other hooks still get the record."""

    def __init__(self, hooks: Sequence[TelemetryHook]) -> None:
        self.hooks = tuple(hooks)

    def record(self, record: Record) -> None:
        """Pass the record to each hook."""
        for hook in self.hooks:
            try:
                hook.record(record)
            except Exception:
                log.exception("a telemetry hook raised at %s", record)
