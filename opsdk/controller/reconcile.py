"""What a reconciler is, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from opsdk.errors import UsageError
from opsdk.event.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What shall happen to the request next. Returning None is the same as ``Result()``: nothing, until a change.

    Attributes:
        requeue_after: look again in so many seconds; failures before no longer count.
        requeue: look again after the wait that failures call for.
        priority: of that next look; None keeps the present one.
    """

    requeue_after: float = 0.0
    requeue: bool = False
    priority: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.requeue_after < math.inf:
            raise UsageError(f"requeue_after is {self.requeue_after}: give seconds, at least 0")


class Reconciler(Protocol):
    """Makes the world as an object wants it.

    Called with a key, never with an event: read the object (it may be gone), compare, act. Must be idempotent; is
    never run twice at once for one key. Raise anything to be called again after a growing wait; raise
    `TerminalError` if only a change of the object can help.
    """

    async def reconcile(self, request: Request) -> Result | None:
        """Look at one object. Cancelled when the program must end and the grace period is over."""
        ...


ReconcileFunction = Callable[[Request], Awaitable[Result | None]]


class FunctionReconciler:
    """A plain function as a reconciler."""

    def __init__(self, function: ReconcileFunction) -> None:
        self.function = function

    async def reconcile(self, request: Request) -> Result | None:
        """Call the function."""
        return await self.function(request)

    def __repr__(self) -> str:
        return f"FunctionReconciler({getattr(self.function, '__qualname__', self.function)})"


def as_reconciler(reconciler: Reconciler | ReconcileFunction) -> Reconciler:
    """A reconciler from an object or a function; `UsageError` for anything else."""
    if isinstance(reconciler, type):
        raise UsageError(f"{reconciler.__name__} is a class: pass an object of it, {reconciler.__name__}(...)")
    if callable(getattr(reconciler, "reconcile", None)):
        return reconciler  # type: ignore[return-value]
    if callable(reconciler):
        return FunctionReconciler(reconciler)
    raise UsageError(f"{reconciler!r} is no reconciler: it needs `async def reconcile(self, request)`")


RECONCILE_ID: ContextVar[str] = ContextVar("opsdk_reconcile_id", default="")
"""The id of the running reconcile; another for each attempt."""
