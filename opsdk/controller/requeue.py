"""Decides when a request is reconciled again.

Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller/controller.go, reconcileHandler
"""

from __future__ import annotations

from typing import Any

from opsdk.aio.clock import monotonic, utc_now
from opsdk.base.cause import ReconcileCause, traceparents_of
from opsdk.base.durations import shown_seconds
from opsdk.controller.outcome import ReconcileAttempt, ReconcileEnd, Requeue, shorten_error
from opsdk.controller.pausing import HeldBack, format_time
from opsdk.controller.reconcile import Result
from opsdk.controller.retries import FailureStreaks, RetryLimit, requested_delay
from opsdk.queue.core import QueueItem
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.describe import repr_of, text_of
from opsdk.telemetry.reconcile_log import log_failure
from opsdk.telemetry.records import ReconcileOutcome as Outcome

# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_SUCCESS = Outcome.SUCCESS


class RequeuePolicy:
    """Decides when a request comes back after its reconcile: as the result, the error or the rate limiter says.

    It counts failures in the rate limiter of the queue, and adds nothing to the queue.

    Args:
        retry_limit: when a failing request is given up; None for never.
        finalizer_retry_limit: the same while finalizers fail.

    Attributes:
        streaks: the failures of requests.
    """

    def __init__(self, retry_limit: RetryLimit | None = None, finalizer_retry_limit: RetryLimit | None = None) -> None:
        self.streaks = FailureStreaks(retry_limit, finalizer_retry_limit)

    def after(self, queue: WorkQueue[Any], queue_item: QueueItem[Any], attempt: ReconcileAttempt) -> ReconcileEnd:
        """Return the outcome of an attempt, with what the controller adds to the queue."""
        if isinstance(attempt.result, HeldBack):
            return self.after_pause(queue, queue_item, attempt.result)
        if attempt.error is None:
            end = self.after_success(queue, queue_item, attempt.result)
            return ReconcileEnd(Outcome.WAITING, attempt.waits_for, requeues=end.requeues) if attempt.waits_for else end
        if attempt.terminal:
            return self.after_terminal_error(queue, queue_item, attempt.error)
        if attempt.finalizing:
            return self.after_finalizer_failure(queue, queue_item, attempt.error)
        return self.after_failure(queue, queue_item, attempt.error)

    def after_failure(self, queue: WorkQueue[Any], queue_item: QueueItem[Any], error: BaseException) -> ReconcileEnd:
        """Retry after the delay of the `TemporaryError`, or of the rate limiter, up to the `RetryLimit`.

        Call `forget` after a request is given up: until then, the next attempt is given up too.
        """
        return self._queue_retry(queue, queue_item, error, finalizing=False)

    def after_finalizer_failure(
        self, queue: WorkQueue[Any], queue_item: QueueItem[Any], error: BaseException
    ) -> ReconcileEnd:
        """Do as `after_failure`, up to the limit of finalizers."""
        return self._queue_retry(queue, queue_item, error, finalizing=True)

    def _queue_retry(
        self, queue: WorkQueue[Any], queue_item: QueueItem[Any], error: BaseException, *, finalizing: bool
    ) -> ReconcileEnd:
        item = queue_item.item
        wait = queue.next_delay(item, requested_delay(error))
        gave_up = self.streaks.failed(item, finalizing=finalizing, wait=wait, now=monotonic())
        if gave_up:
            log_failure(error, wait=None)
            return ReconcileEnd(Outcome.ERROR, detail=f"{gave_up}: {text_of(error)}", gave_up=gave_up)
        traceparents = traceparents_of(queue_item.causes)
        cause = ReconcileCause("retry", detail=shorten_error(error), traceparents=traceparents)
        log_failure(error, wait=wait)
        retry = Requeue(cause=cause, after=wait, priority=queue_item.priority)
        return ReconcileEnd(
            Outcome.ERROR, detail=f"retry in {shown_seconds(wait)}: {repr_of(error)}", requeues=(retry,)
        )

    def after_terminal_error(
        self, queue: WorkQueue[Any], queue_item: QueueItem[Any], error: BaseException
    ) -> ReconcileEnd:
        """Retry at the next event of the object."""
        log_failure(error, wait=None)
        self.forget(queue, queue_item.item)
        return ReconcileEnd(Outcome.ERROR, detail=f"not retried: {text_of(error)}")

    def forget(self, queue: WorkQueue[Any], item: Any) -> None:
        """Forget the failures of a request that succeeded, or that is given up for good."""
        queue.forget(item)
        self.streaks.forget(item)

    def after_success(self, queue: WorkQueue[Any], queue_item: QueueItem[Any], result: Result | None) -> ReconcileEnd:
        """Do what the result says. Only ``Result(requeue=True)`` keeps the count of failures."""
        item, priority = queue_item.item, queue_item.priority
        if result is not None and result.priority is not None:
            priority = result.priority
        if result is not None and (seconds := result.requeue_seconds) > 0:
            delay = f"{seconds:g} s"
            self.forget(queue, item)
            cause = ReconcileCause("requeue_after", detail=delay)
            timer = Requeue(cause=cause, after=seconds, priority=priority, timer=True)
            return ReconcileEnd(Outcome.REQUEUE_AFTER, detail=delay, requeues=(timer,))
        if result is not None and result.requeue:
            again = Requeue(cause=ReconcileCause("requeue"), is_failure=True, priority=priority)
            return ReconcileEnd(Outcome.REQUEUE, requeues=(again,))
        self.forget(queue, item)
        return ReconcileEnd(_SUCCESS)

    def after_pause(self, queue: WorkQueue[Any], queue_item: QueueItem[Any], held: HeldBack) -> ReconcileEnd:
        """Come back at the end of the pause. Without an end, the change of the annotation queues the request."""
        self.forget(queue, queue_item.item)
        pause = held.pause
        if pause.until is None:
            return ReconcileEnd(Outcome.PAUSED, detail=str(pause), is_repeated=not held.is_new)
        after = max((pause.until - utc_now()).total_seconds(), 0.0)
        detail, traceparents = f"ended at {format_time(pause.until)}", traceparents_of(queue_item.causes)
        cause = ReconcileCause("pause", detail=detail, traceparents=traceparents)
        timer = Requeue(cause=cause, after=after, priority=queue_item.priority, timer=True)
        return ReconcileEnd(Outcome.PAUSED, detail=str(pause), is_repeated=not held.is_new, requeues=(timer,))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
