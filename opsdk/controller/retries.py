"""Whether, when and how often a failed call is made again. Pure: the caller passes the time.

Upstream: none; kopf has ``retries`` and ``timeout`` of a handler, Java Operator SDK ``maxAttempts`` of a retry.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from datetime import timedelta
from typing import NamedTuple

from opsdk.aio.containment import leaf_errors
from opsdk.base.durations import as_seconds, shown_seconds
from opsdk.base.options import Options
from opsdk.base.place import caller_place
from opsdk.errors import InvalidError, TemporaryError, TerminalError, UsageError


class RetryLimit(Options, frozen=True, kw_only=True):
    """When a controller gives up a request that keeps failing. The request then waits for the next event.

    Attributes:
        attempts: the number of attempts, including the first one; None for any number.
        time: the time since the first failure, in seconds or as a timedelta, after which no attempt begins; None for
            any time.

    >>> RetryLimit(attempts=10, time=timedelta(hours=1))
    RetryLimit(attempts=10, time=datetime.timedelta(seconds=3600))
    """

    attempts: int | None = None
    time: float | timedelta | None = None

    def __post_init__(self) -> None:
        if self.attempts is None and self.time is None:
            raise UsageError(f"{caller_place()}: RetryLimit() limits nothing: pass attempts=... or time=...")
        attempts: object = self.attempts
        if attempts is not None and (not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1):
            raise UsageError(f"{caller_place()}: attempts is {attempts!r}: pass a number of attempts, at least 1")
        if self.time is not None and not as_seconds(self.time):
            raise UsageError(f"{caller_place()}: time is {self.time!r}: pass more than 0 seconds, or a timedelta")

    @property
    def seconds(self) -> float:
        """`time` in seconds; infinite without one."""
        return math.inf if self.time is None else as_seconds(self.time) or math.inf


class FailureStreak(NamedTuple):
    """The failures of one request.

    Attributes:
        finalizing: a finalizer failed.
        failures: how many.
        since: the time of the first one.
    """

    finalizing: bool
    failures: int
    since: float


class FailureStreaks:
    """The failures of each request since its last success.

    Args:
        limit: of a request's reconciler.
        finalizer_limit: of the finalizers of an object that is being deleted.
    """

    def __init__(self, limit: RetryLimit | None, finalizer_limit: RetryLimit | None) -> None:
        self._limits = {False: limit, True: finalizer_limit}
        self._streaks: dict[Hashable, FailureStreak] = {}

    def failed(self, request: Hashable, *, finalizing: bool, wait: float, now: float) -> str:
        """Count a failure. Returns why the request is given up; empty if it is retried.

        Args:
            request: the request.
            finalizing: a finalizer failed. Its failures are counted from 1, whatever the reconciler did before.
            wait: seconds until the next attempt.
            now: the time.
        """
        limit = self._limits[finalizing]
        if limit is None:
            return ""
        was_finalizing, failures, since = self._streaks.get(request, FailureStreak(finalizing, 0, now))
        if was_finalizing is not finalizing:
            failures, since = 0, now
        failures += 1
        self._streaks[request] = FailureStreak(finalizing, failures, since)
        if limit.attempts is not None and failures >= limit.attempts:
            return f"gave up after {failures} attempt{'s' if failures > 1 else ''}"
        if now + wait - since >= limit.seconds:
            return f"gave up after {shown_seconds(now - since)}"
        return ""

    def get(self, request: Hashable) -> FailureStreak | None:
        """Return the failures of a request, for a checkpoint; None if it has none."""
        return self._streaks.get(request)

    def restore(self, request: Hashable, streak: FailureStreak) -> None:
        """Set the failures of a request, from a checkpoint."""
        self._streaks[request] = streak

    def forget(self, request: Hashable) -> None:
        """Forget the failures of a request that succeeded, or was given up."""
        self._streaks.pop(request, None)

    def __repr__(self) -> str:
        return f"<FailureStreaks of {len(self._streaks)} requests>"


def requested_delay(error: BaseException) -> float | None:
    """Return the shortest delay of the `TemporaryError` that an error is, or that a group has; None without one."""
    return min((leaf.seconds for leaf in leaf_errors(error) if isinstance(leaf, TemporaryError)), default=None)


def is_terminal(error: BaseException | None) -> bool:
    """Whether no retry can succeed before something changes: the error, each one of its group, or its cause.

    A `TerminalError` says so. A `UsageError` is an error of the program. An `InvalidError` is the server's answer to an
    object that the reconciler derived from its inputs, such as a change of an immutable field.
    """
    return error is not None and all(map(_has_terminal_cause, leaf_errors(error)))


def _has_terminal_cause(error: BaseException | None) -> bool:
    visited: set[int] = set()  # causes may form a circle
    while error is not None and id(error) not in visited:
        if isinstance(error, TerminalError | UsageError) or (isinstance(error, InvalidError) and _is_rejected(error)):
            return True
        visited.add(id(error))
        error = error.__cause__
    return False


def _is_rejected(error: InvalidError) -> bool:
    """Whether the server rejects fields of the object itself.

    Without a field, a JSON patch met a concurrent change. Metadata may be that of another writer: a second controller.
    """
    fields = [cause.field for cause in error.details.causes if cause.field]
    return bool(fields) and not any(field.startswith("metadata") for field in fields)
