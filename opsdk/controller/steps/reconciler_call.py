"""Calls a reconciler in the form that it declares: the innermost part of a chain."""

from __future__ import annotations

from opsdk.aio.blocking import BlockingPool
from opsdk.aio.containment import without_waits
from opsdk.controller.blocking_context import run_in_thread
from opsdk.controller.declaration import ReconcilerDeclaration, ReconcilerForm
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.reconcile import Result
from opsdk.controller.steps.step import ReconcilePass
from opsdk.errors import UsageError
from opsdk.recipes.finalizers import is_deleting

_NOTHING_DONE = ReconcileAttempt()


class ReconcilerCall:
    """Calls a reconciler.

    One that takes the object is not called for an object that is missing or being deleted.

    Args:
        declaration: of the reconciler.
        threads: run a plain function.
    """

    def __init__(self, declaration: ReconcilerDeclaration, threads: BlockingPool) -> None:
        self._declaration = declaration
        self._takes_object = declaration.form is ReconcilerForm.OBJECT
        self._threads = threads

    async def __call__(self, work: ReconcilePass) -> ReconcileAttempt:
        declaration, ctx = self._declaration, work.ctx
        argument = ctx.request
        if self._takes_object:
            argument = work.object if work.is_read else await work.read()
            if argument is None or is_deleting(argument):
                return _NOTHING_DONE
            ctx.object = argument
        function, takes_context = declaration.function, declaration.takes_context
        try:
            if declaration.is_async:
                result = await (function(argument, ctx) if takes_context else function(argument))
            else:
                result = await run_in_thread(function, argument, ctx, self._threads, takes_context=takes_context)
        except BaseException as error:
            failure = without_waits(error)
            if failure is error:
                raise
            if failure is not None:
                raise failure from None
            return _NOTHING_DONE  # a `NotReadyError`: `Context.progress` has the child
        if result is None:
            return _NOTHING_DONE
        if not isinstance(result, Result):
            raise UsageError(f"the reconciler ({declaration.place}) returned {result!r}: return a Result, or None")
        return ReconcileAttempt(result=result)

    def __repr__(self) -> str:
        function = self._declaration.function
        return f"<ReconcilerCall {getattr(function, '__qualname__', function)}>"
