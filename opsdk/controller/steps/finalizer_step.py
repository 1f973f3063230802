"""Adds the finalizers of an object before its first reconcile, and runs them when it is deleted."""

from __future__ import annotations

import math
from typing import Any

from opsdk.client.activity import OwnChange, record_own_change
from opsdk.client.patch import MergeFrom
from opsdk.controller.finalizers import WAITING, Finalizers
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.reconcile import Result
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.errors import NotFoundError, UsageError
from opsdk.recipes.finalizers import is_deleting


class FinalizerStep:
    """Runs the finalizers before the reconciler, and writes the object. In the chain if there are any.

    Args:
        finalizers: the functions by name.
    """

    def __init__(self, finalizers: Finalizers) -> None:
        self._finalizers = finalizers

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        pending = None
        if (obj := await work.read()) is not None:
            work.ctx.object = obj
            pending = await self._finalize(obj, work)
        attempt = await proceed(work)
        return ReconcileAttempt(result=pending) if attempt.result is None and pending is not None else attempt

    async def _finalize(self, obj: Any, work: ReconcilePass) -> Result | None:
        """Add or run the finalizers, and write the object. Returns the soonest result of those that are not done."""
        ctx = work.ctx
        ctx.finalizing = is_deleting(obj)
        finalized = await self._finalizers.finalize(obj, ctx)
        if finalized.updated:
            before = obj.metadata.resource_version
            try:
                # With a lock: the patch replaces the list, and must not remove what another controller added.
                await ctx.client.patch(obj, MergeFrom(optimistic_lock=True))
            except NotFoundError:
                work.object = None
            else:
                assert work.kind is not None
                gvk, after = work.kind.gvk, obj.metadata.resource_version
                record_own_change(OwnChange(gvk.group, gvk.kind, work.key, before, after))
        finalized.raise_errors()
        pending = [Result() if result is WAITING else result for result in finalized.pending]
        for result in pending:
            if not isinstance(result, Result):
                raise UsageError(f"a finalizer of {self!r} returned {result!r}: return None, or a Result to wait")
        ctx.finalizing = False
        # A result without a time waits for the next event, so it comes last.
        return min(pending, key=lambda r: r.requeue_seconds or (0 if r.requeue else math.inf), default=None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._finalizers!r}>"
