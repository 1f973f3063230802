"""The result of a reconcile, and when its request comes back. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from opsdk.aio.containment import is_panic
from opsdk.base.cause import ReconcileCause
from opsdk.base.shortened import shortened
from opsdk.controller.pausing import HeldBack
from opsdk.controller.reconcile import Result
from opsdk.controller.retries import is_terminal
from opsdk.telemetry.describe import text_of
from opsdk.telemetry.records import ReconcileOutcome

# Characters of an error in a cause: a message of the server may quote the whole object.
_MAX_ERROR = 200


class Requeue(msgspec.Struct, frozen=True, kw_only=True):
    """What a reconcile adds to the queue at its end. The queue joins several of one request.

    Attributes:
        cause: why.
        item: None for the request of the reconcile.
        after: seconds from the end of the reconcile.
        is_failure: `after` is the delay of the rate limiter, which counts a failure.
        priority: of the item.
        timer: see `QueueCore.add`.
    """

    cause: ReconcileCause | None
    item: Any = None
    after: float = 0.0
    is_failure: bool = False
    priority: int = 0
    timer: bool = False


class ReconcileAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the reconciler: what it returned or raised.

    Attributes:
        result: what it returned, or why a pause held it back.
        error: the exception, or None.
        timed_out: it took longer than ``reconciliation_timeout``.
        terminal: the error is not retried.
        panicked: the error is no ``Exception``.
        finalizing: a finalizer of the object raised the error.
        waits_for: the children that are not ready; empty for none.
    """

    result: Result | HeldBack | None = None
    error: BaseException | None = None
    timed_out: bool = False
    terminal: bool = False
    panicked: bool = False
    finalizing: bool = False
    waits_for: str = ""

    @staticmethod
    def failed(error: BaseException, *, timed_out: bool = False, finalizing: bool = False) -> ReconcileAttempt:
        """Return the attempt that raised this exception."""
        return ReconcileAttempt(
            error=error,
            timed_out=timed_out,
            terminal=is_terminal(error),
            panicked=is_panic(error),
            finalizing=finalizing,
        )


class ReconcileEnd(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a reconcile, and when the next one runs.

    Attributes:
        outcome: for metrics.
        detail: the delay of the next run, or the error.
        gave_up: why a failed request is not retried any more: its `RetryLimit` is reached; else empty.
        is_repeated: a pause held the request back, as it did before: no news for the journal.
        requeues: when the request comes back.
    """

    outcome: ReconcileOutcome
    detail: str = ""
    gave_up: str = ""
    is_repeated: bool = False
    requeues: tuple[Requeue, ...] = ()

    def __str__(self) -> str:
        return f"{self.outcome.value} ({self.detail})" if self.detail else self.outcome.value


def shorten_error(error: BaseException) -> str:
    """Return class and message of an error, at most 200 characters."""
    return shortened(f"{type(error).__name__}: {text_of(error)}", _MAX_ERROR)
