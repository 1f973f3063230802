"""Contains what is raised for one request, and decides when it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from opsdk.aio.containment import cancellations
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.progress import describe as describe_unready
from opsdk.controller.requeue import RequeuePolicy
from opsdk.controller.slow_reconciles import SlowReconciles
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.queue.work_queue import WorkQueue

IsContained = Callable[[BaseException, asyncio.Task[Any] | None, int], bool]
"""Arguments: the exception, the task that raised it, and its `cancellations` before."""


class Containment:
    """Turns what the steps inside raise into a failed attempt. In each chain.

    Args:
        timeout: seconds for the steps inside; 0 for no limit.
        is_contained: whether an exception stays with its request, see `WorkerPool.is_contained`.
        requeue: decides, and counts failures in the rate limiter of `queue`.
        queue: of the controller.
        slow_reconciles: logs reconciles that run for long.
    """

    def __init__(
        self,
        *,
        timeout: float,
        is_contained: IsContained,
        requeue: RequeuePolicy,
        queue: WorkQueue[Any],
        slow_reconciles: SlowReconciles,
    ) -> None:
        self._timeout = timeout
        self._is_contained = is_contained
        self._requeue, self._queue = requeue, queue
        self._slow_reconciles = slow_reconciles

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        """Call the steps inside, and decide. Raises only what ends the worker, see `opsdk.aio.containment`."""
        scope: asyncio.Timeout | None = None
        task = asyncio.current_task()
        before = cancellations(task)
        if self._slow_reconciles.timer is None:
            self._slow_reconciles.begin()
        try:
            if not self._timeout:
                attempt = await proceed(work)
            else:
                async with asyncio.timeout(self._timeout) as scope:
                    attempt = await proceed(work)
            waits_for = describe_unready(unready) if (unready := work.ctx.progress.unready()) else ""
            timed_out = scope is not None and scope.expired()
            if timed_out or waits_for:
                attempt = ReconcileAttempt(result=attempt.result, timed_out=timed_out, waits_for=waits_for)
        except BaseException as error:
            if not self._is_contained(error, task, before):
                raise
            timed_out = scope is not None and scope.expired()
            attempt = ReconcileAttempt.failed(error, timed_out=timed_out, finalizing=work.ctx.finalizing)
        work.end = end = self._requeue.after(self._queue, work.queue_item, attempt)
        work.requeues += end.requeues
        return attempt
