"""Finalizers by name: added before the first reconcile, run in order when the object is deleted.

Upstream: sigs.k8s.io/controller-runtime/pkg/finalizer/finalizer.go
Deviates: they run in the order of their registration; upstream's order is random.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Any

import msgspec

from opsdk.aio.blocking import BlockingPool
from opsdk.aio.containment import cancellations, contain, without_waits
from opsdk.apimachinery.object import KubeObject
from opsdk.controller.blocking_context import run_in_thread
from opsdk.controller.declaration import check_context
from opsdk.errors import UsageError
from opsdk.event.handlers import is_async
from opsdk.recipes.finalizers import add_finalizer, contains_finalizer, is_deleting, remove_finalizer

FinalizerFunction = Callable[[Any, Any], Any]
"""Cleans up for an object that is being deleted: ``async def clean_up(obj, ctx)``. Must be idempotent.

A plain ``def`` runs in a thread, and gets a `BlockingContext`.
A function that returns a `Result` is not done: its finalizer stays, and the result decides when it is queued again.
"""


class _Waiting(Enum):
    WAITING = "a child is not ready"


WAITING = _Waiting.WAITING
"""The result of a function that waits for a child: it raised `NotReadyError`."""


class FinalizeResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of `Finalizers.finalize`.

    Attributes:
        updated: it changed the object's finalizers: write the object, also if there are errors.
        errors: the exceptions of functions; their finalizers stay.
        pending: the results of functions that are not done, or `WAITING`; their finalizers stay.
    """

    updated: bool = False
    errors: tuple[Exception, ...] = ()
    pending: tuple[Any, ...] = ()

    def raise_errors(self) -> None:
        """Raise the errors: one as it is, several as an ``ExceptionGroup``."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise ExceptionGroup("finalizers failed", list(self.errors))


class KopfFinalizer(str):
    """The name of a finalizer that kopf has set, which may have no domain. Objects of the cluster have it already.

    >>> finalizers = Finalizers({KopfFinalizer("sites-finalizer"): lambda obj, ctx: None})
    """

    __slots__ = ()


class Finalizers:
    """Functions that clean up before an object is removed.

    Args:
        functions: by name.
        threads: run plain functions; default: one thread.

    >>> async def close_account(obj, ctx): ...
    >>> finalizers = Finalizers({"billing.example.com/account": close_account})
    """

    def __init__(
        self, functions: Mapping[str, FinalizerFunction] | None = None, threads: BlockingPool | None = None
    ) -> None:
        self._functions: dict[str, FinalizerFunction] = {}
        self._threads = threads or BlockingPool("finalizers", 1)
        for name, function in (functions or {}).items():
            self.register(name, function)

    def register(self, name: str, function: FinalizerFunction) -> None:
        """Add a finalizer. Raises `UsageError` for a name that is taken or has no domain, and for a wrong context."""
        if name in self._functions:
            raise UsageError(f"finalizer {name} is already registered")
        if "/" not in name and not isinstance(name, KopfFinalizer):
            # The API server accepts it, with a warning: another controller may use the same word.
            raise UsageError(f"finalizer {name!r} has no domain: name it like example.com/{name}")
        check_context(function, f"the function of finalizer {name}")
        self._functions[name] = function

    def __bool__(self) -> bool:
        """Whether a finalizer is registered."""
        return bool(self._functions)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in the order of their registration."""
        return iter(self._functions)

    @property
    def functions(self) -> Collection[FinalizerFunction]:
        """The functions, in the order of their registration."""
        return self._functions.values()

    async def finalize(self, obj: KubeObject, ctx: Any) -> FinalizeResult:
        """Change the finalizers of `obj` in place; write it if the result asks for it.

        An object that is not being deleted gets every finalizer that it lacks. If it is being deleted, the functions
        of its finalizers are called in order. When a function returns None, its finalizer is removed. If it raises or
        returns something else, only its own finalizer stays, and later functions are still called.
        """
        if not is_deleting(obj):
            added = [add_finalizer(obj, name) for name in self._functions]
            return FinalizeResult(updated=any(added))
        updated = False
        errors: list[Exception] = []
        pending: list[Any] = []
        task = asyncio.current_task()
        before = cancellations(task)
        for name, function in self._functions.items():
            if not contains_finalizer(obj, name):
                continue
            try:
                outcome = await (
                    function(obj, ctx) if is_async(function) else run_in_thread(function, obj, ctx, self._threads)
                )
            except BaseException as raised:  # noqa: BLE001 - returned to the caller, after the object is written
                if (failure := without_waits(raised)) is None:
                    pending.append(WAITING)
                    continue
                error = contain(failure, task=task, cancelling=before)
                error.add_note(f"in finalizer {name}")
                errors.append(error)
            else:
                if outcome is None:
                    updated = remove_finalizer(obj, name) or updated
                else:
                    pending.append(outcome)
        return FinalizeResult(updated=updated, errors=tuple(errors), pending=tuple(pending))

    def __repr__(self) -> str:
        return f"Finalizers({', '.join(self._functions)})"
