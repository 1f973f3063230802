"""Controller: one work queue with its sources and workers.

Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller/controller.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from enum import Enum
from typing import Any

from opsdk.aio.blocking import BlockingPool
from opsdk.aio.clock import utc_now
from opsdk.aio.randomness import UuidSequence
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.base.cause import ReconcileCause
from opsdk.cluster.cluster import Cluster
from opsdk.controller.daemons import DaemonSpec
from opsdk.controller.debug_rows import DebugView, queue_rows, retry_rows, running_rows
from opsdk.controller.declaration import ReconcilerDeclaration, inspect_reconciler
from opsdk.controller.external import ExternalResource
from opsdk.controller.finalizers import FinalizerFunction
from opsdk.controller.journal import Journal, ReconcileRecord
from opsdk.controller.options import ControllerOptions
from opsdk.controller.parts import ControllerParts, make_daemons, make_queue
from opsdk.controller.pausing import Pause
from opsdk.controller.request_processor import RequestProcessor
from opsdk.controller.requeue import RequeuePolicy
from opsdk.controller.slow_reconciles import SlowReconciles
from opsdk.controller.source_group import SourceGroup
from opsdk.controller.steps.chain import ReconcileChain
from opsdk.controller.steps.hot_loops import HotLoops
from opsdk.controller.steps.own_changes import OwnChanges
from opsdk.controller.steps.unobserved_generations import UnobservedGenerations
from opsdk.controller.worker_pool import WorkerPool
from opsdk.errors import UsageError
from opsdk.event.request import Request
from opsdk.event.sources import EventSource
from opsdk.queue.core import QueueItem
from opsdk.telemetry.context import log_context
from opsdk.telemetry.failures import FunctionFailure
from opsdk.telemetry.records import ControllerPaused, Hooks, TelemetryHook, Workers
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

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
        fields_of: the kinds of which a reconcile may apply single fields. One of the finalizers has to take them back.
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
        fields_of: Collection[GroupKind] = (),
        generations: UnobservedGenerations | None = None,
    ) -> None:
        if not name:
            raise UsageError("a controller needs a name: pass name=...")
        options = options or ControllerOptions()
        is_inspected = isinstance(reconciler, ReconcilerDeclaration)
        declaration = reconciler if is_inspected else inspect_reconciler(reconciler, kind)
        hooks = Hooks([hook] if hook is not None else [])  # logs exceptions of the hook
        queue = make_queue(name, options, hooks, declaration.request_type)
        tasks = TaskOwner(f"controller {name}", on_error=self._on_worker_error)
        ids = UuidSequence()
        self._parts = ControllerParts(
            name=name,
            declaration=declaration,
            kind=kind,
            options=options,
            cluster=cluster,
            hook=hooks,
            journal=journal,
            queue=queue,
            sources=SourceGroup(name, sources, queue=queue, options=options, tasks=tasks),
            requeue=requeue or RequeuePolicy(options.retry_limit, options.finalizer_retry_limit),
            finalizers=finalizers or {},
            daemons=make_daemons(daemons, name=name, kind=kind, cluster=cluster, hook=hooks, journal=journal, ids=ids),
            externals=tuple(externals),
            fields_of=tuple(fields_of),
            own_changes=own_changes,
            generations=generations,
            hot_loops=HotLoops(options.hot_loop_limit),
            reconcile_ids=ids,
            threads=BlockingPool(f"controller {name}", options.threads),
            tasks=tasks,
        )
        self._build(self._parts)

    def _build(self, parts: ControllerParts) -> None:
        self.name, self.kind, self.options, self.hook = parts.name, parts.kind, parts.options, parts.hook
        self.queue, self.sources, self.requeue = parts.queue, parts.sources, parts.requeue
        self.hot_loops, self.reconcile_ids = parts.hot_loops, parts.reconcile_ids
        self.state = ControllerState.NEW
        self._workers = WorkerPool(parts.name, parts.queue)
        self._slow_reconciles = SlowReconciles(parts.name, parts.options, parts.queue.core)
        self.chain = ReconcileChain(parts, self._workers.is_contained, self._slow_reconciles)
        self._requests = RequestProcessor(parts, self.chain)
        self._pause_timer: asyncio.TimerHandle | None = None
        self._pause: Pause | None = None
        self._ready = asyncio.Event()
        self._synced = asyncio.Event()
        self._start_called = asyncio.Event()

    def needs_leader_election(self) -> bool:
        """Return `ControllerOptions.needs_leader_election`."""
        return self.options.needs_leader_election

    async def watch(self, source: EventSource) -> None:
        """Add a source; after the start, it begins at once. Raises `UsageError` after the controller has stopped."""
        if self.state is ControllerState.STOPPED:
            raise UsageError(f"controller {self.name} has stopped: it cannot watch another source")
        self.sources.add(source)
        if self.state is ControllerState.RUNNING:
            await self.sources.start(source)
            self.sources.wait_late(source)
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
        self._cancel_pause_timer()
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

    def _cancel_pause_timer(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None

    def debug_pages(self) -> Mapping[str, Callable[[], Iterable[object]]]:
        return {
            "controllers": lambda: queue_rows(self._view()),
            "running": lambda: running_rows(self._view(), self._workers.tasks),
            "retries": lambda: retry_rows(self._view()),
        }

    def _view(self) -> DebugView:
        return DebugView(
            name=self.name,
            cluster=self._parts.cluster.name if self._parts.cluster is not None else "",
            kind=str(self.kind.gvk) if self.kind is not None else "",
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
        self._cancel_pause_timer()
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
        self._parts.daemons.activate()
        log.info("controller %s starts its workers, max_concurrent_reconciles=%d", self.name, limit)
        started = Workers(controller=self.name, limit=limit, queue=self.queue.core, generations=self._parts.generations)
        self.hook.record(started)
        self.hook.record(ControllerPaused(controller=self.name, paused=self.queue.core.paused))
        self._workers.start(limit, self._parts.tasks, self._requests)
        self._ready.set()
        async with AsyncExitStack() as parts:
            parts.push_async_callback(self._parts.threads.aclose)
            parts.push_async_callback(self._parts.daemons.aclose)
            try:
                await self._workers.wait()
            finally:
                self.state = ControllerState.DRAINING
                await self._workers.stop(self.options.shutdown_timeout)

    def _on_worker_error(self, worker: str, error: BaseException) -> None:
        """Log the error of a worker. `_run_workers` raises it too, except while stopping."""
        log.error("%s ended: %r", worker, error, exc_info=error)

    async def reconcile_once(self, request: Any, *, causes: tuple[ReconcileCause, ...] = ()) -> ReconcileRecord:
        """Reconcile one request now, independently of the workers, and return its record.

        For tests and interactive use. A failure is in the record, and the request is queued again, as after any
        reconcile.
        """
        return await self._requests.reconcile(QueueItem(request, priority=0, waited=0.0, causes=causes), recorded=True)

    def __repr__(self) -> str:
        return f"<Controller {self.name} {self.state.value}: {len(self.queue.core.processing())} busy, {self.queue!r}>"
