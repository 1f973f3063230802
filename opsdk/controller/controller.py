"""Controller: one work queue with its sources and workers.

Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller/controller.go
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from opsdk.aio.blocking import BlockingPool
from opsdk.aio.clock import monotonic, utc_now
from opsdk.aio.containment import cancellations, contain, is_contained, is_panic
from opsdk.aio.randomness import UuidSequence, loop_random
from opsdk.aio.tasks import TaskOwner
from opsdk.aio.waiting import wait_ended
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind, as_unstructured
from opsdk.apimachinery.object import AnyObject, KubeObject
from opsdk.base.cause import ReconcileCause
from opsdk.client.activity import LIMIT, Activity, OwnChange
from opsdk.cluster.cluster import Cluster
from opsdk.controller.context import Context, request_key
from opsdk.controller.daemons import DaemonChange, Daemons, DaemonSpec, daemon_record
from opsdk.controller.debug_rows import DebugView, queue_rows, retry_rows, running_rows
from opsdk.controller.external import ExternalResource
from opsdk.controller.failure_report import FailureReport
from opsdk.controller.finalizers import FinalizerFunction, Finalizers
from opsdk.controller.hot_loops import HotLoops
from opsdk.controller.journal import Journal, ReconcileRecord
from opsdk.controller.last_reconciled import SpecRecorder
from opsdk.controller.options import ControllerOptions
from opsdk.controller.outcome import ReconcileAttempt, ReconcileEnd, shorten_error
from opsdk.controller.own_changes import OwnChanges, Versions
from opsdk.controller.pause_gate import PauseGate
from opsdk.controller.pausing import HeldBack, Pause
from opsdk.controller.progress import describe as describe_unready
from opsdk.controller.reconcile import AdaptedReconciler, ReconcilerAdapter
from opsdk.controller.requeue import RequeuePolicy
from opsdk.controller.slow_reconciles import SlowReconciles
from opsdk.controller.source_group import SourceGroup
from opsdk.controller.unobserved_generations import UnobservedGenerations
from opsdk.errors import ShutdownTimeoutError, UsageError
from opsdk.event.event import cause_of
from opsdk.event.request import Request
from opsdk.event.sources import EventSource
from opsdk.queue.core import LOW_PRIORITY, QueueItem
from opsdk.queue.work_queue import ShutDownError, WorkQueue
from opsdk.telemetry.context import LogContext, log_context
from opsdk.telemetry.describe import describe
from opsdk.telemetry.failures import FunctionFailure
from opsdk.telemetry.reconcile_log import log_result, log_started
from opsdk.telemetry.records import (
    ControllerPaused,
    DaemonChanged,
    Hooks,
    HotLoopFound,
    Reconciled,
    ReconcileOutcome,
    ReconcileStarted,
    TelemetryHook,
    Workers,
)
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds until a retry where the rate limiter itself raises.
_RETRY_WITHOUT_LIMITER = 60.0
# Seconds for a cancelled task to end.
_CANCEL_GRACE = 5.0
# The share of `max_interval` that is spread at random, so that objects of one list do not stay together.
_INTERVAL_JITTER = 0.1
# Priority of a request from the console: before everything that waits.
_NOW_PRIORITY = 100


class ControllerState(Enum):
    """State of a controller."""

    NEW = "new"
    SYNCING = "syncing"
    """Sources are started; workers start after all have synced."""
    RUNNING = "running"
    DRAINING = "draining"
    """No new work; running reconciles may finish."""
    STOPPED = "stopped"


class Controller:
    """Reconciles requests. A Runnable.

    A stop has three steps: no new work; drain for `shutdown_timeout` seconds; cancel. The first cancellation of `start`
    begins them; a second one cancels the reconciles at once.

    Args:
        name: unique name, for logs and metrics.
        reconciler: a function, or an object with ``reconcile``, in a form of `opsdk.controller.declaration`.
        sources: feed the work queue.
        options: see `ControllerOptions`.
        hook: receives telemetry records.
        kind: the reconciled kind; None for a controller whose requests are not objects.
        finalizers: run before the reconciler, see `opsdk.controller.finalizers`.
        cluster: `Context` reads from and writes to it. Required for finalizers and reconcilers of objects.
        journal: keeps a record of each reconcile.
        requeue: decides when a request is reconciled again.
        daemons: functions that run while an object exists, see `opsdk.controller.daemons`.
        own_changes: the writes whose events a source of the controller drops.
        externals: the external resources that a reconcile may apply. One of the finalizers has to delete them.
        generations: the changes of specs that a source of the controller shows.
    """

    def __init__(
        self,
        name: str,
        reconciler: Any,
        *,
        sources: Sequence[EventSource] = (),
        options: ControllerOptions | None = None,
        hook: TelemetryHook | None = None,
        kind: Kind[AnyObject] | None = None,
        finalizers: Mapping[str, FinalizerFunction] | None = None,
        cluster: Cluster | None = None,
        journal: Journal | None = None,
        requeue: RequeuePolicy | None = None,
        daemons: Sequence[DaemonSpec] = (),
        own_changes: OwnChanges | None = None,
        externals: Collection[ExternalResource[Any, Any]] = (),
        generations: UnobservedGenerations | None = None,
    ) -> None:
        if not name:
            raise UsageError("a controller needs a name: pass name=...")
        self.name = name
        self.kind = kind
        self._kind_name = str(kind.gvk) if kind is not None else ""
        options = self.options = options or ControllerOptions()
        self.state = ControllerState.NEW
        self.hook = Hooks([hook] if hook is not None else [])  # logs exceptions of the hook
        self._daemons = self._make_daemons(daemons)
        threads = self._threads = BlockingPool(f"controller {name}", options.threads)
        specs = self._specs = SpecRecorder.of(kind, options.last_reconciled, name)
        self.gate, functions = self._make_gate(kind, cluster), Finalizers(finalizers, threads)
        adapter = ReconcilerAdapter(reconciler, kind, functions, self._daemons, self.gate, threads=threads, specs=specs)
        if adapter.needs_cluster and cluster is None:
            raise UsageError(f"controller {name} reads objects: pass cluster=...")
        self.reconciler: AdaptedReconciler = adapter
        self.journal = journal
        self.requeue = requeue or RequeuePolicy(options.retry_limit, options.finalizer_retry_limit)
        self._own_changes, self._generations = own_changes, generations
        self.hot_loops = HotLoops(options.hot_loop_limit)
        self._externals = tuple(externals)
        self._failure_report = self._make_failure_report(kind, cluster)
        self._has_finish = bool(specs is not None or self._failure_report is not None or options.max_interval)
        self.reconcile_ids = UuidSequence()
        self._cluster = cluster
        self._cluster_name = cluster.name if cluster is not None else ""
        self.queue = self._make_queue(adapter.declaration.request_type)
        self._tasks = TaskOwner(f"controller {name}", on_error=self._on_worker_error)
        self.sources = SourceGroup(name, sources, queue=self.queue, options=options, tasks=self._tasks)
        self._slow_reconciles = SlowReconciles(name, options, self.queue.core)
        self._pause_timer: asyncio.TimerHandle | None = None
        self._pause: Pause | None = None
        self._ready = asyncio.Event()
        self._synced = asyncio.Event()
        self._start_called = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._cancelled_workers = False

    def _make_queue(self, item_type: type[Any]) -> WorkQueue[Any]:
        options, limiter = self.options, copy.deepcopy(self.options.rate_limiter)
        queue = WorkQueue[Any](
            self.name, rate_limiter=limiter, item_type=item_type, fairness=options.fairness, max_wait=options.max_wait
        )
        queue.hooks = self.hook.queue_hooks(self.name, queue.core)
        queue.keeps_traces = self.hook.follows_writes
        return queue

    def _make_daemons(self, daemons: Sequence[DaemonSpec]) -> Daemons:
        return Daemons(
            daemons,
            owner=self.name,
            make_context=self._daemon_context,
            read=self._read_object,
            on_change=self._on_daemon_change,
        )

    def _make_gate(self, kind: Kind[AnyObject] | None, cluster: Cluster | None) -> PauseGate | None:
        """Return what holds back paused objects, if the controller has objects and no option ignores pauses."""
        if self.options.pausing is None or kind is None or cluster is None:
            return None
        return PauseGate(self.name, kind, self.options.pausing, cluster, self.hook)

    def _make_failure_report(self, kind: Kind[AnyObject] | None, cluster: Cluster | None) -> FailureReport | None:
        """Return what shows outcomes on objects, if the controller has objects and an option asks for it."""
        options = self.options
        conditions = options.error_condition or options.ready_condition
        if kind is None or cluster is None or not (conditions or options.retry_limit or options.finalizer_retry_limit):
            return None
        return FailureReport(kind, options.error_condition, options.ready_condition)

    def needs_leader_election(self) -> bool:
        """Return the option of this name."""
        return self.options.needs_leader_election

    async def watch(self, source: EventSource) -> None:
        """Add a source; after the start, it begins at once. Raises `UsageError` after the controller has stopped."""
        if self.state is ControllerState.STOPPED:
            raise UsageError(f"controller {self.name} has stopped: it cannot watch another source")
        self.sources.add(source)
        if self.state is ControllerState.RUNNING:
            await self.sources.start(source)
            self._tasks.start(self.sources.sync_late(source), name=f"sync {source!r}")
        elif self.sources.started:
            await self.sources.start(source)

    async def unwatch(self, source: EventSource) -> None:
        """Remove a source: its events no longer reach the queue. What it queued before is reconciled. Idempotent."""
        await self.sources.remove(source)

    def pause(self, pause: Pause | None) -> None:
        """Start no reconcile until the end of `pause`, or until ``pause(None)``; running reconciles may finish.

        Requests wait in the queue, including those for finalizers of objects that are being deleted.
        """
        self._pause = pause
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        if pause is not None and pause.until is not None:
            seconds = max((pause.until - utc_now()).total_seconds(), 0.0)
            self._pause_timer = asyncio.get_running_loop().call_later(seconds, self.pause, None)
        if (pause is not None) != self.queue.core.paused:
            log.info("controller %s is %s", self.name, pause or "not paused any more")
            self.hook.record(ControllerPaused(controller=self.name, paused=pause is not None))
        if pause is not None:
            self.queue.pause()
        else:
            self.queue.resume()

    def debug_pages(self) -> Mapping[str, Callable[[], Iterable[object]]]:
        return {
            "controllers": lambda: queue_rows(self._view()),
            "running": lambda: running_rows(self._view(), self._workers),
            "retries": lambda: retry_rows(self._view()),
        }

    def _view(self) -> DebugView:
        return DebugView(
            name=self.name,
            cluster=self._cluster_name,
            kind=self._kind_name,
            queue=self.queue,
            state=self.state.value,
            pause=self._pause,
            limit=self.options.max_concurrent_reconciles,
            problems=self.problems(),
            failing_functions=list(map(str, self.failing_functions())),
            hot_loops=self.hot_loops,
        )

    def enqueue_now(self, controller: str, namespace: str, name: str) -> str:
        """Queue a request; see `opsdk.base.runnable.Enqueues`."""
        if controller != self.name:
            return ""
        if self.queue.standby or self.state is not ControllerState.RUNNING:
            raise UsageError(f"controller {self.name} does not run on this replica: ask the replica that leads")
        if not issubclass(Request, self.queue.item_type):
            raise UsageError(f"the requests of controller {self.name} are not keys of objects")
        request = Request(namespace, name)
        self.queue.add(request, priority=_NOW_PRIORITY, cause=ReconcileCause("console", detail="reconcile now"))
        if self.queue.core.paused:
            return "queued until the pause of the controller ends"
        return "queued after the reconcile that runs" if request in self.queue.core.processing() else "queued"

    async def wait_ready(self) -> None:
        """Return when the workers run."""
        await self._ready.wait()

    async def wait_synced(self) -> None:
        """Return when the sources have synced, in `start` or before it in `warmup`."""
        await self._synced.wait()

    # -------------------------------------------------------------- life cycle
    async def start(self) -> None:
        """Sync the sources, then reconcile until cancelled.

        Raises:
            CacheSyncError: a source did not sync in time.
            ShutdownTimeoutError: reconciles ignore their cancellation.
            UsageError: the controller was started before.
        """
        if self.state is not ControllerState.NEW:
            raise UsageError(
                f"controller {self.name} was started more than once: it was probably added to a manager twice"
            )
        self.state = ControllerState.SYNCING
        self._start_called.set()
        try:
            with log_context(controller=self.name):
                self.queue.activate()
                await self.sources.sync()
                self._synced.set()
                await self._run_workers()
        finally:
            await self._shut_down()

    async def warmup(self) -> None:
        """Start the sources before leadership, so that the caches are full when the workers start.

        The queue of a standby replica keeps no requests for objects: `start` queues what the caches hold.

        Runs until `start` takes over. A cancellation before that closes the sources. Raises what `start` raises.
        """
        if self.state is not ControllerState.NEW or not self.options.enable_warmup:
            return
        try:
            with log_context(controller=self.name):
                self.queue.stand_by()
                await self.sources.sync()
                self._synced.set()
                await self._start_called.wait()
        finally:
            if not self._start_called.is_set():
                await self._shut_down()

    async def _shut_down(self) -> None:
        self.state = ControllerState.STOPPED
        self._slow_reconciles.close()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        self.queue.shut_down()
        await self.sources.close()

    def problems(self) -> list[str]:
        """Return why the controller does not follow all its sources now: missing kinds, namespaces or permissions."""
        if self.state in (ControllerState.NEW, ControllerState.STOPPED) and not self.sources.started:
            return []
        return self.sources.problems()

    def failing_functions(self) -> list[FunctionFailure]:
        """Return the predicates, handlers and other functions of sources that raise now."""
        return self.sources.failing_functions()

    async def _run_workers(self) -> None:
        """Run the workers until the first of them ends, then stop the others."""
        limit = self.options.max_concurrent_reconciles
        self.state = ControllerState.RUNNING
        self._daemons.activate()
        log.info("controller %s starts its workers, max_concurrent_reconciles=%d", self.name, limit)
        started = Workers(controller=self.name, limit=limit, queue=self.queue.core, generations=self._generations)
        self.hook.record(started)
        self.hook.record(ControllerPaused(controller=self.name, paused=self.queue.core.paused))
        workers = [self._tasks.start(self._worker(), name=f"worker {number}") for number in range(limit)]
        self._workers = workers
        self._ready.set()
        try:
            # Workers end only by shutdown. Any other end is a bug, which must not stay hidden.
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            for worker in done:
                worker.result()
        finally:
            try:
                await self._stop_workers(workers)
            finally:
                await self._daemons.aclose()
                await self._threads.aclose()

    async def _stop_workers(self, workers: list[asyncio.Task[None]]) -> None:
        self.state = ControllerState.DRAINING
        self.queue.shut_down()
        try:
            if pending := [w for w in workers if not w.done()]:
                await asyncio.wait(pending, timeout=self.options.shutdown_timeout)
        finally:
            await self._cancel_workers(workers)

    async def _cancel_workers(self, workers: list[asyncio.Task[None]]) -> None:
        pending = [w for w in workers if not w.done()]
        if not pending:
            return
        stuck = ", ".join(str(item) for item in self.queue.core.processing())
        log.warning("controller %s cancels reconciles that did not finish in time: %s", self.name, stuck)
        self._cancelled_workers = True
        for worker in pending:
            worker.cancel()
        if await wait_ended(pending, _CANCEL_GRACE):
            stuck = ", ".join(str(item) for item in self.queue.core.processing())
            raise ShutdownTimeoutError(f"controller {self.name}: reconciles ignore their cancellation: {stuck}")

    def _daemon_context(self, request: Request, obj: KubeObject, failures: int) -> Context:
        return Context(
            request=request,
            controller=self.name,
            reconcile_id=self.reconcile_ids.next(),
            attempt=failures,
            object=obj,
            _cluster=self._cluster,
        )

    async def _read_object(self, request: Request) -> KubeObject | None:
        assert self.kind is not None
        assert self._cluster is not None
        return await self._cluster.client.get_or_none(self.kind, request.key)

    def _on_daemon_change(self, change: DaemonChange) -> None:
        self.hook.record(
            DaemonChanged(controller=self.name, daemon=change.daemon, event=change.event.value, running=change.running)
        )
        if self.journal is not None:
            self.journal.add(daemon_record(self.name, self._kind_name, change))

    def _on_worker_error(self, worker: str, error: BaseException) -> None:
        """Log the error of a worker. `_run_workers` raises it too, except while stopping."""
        log.error("%s ended: %r", worker, error, exc_info=error)

    # -------------------------------------------------------------- work
    async def _worker(self) -> None:
        task = asyncio.current_task()
        while True:
            before = cancellations(task)
            try:
                queue_item = await self.queue.get()
            except ShutDownError:
                return
            except asyncio.CancelledError as error:
                # A timer of the last reconcile that was not removed must not end the worker.
                if not self._is_contained(error, task, before):
                    raise
                continue
            try:
                if task is not None:
                    task.set_name(f"{self.name}/reconcile {queue_item.item}")  # the watchdog names the task that blocks
                if queue_item.item not in self.hot_loops.rows or not self._wait_in_hot_loop(queue_item):
                    await self._reconcile(queue_item, recorded=self.journal is not None and self.journal.size > 0)
            except BaseException as error:
                if not self._is_contained(error, task, before):
                    raise
                self._retry_after_error(queue_item, error)
            finally:
                self.queue.done(queue_item.item)

    def _is_contained(self, error: BaseException, task: asyncio.Task[Any] | None, before: int) -> bool:
        """Whether an exception stays with its request, see `opsdk.aio.containment`."""
        # Nothing but this controller cancels its workers: a library that cancels its own task must not end one.
        is_foreign = task in self._workers and not self._cancelled_workers
        return (is_foreign and isinstance(error, asyncio.CancelledError)) or is_contained(
            error, task=task, cancelling=before
        )

    def _retry_after_error(self, queue_item: QueueItem[Any], error: BaseException) -> None:
        """Log, count and queue again a request whose error no attempt holds.

        The error is that of a request without a text, of a rate limiter, of a hook: the worker continues.
        """
        text, _ = describe(error)
        log.error("controller %s failed outside its reconciler, retrying: %s", self.name, text, exc_info=error)
        outcome, panicked = ReconcileOutcome.ERROR, is_panic(error)
        self.hook.record(Reconciled(controller=self.name, result=outcome, seconds=0.0, panicked=panicked, error=error))
        cause = ReconcileCause("retry", detail=shorten_error(error))
        try:
            wait = self.queue.next_delay(queue_item.item)
        except BaseException as broken:  # noqa: BLE001 - a rate limiter of the author may raise anything
            contain(broken)
            wait = _RETRY_WITHOUT_LIMITER
        self.queue.add(queue_item.item, after=wait, priority=queue_item.priority, cause=cause)

    def _wait_in_hot_loop(self, queue_item: QueueItem[Any]) -> bool:
        """Queue a request of a hot loop for later. Returns False if its reconcile begins now."""
        wait = self.hot_loops.begins(queue_item.item, queue_item.causes, monotonic())
        for cause in queue_item.causes if wait else ():
            self.queue.add(queue_item.item, after=wait, priority=queue_item.priority, cause=cause)
        return wait > 0

    async def reconcile_once(self, request: Any, *, causes: tuple[ReconcileCause, ...] = ()) -> ReconcileRecord:
        """Reconcile one request now, independently of the workers, and return its record.

        For tests and interactive use. A failure is in the record, and the request is queued again, as after any
        reconcile.
        """
        return await self._reconcile(QueueItem(request, priority=0, waited=0.0, causes=causes), recorded=True)

    async def _reconcile(self, queue_item: QueueItem[Any], *, recorded: bool) -> ReconcileRecord:
        """Reconcile one item, queue it again if needed, and return its record, which the journal keeps."""
        ctx = self._context(queue_item)
        started = self._started_record(ctx)
        began, started_at = monotonic(), utc_now()
        with (
            LogContext(started.log_fields),
            self.hook.reconcile(started),
            Activity(enabled=recorded, limit=LIMIT if self.journal is None else self.journal.limit) as activity,
        ):
            log_started(ctx.causes)
            attempt, end = await self._attempt(ctx, queue_item, activity)
            seconds = monotonic() - began
            if attempt.error is None:
                log_result(end, seconds)
            self.hook.record(
                Reconciled(
                    controller=self.name,
                    result=end.outcome,
                    seconds=seconds,
                    terminal=attempt.terminal or bool(end.gave_up),
                    panicked=attempt.panicked,
                    timed_out=attempt.timed_out,
                    error=attempt.error,
                )
            )
        record = ReconcileRecord(
            controller=self.name,
            kind=self._kind_name,
            namespace=started.namespace,
            name=started.name,
            reconcile_id=ctx.reconcile_id,
            started_at=started_at,
            seconds=seconds,
            waited=queue_item.waited,
            attempt=ctx.attempt,
            causes=ctx.causes,
            reads=tuple(activity.reads),
            requests=tuple(activity.requests),
            more_reads=activity.more_reads,
            more_requests=activity.more_requests,
            result=end.outcome._value_,  # `value` is a property: two calls
            detail=end.detail,
            children=ctx.progress.records(),
        )
        # Later events of a paused object add nothing: they would replace other reconciles.
        if self.journal is not None and not end.is_repeated:
            self.journal.add(record)
        return record

    async def _attempt(
        self, ctx: Context, queue_item: QueueItem[Any], activity: Activity
    ) -> tuple[ReconcileAttempt, ReconcileEnd]:
        """Call the reconciler, and queue the request again if needed, or if its object has changed in the meantime."""
        own, generations = self._own_changes, self._generations
        key = ctx.request.key if own is not None or generations is not None else None
        if own is not None:
            own.begin(key)
        try:
            change = generations.changes.get(key) if generations is not None and key is not None else None
            generation = change.newest if change is not None else 0
            attempt = await self._call_reconciler(ctx)
            end = self._queue_again(queue_item, attempt)
            if attempt.error is not None and self._failure_report is not None:
                await self._show_failure(self._failure_report, ctx, queue_item, attempt, end)
            elif end.gave_up:
                self.requeue.forget(self.queue, queue_item.item)
            if generation and generations is not None and key is not None:
                generations.end(key, generation, attempt)
        finally:
            if own is not None:
                changes = activity.own_changes
                for event in own.end(key, self._versions_of(key, changes) if changes else ()):
                    self.queue.add(queue_item.item, cause=cause_of(event, traced=self.queue.keeps_traces))
        if self.options.hot_loop_limit and (activity.requests or queue_item.item in self.hot_loops.rows):
            await self._check_hot_loop(ctx, queue_item, activity)
        return attempt, end

    async def _check_hot_loop(self, ctx: Context, queue_item: QueueItem[Any], activity: Activity) -> None:
        """Report a request that reconciles itself repeatedly: once in the log, as a metric, and as an Event."""
        hot_loop = self.hot_loops.ended(queue_item.item, activity.requests, monotonic())
        if hot_loop is None:
            return
        log.warning("controller %s: %s %s", self.name, ctx.request, hot_loop)
        self.hook.record(HotLoopFound(controller=self.name, request=str(ctx.request), description=str(hot_loop)))
        if self.kind is None or self._cluster is None:
            return
        obj = ctx.object or await ctx.client.get_or_none(
            as_unstructured(self.kind), ObjectKey(*request_key(ctx.request))
        )
        if obj is not None:
            ctx.event("HotLoop", str(hot_loop), type="Warning", regarding=obj, action="Reconcile")

    def _started_record(self, ctx: Context) -> ReconcileStarted:
        namespace, name = request_key(ctx.request)
        return ReconcileStarted(
            controller=self.name,
            group=self.kind.gvk.group if self.kind is not None else "",
            kind=self.kind.name if self.kind is not None else "",
            namespace=namespace,
            name=name,
            reconcile_id=ctx.reconcile_id,
            causes=ctx.causes,
        )

    def _context(self, queue_item: QueueItem[Any]) -> Context:
        """Return the context of an item's reconcile."""
        limit = self.options.reconciliation_timeout
        request = queue_item.item
        if self._cluster_name and type(request) is Request:
            # The queue belongs to one cluster, so its items need no name.
            request = Request(request.namespace, request.name, self._cluster_name)
        return Context(
            request=request,
            controller=self.name,
            reconcile_id=self.reconcile_ids.next(),
            causes=queue_item.causes,
            attempt=self.queue.rate_limiter.num_requeues(queue_item.item),
            deadline=monotonic() + limit if limit else None,
            _cluster=self._cluster,
            _is_watched=self.sources.is_watched,
            _keeps_order=self.options.delete_in_reverse,
            _externals=self._externals,
        )

    async def _call_reconciler(self, ctx: Context) -> ReconcileAttempt:
        """Call the reconciler within its timeout, and what follows a success.

        Raises only what ends the worker, see `opsdk.aio.containment`.
        """
        scope: asyncio.Timeout | None = None
        task = asyncio.current_task()
        before = cancellations(task)
        self._slow_reconciles.begin()
        try:
            if not self.options.reconciliation_timeout:
                result = await self.reconciler.reconcile(ctx.request, ctx)
            else:
                async with asyncio.timeout(self.options.reconciliation_timeout) as scope:
                    result = await self.reconciler.reconcile(ctx.request, ctx)
            in_interval = self._has_finish and not isinstance(result, HeldBack) and await self._finish(ctx)
            waits_for = describe_unready(unready) if (unready := ctx.progress.unready()) else ""
        except BaseException as error:
            if not self._is_contained(error, task, before):
                raise
            return ReconcileAttempt.failed(
                error, timed_out=scope is not None and scope.expired(), finalizing=ctx.finalizing
            )
        timed_out = scope is not None and scope.expired()
        return ReconcileAttempt(result=result, timed_out=timed_out, waits_for=waits_for, in_interval=in_interval)

    async def _finish(self, ctx: Context) -> bool:
        """Record the spec and the success of a reconcile. What raises here fails it.

        Returns whether `max_interval` applies: the object exists.
        """
        if self._specs is not None:
            await self._specs.write(ctx)
        if self._failure_report is not None:
            await self._failure_report.report_success(ctx)
        if not self.options.max_interval:
            return False
        if self.kind is None or ctx.object is not None:
            return True
        return await ctx.client.get_or_none(as_unstructured(self.kind), ctx.request.key) is not None

    def _queue_again(self, queue_item: QueueItem[Any], attempt: ReconcileAttempt) -> ReconcileEnd:
        """Queue the request again, if its attempt or the longest interval needs that."""
        if isinstance(attempt.result, HeldBack):
            return self.requeue.after_pause(self.queue, queue_item, attempt.result)
        if attempt.error is None:
            end = self.requeue.after_success(self.queue, queue_item, attempt.result)
            if attempt.waits_for:
                end = ReconcileEnd(ReconcileOutcome.WAITING, attempt.waits_for)
            if attempt.in_interval and end.outcome in (ReconcileOutcome.SUCCESS, ReconcileOutcome.WAITING):
                self._queue_next_interval(queue_item)
            return end
        if attempt.terminal:
            return self.requeue.after_terminal_error(self.queue, queue_item, attempt.error)
        if attempt.finalizing:
            return self.requeue.after_finalizer_failure(self.queue, queue_item, attempt.error)
        return self.requeue.after_failure(self.queue, queue_item, attempt.error)

    def _queue_next_interval(self, queue_item: QueueItem[Any]) -> None:
        """Queue the request for the longest interval."""
        after = self.options.max_seconds * (1 - _INTERVAL_JITTER * loop_random().random())
        cause = ReconcileCause("max_interval", detail=f"{after:.3g} s")
        self.queue.add(queue_item.item, after=after, priority=LOW_PRIORITY, cause=cause, timer=True)

    async def _show_failure(
        self,
        report: FailureReport,
        ctx: Context,
        queue_item: QueueItem[Any],
        attempt: ReconcileAttempt,
        end: ReconcileEnd,
    ) -> None:
        """Show a failed attempt on the object."""
        assert attempt.error is not None
        is_shown = await report.report_failure(ctx, attempt.error, end)
        if is_shown and end.gave_up:
            self.requeue.forget(self.queue, queue_item.item)
        elif not is_shown and (end.gave_up or attempt.terminal):
            # No retry follows that would report it: the next attempt fails as this one, and reports again.
            self.queue.add_rate_limited(queue_item.item, cause=ReconcileCause("retry", detail="report the failure"))

    def _versions_of(self, key: ObjectKey | None, changes: Sequence[OwnChange]) -> Sequence[Versions]:
        """Return the changes that are of the reconciled object."""
        assert self.kind is not None
        gvk = self.kind.gvk
        return [(c.before, c.after) for c in changes if (c.group, c.kind, c.key) == (gvk.group, gvk.kind, key)]

    def __repr__(self) -> str:
        return f"<Controller {self.name} {self.state.value}: {len(self.queue.core.processing())} busy, {self.queue!r}>"
