"""The result of a reconcile, and the classification of its exception. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from opsdk.aio.containment import leaf_errors
from opsdk.errors import TerminalError
from opsdk.telemetry.describe import text_of
from opsdk.telemetry.records import ReconcileOutcome

# Characters of an error in a cause: a message of the server may quote the whole object.
_MAX_ERROR = 200


class ReconcileEnd(msgspec.Struct, frozen=True):
    """The result of a reconcile.

    Attributes:
        outcome: for metrics.
        detail: the delay of the next run, or the error.
        notes: flags of the `opsdk.telemetry.records.Reconciled` record.
        error: the exception of the reconciler, or None.
    """

    outcome: ReconcileOutcome
    detail: str = ""
    notes: Mapping[str, bool] = msgspec.field(default_factory=dict)
    error: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.outcome.value} ({self.detail})" if self.detail else self.outcome.value


def shorten_error(error: BaseException) -> str:
    """Return class and message of an error, at most 200 characters."""
    text = f"{type(error).__name__}: {text_of(error)}"
    return text if len(text) <= _MAX_ERROR else f"{text[: _MAX_ERROR - 3]}..."


def is_terminal(error: BaseException | None) -> bool:
    """Whether the error is a `TerminalError`, a group of only such errors, or raised ``from`` one."""
    return error is not None and all(map(_has_terminal_cause, leaf_errors(error)))


def _has_terminal_cause(error: BaseException | None) -> bool:
    visited: set[int] = set()  # causes may form a circle
    while error is not None and id(error) not in visited:
        if isinstance(error, TerminalError):
            return True
        visited.add(id(error))
        error = error.__cause__
    return False
