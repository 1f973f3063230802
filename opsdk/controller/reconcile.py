"""Reconcilers and their results.

Upstream: sigs.k8s.io/controller-runtime/pkg/reconcile/reconcile.go
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import msgspec

from opsdk.aio.blocking import BlockingPool
from opsdk.aio.containment import without_waits
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.base.durations import as_seconds
from opsdk.base.place import caller_place
from opsdk.client.activity import OwnChange, record_own_change
from opsdk.client.patch import MergeFrom
from opsdk.controller.blocking_context import BlockingContext, run_in_thread
from opsdk.controller.context import Context
from opsdk.controller.daemons import Daemons
from opsdk.controller.declaration import ReconcilerDeclaration, ReconcilerForm, inspect_reconciler
from opsdk.controller.finalizers import WAITING, Finalizers
from opsdk.controller.last_reconciled import SpecRecorder
from opsdk.controller.pause_gate import PauseGate
from opsdk.controller.pausing import HeldBack
from opsdk.errors import NotFoundError, UsageError
from opsdk.event.request import Request
from opsdk.recipes.finalizers import is_deleting

T_contra = TypeVar("T_contra", bound=AnyObject, contravariant=True)
T = TypeVar("T", bound=AnyObject)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Decides when the request is reconciled again. None is the same as ``Result()``: wait for a change.

    Attributes:
        requeue_after: reconcile again after this time (seconds, or a timedelta), and reset the failures.
        requeue: reconcile again after the rate limiter's delay.
        priority: the priority of that request; None keeps the current one.
    """

    requeue_after: float | timedelta = 0.0
    requeue: bool = False
    priority: int | None = None

    def __post_init__(self) -> None:
        if as_seconds(self.requeue_after) is None:
            raise UsageError(f"{caller_place()}: requeue_after is {self.requeue_after!r}: pass seconds, at least 0")

    @property
    def requeue_seconds(self) -> float:
        """`requeue_after` in seconds."""
        return as_seconds(self.requeue_after) or 0.0


class Reconciler(Protocol):
    """Brings the cluster into the state that an object describes.

    `reconcile` gets a key and no event: read the object (it may not exist), compare, act. It must be idempotent, and
    never runs twice at once for one key. Any exception retries the request with growing delays; `TerminalError` does
    not retry. A second parameter gets the `Context`.
    """

    async def reconcile(self, request: Request, /) -> Result | None:
        """Reconcile one object. Cancelled when the controller stops and `shutdown_timeout` has passed."""
        ...


class ContextReconciler(Protocol):
    """A `Reconciler` that also gets a `Context`."""

    async def reconcile(self, request: Request, ctx: Context, /) -> Result | None:
        """Reconcile one object."""
        ...


class ObjectReconciler(Protocol[T_contra]):
    """A reconciler that gets the object from the cache.

    It is not called for an object that is missing or being deleted: declare finalizers to clean up.
    """

    async def reconcile(self, obj: T_contra, ctx: Context, /) -> Result | None:
        """Reconcile one object. The object is a copy of its own."""
        ...


class BlockingReconciler(Protocol):
    """A `Reconciler` with a plain ``def``: it runs in a thread."""

    def reconcile(self, request: Request, ctx: BlockingContext, /) -> Result | None:
        """Reconcile one object."""
        ...


class BlockingObjectReconciler(Protocol[T_contra]):
    """An `ObjectReconciler` with a plain ``def``: it runs in a thread."""

    def reconcile(self, obj: T_contra, ctx: BlockingContext, /) -> Result | None:
        """Reconcile one object. The object is a copy of its own."""
        ...


_AwaitableResult = Awaitable[Result | None]
ReconcileFunction = (
    Callable[[Request], _AwaitableResult]
    | Callable[[Request, Context], _AwaitableResult]
    | Callable[[T], _AwaitableResult]
    | Callable[[T, Context], _AwaitableResult]
    | Callable[[Request], Result | None]
    | Callable[[Request, BlockingContext], Result | None]
    | Callable[[T], Result | None]
    | Callable[[T, BlockingContext], Result | None]
)
"""A function in one of the forms of `opsdk.controller.declaration`."""
AnyReconciler = (
    Reconciler
    | ContextReconciler
    | ObjectReconciler[T]
    | BlockingReconciler
    | BlockingObjectReconciler[T]
    | ReconcileFunction[T]
)
"""The reconcilers of objects of class T that controllers accept."""


class AdaptedReconciler(Protocol):
    """What a controller calls: `ReconcilerAdapter`, or a test kit's wrapper of it."""

    async def reconcile(self, request: Any, ctx: Context, /) -> Result | HeldBack | None:
        """Reconcile one object, unless it is paused."""
        ...


