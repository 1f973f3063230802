"""Reconciles each object again after the longest interval, whatever happens to it."""

from __future__ import annotations

from opsdk.aio.randomness import loop_random
from opsdk.apimachinery.kinds import as_unstructured
from opsdk.base.cause import ReconcileCause
from opsdk.base.durations import shown_seconds
from opsdk.controller.outcome import ReconcileAttempt, Requeue
from opsdk.controller.reconcile import Result
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.queue.core import LOW_PRIORITY

# The share of `max_interval` that is spread at random, so that objects of one list do not stay together.
_JITTER = 0.1


class LongestInterval:
    """Brings the request of an object that exists back after `max_interval`. In the chain with that option.

    A reconcile that comes back by itself needs none. One that waits for a child does not, whatever its result says.

    Args:
        seconds: the option.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        attempt = await proceed(work)
        result = attempt.result
        comes_back = isinstance(result, Result) and (result.requeue or result.requeue_seconds > 0)
        if (not comes_back or work.ctx.progress.unready()) and await self._exists(work):
            after = self._seconds * (1 - _JITTER * loop_random().random())
            cause = ReconcileCause("max_interval", detail=shown_seconds(after))
            work.requeues.append(Requeue(cause=cause, after=after, priority=LOW_PRIORITY, timer=True))
        return attempt

    async def _exists(self, work: ReconcilePass) -> bool:
        if work.kind is None or work.ctx.object is not None:
            return True
        return await work.ctx.client.get_or_none(as_unstructured(work.kind), work.key) is not None
