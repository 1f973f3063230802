"""Reconciles the requests of a controller, one for each call: record, chain of steps, requeue.

Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller/controller.go, reconcileHandler
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from opsdk.aio.clock import loop_time, monotonic, utc_now
from opsdk.aio.containment import contain, is_panic
from opsdk.aio.task_stacks import author_frame_of
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.base.cause import ReconcileCause
from opsdk.client.activity import LIMIT, Activity
from opsdk.controller.context import Context, request_key
from opsdk.controller.journal import ReconcileRecord
from opsdk.controller.outcome import ReconcileEnd, shorten_error
from opsdk.controller.parts import ControllerParts
from opsdk.controller.steps.chain import ReconcileChain
from opsdk.controller.steps.step import ReconcilePass
from opsdk.event.request import Request
from opsdk.queue.core import QueueItem
from opsdk.telemetry.context import LogContext
from opsdk.telemetry.describe import describe
from opsdk.telemetry.reconcile_log import log_result, log_started, logs_reconciles
from opsdk.telemetry.records import Reconciled, ReconcileOutcome, ReconcileStarted
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds until a retry where the rate limiter or `retry_after_error` itself raises.
_RETRY_WITHOUT_LIMITER = 60.0


class RequestProcessor:
    """Reconciles requests.

    Args:
        parts: of the controller.
        chain: the steps and the reconciler.

    Attributes:
        hot_loops: the requests that reconcile themselves.
    """

    def __init__(self, parts: ControllerParts, chain: ReconcileChain) -> None:
        self._parts = parts
        self.hot_loops = parts.hot_loops
        self._chain = chain
        self._kind_name = str(parts.kind.gvk) if parts.kind is not None else ""
        self._limit = LIMIT if parts.journal is None else parts.journal.limit
        self._cluster_name = parts.cluster.name if parts.cluster is not None else ""

    def retry_after_error(self, queue_item: QueueItem[Any], error: BaseException) -> None:
        """Log and count an error outside of the reconcile, and queue its request again.

        For example, a hook or the rate limiter raises, or the ``__str__`` of the request.
        """
        self._report(error)
        cause = ReconcileCause("retry", detail=shorten_error(error))
        try:
            wait = self._parts.queue.next_delay(queue_item.item)
        except BaseException as broken:  # noqa: BLE001 - a rate limiter of the author may raise anything
            contain(broken)
            wait = _RETRY_WITHOUT_LIMITER
        self._parts.queue.add(queue_item.item, after=wait, priority=queue_item.priority, cause=cause)

    def recover(self, queue_item: QueueItem[Any], error: BaseException) -> None:
        """Queue a request again after `retry_after_error` or `WorkQueue.done` has raised; then log and count the error.

        What is raised here is logged: it must not end the worker.
        """
        steps = (
            partial(self._parts.queue.recover, queue_item.item, after=_RETRY_WITHOUT_LIMITER),
            partial(self._report, error),
        )
        for step in steps:
            try:
                step()
            except BaseException as broken:  # such as MemoryError, or a request without a hash
                contain(broken)
                log.critical("controller %s could not handle a failure of its own", self._parts.name, exc_info=broken)

    def _report(self, error: BaseException) -> None:
        """Log and count an error outside of the reconciler."""
        text, _ = describe(error)
        log.error("controller %s failed outside its reconciler, retrying: %s", self._parts.name, text, exc_info=error)
        self._parts.hook.record(
            Reconciled(
                controller=self._parts.name,
                result=ReconcileOutcome.ERROR,
                seconds=0.0,
                panicked=is_panic(error),
                error=error,
            )
        )

    def wait_in_hot_loop(self, queue_item: QueueItem[Any]) -> bool:
        """Queue a request of a hot loop for later. Returns False if its reconcile begins now."""
        wait = self.hot_loops.begins(queue_item.item, queue_item.causes, monotonic())
        for cause in queue_item.causes if wait else ():
            self._parts.queue.add(queue_item.item, after=wait, priority=queue_item.priority, cause=cause)
        return wait > 0

    # Not async, so that a pass which no hook traces has one coroutine less.
    def reconcile(
        self, queue_item: QueueItem[Any], *, recorded: bool | None = None
    ) -> Coroutine[Any, Any, ReconcileRecord]:
        """Reconcile one item, queue it again if needed, and return its record, which the journal keeps.

        Args:
            queue_item: as a worker took it.
            recorded: whether the record has reads and requests; by default if the journal keeps it.
        """
        journal = self._parts.journal
        if recorded is None:
            recorded = journal is not None and journal.size > 0
        work = ReconcilePass(
            queue_item=queue_item,
            ctx=self._context(queue_item),
            activity=Activity(enabled=recorded, limit=self._limit),
            key=ObjectKey(*request_key(queue_item.item)),
            kind=self._parts.kind,
        )
        return self._traced(work) if self._parts.hook.follows_reconciles else self._reconcile(work)

    async def _traced(self, work: ReconcilePass) -> ReconcileRecord:
        """Reconcile in the block of the hooks that trace reconciles."""
        with LogContext(lambda: self._log_fields(work)), self._parts.hook.reconcile(self._started_record(work)):
            return await self._reconcile(work)

    async def _reconcile(self, work: ReconcilePass) -> ReconcileRecord:
        queue_item = work.queue_item
        clock, started_at, is_logged = loop_time(), utc_now(), logs_reconciles()
        began = clock()
        with LogContext(lambda: self._log_fields(work)), work.activity:
            if is_logged:
                log_started(work.ctx.causes)
            try:
                attempt = await self._chain.proceed(work)
            finally:
                if work.end is not None and work.end.gave_up and not work.keeps_failures:
                    self._parts.requeue.forget(self._parts.queue, queue_item.item)
                if work.requeues:
                    self._queue_again(work)
            end = work.end
            assert end is not None
            seconds = clock() - began
            if is_logged and attempt.error is None:
                log_result(end, seconds)
            self._parts.hook.record(
                Reconciled(
                    controller=self._parts.name,
                    result=end.outcome,
                    seconds=seconds,
                    terminal=attempt.terminal or bool(end.gave_up),
                    panicked=attempt.panicked,
                    timed_out=attempt.timed_out,
                    error=attempt.error,
                )
            )
        record = self._record(work, end, started_at, seconds, attempt.error)
        journal = self._parts.journal
        # Later events of a paused object add nothing: they would replace other reconciles.
        if journal is not None and not end.is_repeated:
            journal.add(record)
        return record

    def _record(
        self,
        work: ReconcilePass,
        end: ReconcileEnd,
        started_at: datetime,
        seconds: float,
        error: BaseException | None,
    ) -> ReconcileRecord:
        ctx, activity, (namespace, name) = work.ctx, work.activity, work.key
        return ReconcileRecord(
            controller=self._parts.name,
            kind=self._kind_name,
            namespace=namespace,
            name=name,
            reconcile_id=ctx.reconcile_id,
            started_at=started_at,
            seconds=seconds,
            waited=work.queue_item.waited,
            attempt=ctx.attempt,
            causes=ctx.causes,
            reads=tuple(activity.reads),
            requests=tuple(activity.requests),
            more_reads=activity.more_reads,
            more_requests=activity.more_requests,
            result=end.outcome._value_,  # `value` is a property: two calls
            detail=end.detail,
            raised_at=author_frame_of(error) if error is not None else "",
            children=ctx.progress.records(),
        )

    def _queue_again(self, work: ReconcilePass) -> None:
        """Queue what the steps of a reconcile ask for. The queue joins them: the soonest, with all causes."""
        queue, item = self._parts.queue, work.queue_item.item
        for requeue in work.requeues:
            again = item if requeue.item is None else requeue.item
            after = queue.next_delay(again) if requeue.is_failure else requeue.after
            queue.add(again, after=after, priority=requeue.priority, cause=requeue.cause, timer=requeue.timer)

    def _log_fields(self, work: ReconcilePass) -> Mapping[str, str]:
        """Return the fields of the log lines of a pass: called for each line."""
        return self._started_record(work).log_fields()

    def _started_record(self, work: ReconcilePass) -> ReconcileStarted:
        ctx, (namespace, name) = work.ctx, work.key
        return ReconcileStarted(
            controller=self._parts.name,
            group=self._parts.kind.gvk.group if self._parts.kind is not None else "",
            kind=self._parts.kind.name if self._parts.kind is not None else "",
            namespace=namespace,
            name=name,
            reconcile_id=ctx.reconcile_id,
            causes=ctx.causes,
        )

    def _context(self, queue_item: QueueItem[Any]) -> Context:
        """Return the context of an item's reconcile."""
        limit = self._parts.options.reconciliation_timeout
        request = queue_item.item
        if self._cluster_name and type(request) is Request:
            # The queue belongs to one cluster, so its items need no name.
            request = Request(request.namespace, request.name, self._cluster_name)
        return Context(
            request=request,
            controller=self._parts.name,
            reconcile_id=self._parts.reconcile_ids.next(),
            causes=queue_item.causes,
            attempt=self._parts.queue.rate_limiter.num_requeues(queue_item.item),
            deadline=monotonic() + limit if limit else None,
            _cluster=self._parts.cluster,
            _is_watched=self._parts.sources.is_watched,
            _keeps_order=self._parts.options.delete_in_reverse,
            _externals=self._parts.externals,
        )
