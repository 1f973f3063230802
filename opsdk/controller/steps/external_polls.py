"""Observes the external resources of an object again after their interval."""

from __future__ import annotations

from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.reconcile import Result
from opsdk.controller.steps.step import Proceed, ReconcilePass


class ExternalPolls:
    """Brings a request back when the first of its external resources is due. In the chain if there are any."""

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        attempt = await proceed(work)
        poll, result = work.ctx.progress.poll_seconds, attempt.result
        assert result is None or isinstance(result, Result)
        if not poll or (result is not None and (result.requeue or 0 < result.requeue_seconds <= poll)):
            return attempt
        return ReconcileAttempt(
            result=Result(requeue_after=poll, priority=result.priority if result is not None else None)
        )