class ReconcilerAdapter:
    """Calls a reconciler in the form that it declares, after the finalizers.

    Args:
        reconciler: see `AnyReconciler`; or its declaration.
        kind: the reconciled kind; None for a controller with requests of its own.
        finalizers: see `Finalizers`.
        daemons: see `Daemons`.
        gate: holds back requests of paused objects; None for a controller without pauses.
        threads: run a plain reconciler; default: one thread.
        specs: keeps the spec that was last reconciled; None for a controller without that option.

    Raises:
        UsageError: the declaration cannot work; the message has file and line.
    """

    def __init__(
        self,
        reconciler: Any,
        kind: Kind[AnyObject] | None = None,
        finalizers: Finalizers | None = None,
        daemons: Daemons | None = None,
        gate: PauseGate | None = None,
        *,
        threads: BlockingPool | None = None,
        specs: SpecRecorder | None = None,
    ) -> None:
        is_inspected = isinstance(reconciler, ReconcilerDeclaration)
        self.declaration = reconciler if is_inspected else inspect_reconciler(reconciler, kind)
        self.finalizers = finalizers or Finalizers()
        self.daemons = daemons or None
        self._kind = kind
        self._threads = threads or BlockingPool("reconciler", 1)
        self._gate = gate
        self._specs = specs
        if self.daemons is not None and kind is None:
            raise UsageError("daemons need a reconciled kind: call for_(...)")
        if self.finalizers and kind is None:
            raise UsageError("finalizers need a reconciled kind: call for_(...)")
        is_object = self.declaration.form is ReconcilerForm.OBJECT
        self._reads_object = is_object or bool(self.finalizers) or self.daemons is not None or specs is not None

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        """The author's functions: the reconciler, the finalizers, the daemons."""
        daemons = self.daemons.functions if self.daemons is not None else ()
        return [self.declaration.function, *self.finalizers.functions, *daemons]

    @property
    def needs_cluster(self) -> bool:
        """Whether objects are read before the reconciler is called."""
        return self._reads_object

    async def reconcile(self, request: Any, ctx: Context) -> Result | HeldBack | None:
        """Read the object if needed, sync the daemons, run the finalizers, call the reconciler, unless it is paused."""
        declaration = self.declaration
        argument, pending = request, None
        if self._reads_object or (self._gate is not None and self._gate.concerns(request)):
            assert self._kind is not None
            obj = await ctx.client.get_or_none(self._kind, request.key)
            if (held := await self._begin(obj, ctx)) is not None:
                return held
            if self.daemons is not None and (obj is None or is_deleting(obj)):
                await self.daemons.sync(request, None)  # they have ended before the finalizers run
            if obj is not None and self.finalizers:
                ctx.object = obj
                obj, pending = await self._finalize(obj, ctx)
            if self.daemons is not None and obj is not None and not is_deleting(obj):
                await self.daemons.sync(request, obj)
            if declaration.form is ReconcilerForm.OBJECT:
                if obj is None or is_deleting(obj):
                    return _with_poll(pending, ctx)
                argument = ctx.object = obj
        function, takes_context = declaration.function, declaration.takes_context
        if declaration.is_async:
            result = await _until_wait(function(argument, ctx) if takes_context else function(argument))
        else:
            in_thread = run_in_thread(function, argument, ctx, self._threads, takes_context=takes_context)
            result = await _until_wait(in_thread)
        if not isinstance(result, Result | None):
            raise UsageError(f"the reconciler ({declaration.place}) returned {result!r}: return a Result, or None")
        return _with_poll(result or pending, ctx)

    async def _begin(self, obj: Any, ctx: Context) -> HeldBack | None:
        """Stop the daemons of a paused object, and hold it back; give the context of another one its recorded spec."""
        if self._gate is not None and (held := await self._gate.check(obj, ctx)) is not None:
            if self.daemons is not None:
                await self.daemons.sync(ctx.request, None)
            return held
        if self._specs is not None and obj is not None:
            self._specs.begin(ctx, obj)
        return None

    async def _finalize(self, obj: Any, ctx: Context) -> tuple[Any, Result | None]:
        """Add or run the finalizers, and write the object.

        Returns the object, None if it is gone, and the soonest result of the finalizers that are not done.
        """
        ctx.finalizing = is_deleting(obj)
        finalized = await self.finalizers.finalize(obj, ctx)
        if finalized.updated:
            before = obj.metadata.resource_version
            try:
                # With a lock: the patch replaces the list, and must not remove what another controller added.
                await ctx.client.patch(obj, MergeFrom(optimistic_lock=True))
            except NotFoundError:
                obj = None
            else:
                assert self._kind is not None
                gvk, key = self._kind.gvk, ObjectKey(*ctx.request.key)
                record_own_change(OwnChange(gvk.group, gvk.kind, key, before, obj.metadata.resource_version))
        finalized.raise_errors()
        pending = [Result() if result is WAITING else result for result in finalized.pending]
        for result in pending:
            if not isinstance(result, Result):
                raise UsageError(f"a finalizer of {self!r} returned {result!r}: return None, or a Result to wait")
        # A result without a time waits for the next event, so it comes last.
        soonest = min(pending, key=lambda r: r.requeue_seconds or (0 if r.requeue else math.inf), default=None)
        ctx.finalizing = False
        return obj, soonest

    def __repr__(self) -> str:
        function = self.declaration.function
        return f"<ReconcilerAdapter {getattr(function, '__qualname__', function)}>"


async def _until_wait(reconcile: Awaitable[Any]) -> Any:
    """Return the result of a reconciler; None if it ended with a `NotReadyError`: `Context.progress` has the child."""
    try:
        return await reconcile
    except BaseException as error:
        failure = without_waits(error)
        if failure is error:
            raise
        if failure is not None:
            raise failure from None
        return None


def _with_poll(result: Result | None, ctx: Context) -> Result | None:
    """Return a result that also observes the external resources again."""
    poll = ctx.progress.poll_seconds
    if not poll:
        return result
    if result is None:
        return Result(requeue_after=poll)
    if result.requeue or 0 < result.requeue_seconds <= poll:
        return result
    return Result(requeue_after=poll, priority=result.priority)
