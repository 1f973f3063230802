"""Reconcilers and their results.

Upstream: sigs.k8s.io/controller-runtime/pkg/reconcile/reconcile.go
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from opsdk.errors import UsageError
from opsdk.event.request import Request
from opsdk.handlers import is_async


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What happens to the request next. None is the same as ``Result()``: wait for a change.

    Attributes:
        requeue_after: reconcile again after this time (seconds, or a timedelta), and reset the failures.
        requeue: reconcile again after the rate limiter's delay.
        priority: the priority of that request; None keeps the current one.
    """

    requeue_after: float | timedelta = 0.0
    requeue: bool = False
    priority: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.requeue_seconds < math.inf:
            raise UsageError(f"requeue_after is {self.requeue_after}: pass seconds, at least 0")

    @property
    def requeue_seconds(self) -> float:
        """`requeue_after` in seconds."""
        after = self.requeue_after
        return after.total_seconds() if isinstance(after, timedelta) else after


class Reconciler(Protocol):
    """Brings the cluster into the state that an object describes.

    `reconcile` gets a key and no event: read the object (it may not exist), compare, act. It must be idempotent, and
    never runs twice at once for one key. Any exception retries the request with growing delays; `TerminalError` does
    not retry.
    """

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one object. Cancelled when the controller stops and `shutdown_timeout` has passed."""
        ...


ReconcileFunction = Callable[[Request], Awaitable[Result | None]]


class FunctionReconciler:
    """Wraps an async function as a reconciler."""

    def __init__(self, function: ReconcileFunction) -> None:
        self.function = function

    async def reconcile(self, request: Request) -> Result | None:
        """Call the function."""
        return await self.function(request)

    def __repr__(self) -> str:
        return f"FunctionReconciler({getattr(self.function, '__qualname__', self.function)})"


def as_reconciler(reconciler: Reconciler | ReconcileFunction) -> Reconciler:
    """Return a reconciler for an object or a function. Raises `UsageError` for anything else."""
    if isinstance(reconciler, type):
        raise UsageError(f"{reconciler.__name__} is a class: pass an instance, {reconciler.__name__}(...)")
    method = getattr(reconciler, "reconcile", None)
    function = method if callable(method) else reconciler
    if not callable(function):
        raise UsageError(f"{reconciler!r} is not a reconciler: it needs `async def reconcile(self, request)`")
    if not is_async(function):
        name = getattr(function, "__qualname__", function)
        raise UsageError(
            f"{name} is not async: declare it with `async def`, and run blocking code with `asyncio.to_thread`"
        )
    return reconciler if function is method else FunctionReconciler(function)  # type: ignore[return-value]


RECONCILE_ID: ContextVar[str] = ContextVar("opsdk_reconcile_id", default="")
"""The id of the running reconcile, unique for each attempt."""
