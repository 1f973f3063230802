"""Starts and stops the daemons of an object in its reconciles. In the chain if there are daemons."""

from __future__ import annotations

from opsdk.controller.daemons import Daemons
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.pausing import HeldBack
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.recipes.finalizers import is_deleting


class _DaemonStep:
    """A step for the daemons of a controller.

    Args:
        daemons: of the controller.
    """

    def __init__(self, daemons: Daemons) -> None:
        self._daemons = daemons


class StopDaemons(_DaemonStep):
    """Stops the daemons of an object that is gone, being deleted, or paused.

    They have ended before the finalizers run.
    """

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        obj = await work.read()
        if obj is None or is_deleting(obj):
            await self._daemons.sync(work.ctx.request, None)
        attempt = await proceed(work)
        if isinstance(attempt.result, HeldBack):
            await self._daemons.sync(work.ctx.request, None)
        return attempt


class StartDaemons(_DaemonStep):
    """Starts the daemons of an object before its reconciler is called, when it has its finalizers."""

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        obj = await work.read()
        if obj is not None and not is_deleting(obj):
            await self._daemons.sync(work.ctx.request, obj)
        return await proceed(work)
