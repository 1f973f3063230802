"""Reconcilers and their results.

Upstream: sigs.k8s.io/controller-runtime/pkg/reconcile/reconcile.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol, TypeVar

import msgspec

from opsdk.apimachinery.object import AnyObject
from opsdk.base.durations import as_seconds
from opsdk.base.place import caller_place
from opsdk.controller.blocking_context import BlockingContext
from opsdk.controller.context import Context
from opsdk.errors import UsageError
from opsdk.event.request import Request

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
