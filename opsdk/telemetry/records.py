"""What is worth counting, as frozen records, and the hook that takes them.

opsdk calls the hook synchronously; it must not block. `opsdk.telemetry.prometheus` is one, logging another; several
are combined with `Hooks`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

log = logging.getLogger(__name__)


class ReconcileOutcome(Enum):
    """How a reconcile ended; the values are controller-runtime's label values."""

    SUCCESS = "success"
    REQUEUE = "requeue"
    REQUEUE_AFTER = "requeue_after"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """One reconcile has ended.

    Attributes:
        seconds: how long it took.
        terminal: it failed in a way that retrying cannot mend.
        crashed: it raised something that no reconciler should.
        timed_out: it was ended by its own time limit.
    """

    controller: str
    result: ReconcileOutcome
    seconds: float
    terminal: bool = False
    panicked: bool = False
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """How many of a controller's workers are at work, of how many."""

    controller: str
    active: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Something happened in a queue.

    Attributes:
        event: added, retried, taken (after `seconds` of being ready), finished (after `seconds` of work).
        depth: ready items, by priority.
        at_work: since when, by the queue's clock, each of the items at workers is there.
    """

    controller: str
    event: str
    seconds: float = 0.0
    depth: tuple[tuple[int, int], ...] = ()
    in_progress: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """An election was won or lost."""

    name: str
    leading: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """An API server answered a request, or did not.

    Attributes:
        status: the HTTP status; 0 where no answer came.
        seconds: how long it took.
    """

    method: str
    host: str
    status: int
    seconds: float


Record = Reconciled | Workers | Queued | Leadership | Requested


class TelemetryHook:
    """Takes records; this one drops them. Override `record`."""

    def record(self, record: Record) -> None:
        """Something happened."""


class Hooks(TelemetryHook):
    """Several hooks as one: a hook that raises is logged, and does not keep records from the others."""

    def __init__(self, hooks: Sequence[TelemetryHook]) -> None:
        self.hooks = tuple(hooks)

    def record(self, record: Record) -> None:
        """Hand it to each."""
        for hook in self.hooks:
            try:
                hook.record(record)
            except Exception:
                log.exception("a telemetry hook raised at %s", record)
