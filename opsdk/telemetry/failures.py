"""Failures of user functions: counted, listed while they last, and logged without flooding the log.

Index, transform, predicate and map functions run for each object. One that raises for two thousand objects must not
write two thousand tracebacks, and must not be forgotten after the first.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from opsdk.aio.clock import monotonic
from opsdk.telemetry.describe import repr_of
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Objects that are listed for one function: not all of its callers see the end of an object.
_MAX_FAILING = 1000
# Seconds between two log records about the same function, after the first.
_LOG_EVERY = 60.0


class FunctionFailure(msgspec.Struct):
    """Failures of one function.

    Attributes:
        function: its name, such as ``index 'owner'``.
        total: how often it raised.
        last_key: the object of the last exception.
        last_error: the last exception.
        failing: the objects for which its last call raised, at most 1,000.
    """

    function: str
    total: int = 0
    last_key: str = ""
    last_error: BaseException | None = None
    failing: set[Hashable] = msgspec.field(default_factory=set)
    logged_at: float | None = None
    unlogged: int = 0

    def __str__(self) -> str:
        error = repr_of(self.last_error)
        return f"{self.function} fails for {len(self.failing)} objects, last for {self.last_key}: {error}"


class FunctionFailures:
    """The failures of the functions that one informer or source calls.

    Args:
        owner: named in the log, such as ``websites.demo.opsdk.dev``.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.by_function: dict[str, FunctionFailure] = {}
        """The functions that have raised. Empty: `succeeded` has nothing to do."""

    def failed(self, function: str, key: Hashable, error: BaseException) -> None:
        """Count a failure. The first one is logged with its traceback, later ones at most once a minute."""
        failure = self.by_function.setdefault(function, FunctionFailure(function))
        failure.total += 1
        if len(failure.failing) < _MAX_FAILING:
            failure.failing.add(key)
        now = monotonic()
        if failure.logged_at is not None and now - failure.logged_at < _LOG_EVERY:
            failure.unlogged += 1
        else:
            more = f" ({failure.unlogged} more failures since the last message)" if failure.unlogged else ""
            log.error("%s: %s raised for %s%s", self._owner, function, key, more, exc_info=error)
            failure.logged_at, failure.unlogged = now, 0
        # Without its traceback: that keeps the frames of the call, and the objects in them, alive.
        failure.last_key, failure.last_error = str(key), error.with_traceback(None)

    def succeeded(self, function: str, key: Hashable) -> None:
        """Report that the function works for the object again."""
        if (failure := self.by_function.get(function)) is not None:
            failure.failing.discard(key)

    def forget(self, key: Hashable) -> None:
        """Report that the object is gone."""
        for failure in self.by_function.values():
            failure.failing.discard(key)

    def failing(self) -> list[FunctionFailure]:
        """Return the functions that fail for some object now."""
        return [failure for failure in self.by_function.values() if failure.failing]

    def total(self) -> int:
        """Return the number of failures so far."""
        return sum(failure.total for failure in self.by_function.values())

    def __repr__(self) -> str:
        return f"<FunctionFailures of {self._owner}: {', '.join(map(str, self.failing())) or 'none'}>"
