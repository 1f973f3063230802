"""The context of functions that block: the methods of `Context`, without ``await``.

Upstream: none; a reconciler of controller-runtime blocks its goroutine.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from opsdk.aio.blocking import BlockingPool, Waiting, current_call, waits_for
from opsdk.apimachinery.object import AnyObject, KubeObject, Object, TypedObject, Unstructured
from opsdk.base.cause import ReconcileCause
from opsdk.children.drift import Drift
from opsdk.children.readiness import Ready
from opsdk.client.blocking import BlockingClient
from opsdk.client.recorder.recorder import EventType
from opsdk.controller.context import Context, HasStatus, Owner
from opsdk.controller.external import ExternalResource, HasId
from opsdk.controller.spec_comparison import SpecChange
from opsdk.controller.status import StatusPatch
from opsdk.errors import UsageError

__all__ = ["BlockingContext", "BlockingStatusPatch"]

S = TypeVar("S")
T = TypeVar("T")
E = TypeVar("E", bound=HasId)
D = TypeVar("D", bound=TypedObject | Unstructured)


class BlockingContext(Waiting[Context]):
    """The second argument of a reconciler, finalizer or daemon that is a plain ``def``. It runs in a thread.

    It has the attributes and methods of `Context`. The methods block instead of being awaited, and raise
    ``asyncio.CancelledError`` when the function should end: after ``reconciliation_timeout``, when the object of a
    daemon is being deleted, or when the controller stops. Let it pass, as async code does. Threads that the function
    starts may use the context, too.

    >>> def reconcile(site: Object[Any, Any], ctx: BlockingContext) -> None:
    ...     with ctx.status(site) as patch:
    ...         patch.status.replicas = 3

    Args:
        target: the context whose methods are waited for.
        call: the call whose thread waits; None for the one of the running function.
    """

    @property
    def request(self) -> Any:
        """See `Context`."""
        return self.target.request

    @property
    def controller(self) -> str:
        """See `Context`."""
        return self.target.controller

    @property
    def reconcile_id(self) -> str:
        """See `Context`."""
        return self.target.reconcile_id

    @property
    def causes(self) -> tuple[ReconcileCause, ...]:
        """See `Context`."""
        return self.target.causes

    @property
    def attempt(self) -> int:
        """See `Context`."""
        return self.target.attempt

    @property
    def deadline(self) -> float | None:
        """See `Context`."""
        return self.target.deadline

    @property
    def object(self) -> Any:
        """See `Context`."""
        return self.target.object

    @property
    def finalizing(self) -> bool:
        """See `Context`."""
        return self.target.finalizing

    @property
    def client(self) -> BlockingClient:
        """The client: reads from the cache, writes to the server. Its methods block."""
        return BlockingClient(self.target.client, self._call)

    @property
    def logger(self) -> logging.Logger:
        """See `Context.logger`."""
        return self.target.logger

    @property
    def remaining(self) -> float | None:
        """See `Context.remaining`."""
        return self.target.remaining

    @property
    def now(self) -> datetime:
        """See `Context.now`."""
        return self.target.now

    @property
    def last_reconciled(self) -> Any:
        """See `Context.last_reconciled`."""
        return self.target.last_reconciled

    def changed(self, path: str = "spec") -> bool:
        """See `Context.changed`."""
        return self.target.changed(path)

    def difference(self) -> list[SpecChange]:
        """See `Context.difference`."""
        return self.target.difference()

    @overload
    def apply(
        self,
        desired: D,
        *,
        owner: KubeObject | Literal[Owner.RECONCILED] | None = Owner.RECONCILED,
        force: bool = True,
        drift: Drift = Drift.REPAIR,
        ready: Ready = False,
        after: Sequence[Any] = (),
    ) -> D: ...
    @overload
    def apply(
        self,
        desired: ExternalResource[Any, E],
        *,
        ready: Literal[False] | Callable[[E], bool] = False,
        after: Sequence[Any] = (),
    ) -> E: ...
    def apply(
        self,
        desired: Any,
        *,
        owner: KubeObject | Literal[Owner.RECONCILED] | None = Owner.RECONCILED,
        force: bool = True,
        drift: Drift = Drift.REPAIR,
        ready: Ready = False,
        after: Sequence[Any] = (),
    ) -> Any:
        """See `Context.apply`. The methods of an external resource are async, and run in the event loop."""
        return self._wait(self.target.apply(desired, owner=owner, force=force, drift=drift, ready=ready, after=after))

    apply_all = waits_for(Context.apply_all)

    @overload
    def status(self, obj: Object[Any, S | None]) -> BlockingStatusPatch[S]: ...
    @overload
    def status(self, obj: Object[Any, S]) -> BlockingStatusPatch[S]: ...
    @overload
    def status(self, obj: Unstructured) -> BlockingStatusPatch[dict[str, Any]]: ...
    @overload
    def status(self, obj: HasStatus[S | None]) -> BlockingStatusPatch[S]: ...
    def status(self, obj: Any) -> BlockingStatusPatch[Any]:
        """Return a block that changes the status of `obj` and writes only the difference. See `StatusPatch`."""
        return BlockingStatusPatch(self, obj)

    def event(
        self,
        reason: str,
        note: str,
        *,
        type: EventType = "Normal",  # noqa: A002 - the field's name
        regarding: AnyObject | None = None,
        action: str = "",
        related: AnyObject | None = None,
    ) -> None:
        """Record an Event about the reconciled object, or about `regarding`. See `Context.event`."""

        async def record() -> None:
            self.target.event(reason, note, type=type, regarding=regarding, action=action, related=related)

        self._wait(record())

    def sleep(self, seconds: float) -> None:
        """Wait. Unlike ``time.sleep``, it ends at the deadline and when the controller stops, with `CancelledError`."""
        self._wait(asyncio.sleep(seconds))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run any coroutine in the event loop, and return its result, for functions that have no blocking form.

        >>> def reconcile(site: Object[Any, Any], ctx: BlockingContext) -> None:
        ...     ctx.run(asyncio.sleep(0.1))
        """
        return self._wait(coroutine)

    def __repr__(self) -> str:
        return f"<BlockingContext of {self.request} in {self.controller}>"


class BlockingStatusPatch(StatusPatch[S]):
    """A `StatusPatch` for ``with`` in place of ``async with``."""

    def __init__(self, ctx: BlockingContext, obj: Any) -> None:
        super().__init__(ctx.client.target, obj)
        self._run = ctx.run

    def __enter__(self) -> Self:
        return self._run(self.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._run(self.__aexit__(None, None, None))


async def run_in_thread(
    function: Callable[..., Any], argument: Any, ctx: Context, threads: BlockingPool, *, takes_context: bool = True
) -> Any:
    """Run a plain function of the user in a thread, with a `BlockingContext`.

    Raises what the function raises, and `UsageError` for one that returns an awaitable.
    """

    def call() -> Any:
        return function(argument, BlockingContext(ctx, current_call())) if takes_context else function(argument)

    result = await threads.run(call)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(f"{name} returned an awaitable: declare the function itself with `async def`")
    return result
