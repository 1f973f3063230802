"""Controller: one work queue with its sources and workers.

Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller/controller.go
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.randomness import loop_uuid4
from opsdk.aio.tasks import TaskOwner
from opsdk.aio.timeout import ClockTimeout, ClockTimeoutError, timeout
from opsdk.aio.waiting import finish, wait_ended
from opsdk.controller.reconcile import RECONCILE_ID, ReconcileFunction, Reconciler, Result, as_reconciler
from opsdk.errors import CacheSyncError, ConflictError, OpsdkError, ShutdownTimeoutError, TerminalError, UsageError
from opsdk.event.request import Request
from opsdk.queue.core import QueueItem
from opsdk.queue.rate_limiters import RateLimiter
from opsdk.queue.work_queue import QueueHooks, ShutDownError, WorkQueue
from opsdk.sources import EventSource, KindSource
from opsdk.telemetry.context import log_context
from opsdk.telemetry.failures import FunctionFailure
from opsdk.telemetry.records import Hooks, Queued, Reconciled, TelemetryHook, Workers
from opsdk.telemetry.records import ReconcileOutcome as Outcome

log = logging.getLogger(__name__)

# Seconds for a source to sync, as controller-runtime's CacheSyncTimeout.
_SYNC_TIMEOUT = 120.0
# Seconds after which a running reconcile is mentioned in the log.
_SLOW_RECONCILE = 60.0
# Seconds for a cancelled task to end, and for a late source to report its own error.
_CANCEL_GRACE = 5.0


class SyncPolicy(Enum):
    """What a controller does when a source has not synced in time."""

    FAIL = "fail"
    """Raise `CacheSyncError`, which ends the manager, as controller-runtime does."""
    RETRY = "retry"
    """Wait on. Other controllers run; readiness and the log say what is missing."""
    DEGRADE = "degrade"
    """Reconcile without the source. It joins when it has synced; until then readiness says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Options of a `Controller`. Times are in seconds.

    Attributes:
        max_concurrent_reconciles: number of workers; two workers never process the same key.
        cache_sync_timeout: time for every source to sync; what happens then, `sync_policy` decides. None is 120 s.
        sync_policy: what happens when a source cannot sync because its CRD, namespace or permission is missing. None is
            FAIL with a `cache_sync_timeout`, else RETRY.
        reconciliation_timeout: time for one reconcile before it is cancelled and counts as failed; 0 for no limit.
        shutdown_timeout: time for running reconciles to finish at stop, before they are cancelled.
        needs_leader_election: run only on the elected replica.
        enable_warmup: start the sources before this replica leads, so that its caches and its queue are full when it
            does. Reconciles start with leadership only.
        rate_limiter: delays after failures; default: per key from 5 ms to 1000 s. Each controller gets a copy of its
            own, so that options may be shared.
    """

    max_concurrent_reconciles: int = 1
    cache_sync_timeout: float | None = None
    sync_policy: SyncPolicy | None = None
    reconciliation_timeout: float = 0.0
    shutdown_timeout: float = 20.0
    needs_leader_election: bool = True
    enable_warmup: bool = True
    rate_limiter: RateLimiter[Request] | None = None

    def __post_init__(self) -> None:
        if self.max_concurrent_reconciles < 1:
            raise UsageError(f"max_concurrent_reconciles is {self.max_concurrent_reconciles}: it must be at least 1")


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

    Stop has three steps: no new work; drain for `shutdown_timeout` seconds; cancel. The first cancellation of `start`
    begins them; a second one cancels the reconciles at once.

    Args:
        name: unique name, for logs and metrics.
        reconciler: an object with ``reconcile``, or an async function.
        sources: feed the work queue.
        options: see `ControllerOptions`.
        clock: source of time.
        hook: receives telemetry records.
        kind: the reconciled kind, for logs.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler | ReconcileFunction,
        *,
        sources: Sequence[EventSource] = (),
        options: ControllerOptions | None = None,
        clock: Clock = LOOP_CLOCK,
        hook: TelemetryHook | None = None,
        kind: str = "",
    ) -> None:
        if not name:
            raise UsageError("a controller needs a name")
        self.name = name
        self.kind = kind
        self.options = options or ControllerOptions()
        self.state = ControllerState.NEW
        self.reconciler = as_reconciler(reconciler)
        self._hook = Hooks([hook] if hook is not None else [])  # logs exceptions of the hook
        self._clock = clock
        self._sources = list(sources)
        self._started_sources: set[int] = set()
        self._unsynced: dict[int, CacheSyncError | None] = {}
        self.queue: WorkQueue[Request] = WorkQueue(
            name, rate_limiter=copy.deepcopy(self.options.rate_limiter), clock=clock, hooks=_Hooks(self)
        )
        self._tasks = TaskOwner(f"controller {name}", on_error=self._on_worker_error, clock=clock)
        self._active = 0
        o = self.options
        self._sync_timeout = _SYNC_TIMEOUT if o.cache_sync_timeout is None else o.cache_sync_timeout
        default = SyncPolicy.RETRY if o.cache_sync_timeout is None else SyncPolicy.FAIL
        self._sync_policy = o.sync_policy or default
        self._ready = asyncio.Event()
        self._start_called = asyncio.Event()

    def needs_leader_election(self) -> bool:
        """Return the option of this name."""
        return self.options.needs_leader_election

    async def watch(self, source: EventSource) -> None:
        """Add a source; after the start, it begins at once. Raises `UsageError` after the controller has stopped."""
        if self.state is ControllerState.STOPPED:
            raise UsageError(f"controller {self.name} has stopped: it cannot watch another source")
        self._sources.append(source)
        if self.state is ControllerState.RUNNING:
            await self._start_source(source)
            self._tasks.start(self._sync_late(source), name=f"sync {source!r}")
        elif self._started_sources:
            await self._start_source(source)

    async def unwatch(self, source: EventSource) -> None:
        """Remove a source: its events no longer reach the queue. What it queued before is reconciled. Idempotent."""
        if source in self._sources:
            self._sources.remove(source)
            self._unsynced.pop(id(source), None)
            await source.aclose()

    async def wait_ready(self) -> None:
        """Return when the workers run."""
        await self._ready.wait()

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
                await self._sync_sources()
                await self._work()
        finally:
            self.state = ControllerState.STOPPED
            self.queue.shut_down()
            await finish(self._close_sources(), name=f"controller {self.name}/close sources")

    async def warmup(self) -> None:
        """Start the sources before leadership, so that the queue is full when the workers start.

        Runs until `start` takes over. Cancelled before that, it closes the sources. Errors as `start`.
        """
        if self.state is not ControllerState.NEW or not self.options.enable_warmup:
            return
        try:
            with log_context(controller=self.name):
                await self._sync_sources()
                await self._start_called.wait()
        finally:
            if not self._start_called.is_set():
                self.state = ControllerState.STOPPED
                self.queue.shut_down()
                await finish(self._close_sources(), name=f"controller {self.name}/close sources")

    async def _sync_sources(self) -> None:
        """Start all sources beside each other and wait until each has synced. Raises the first failure at once."""
        syncing = [
            asyncio.get_running_loop().create_task(self._sync_source(source), name=f"{self.name}/sync {source!r}")
            for source in self._sources
        ]
        try:
            for next_done in asyncio.as_completed(syncing):
                await next_done
        except Exception as error:
            error.add_note(f"while controller {self.name} waited for its sources")
            raise
        finally:
            for task in syncing:
                task.cancel()
            await wait_ended(syncing, _CANCEL_GRACE, self._clock)

    def problems(self) -> list[str]:
        """Return why the controller does not follow all its sources now: kinds, namespaces, permissions that miss."""
        if self.state in (ControllerState.NEW, ControllerState.STOPPED) and not self._started_sources:
            return []
        found = []
        for source in self._sources:
            detail = source.problem() if isinstance(source, KindSource) else ""
            if not detail and id(source) in self._unsynced:
                detail = str(self._unsynced[id(source)] or f"{source!r} has not synced")
            if detail:
                found.append(detail)
        return found

    def failing_functions(self) -> list[FunctionFailure]:
        """Return the predicates and handlers that raise now."""
        sources = (source for source in self._sources if isinstance(source, KindSource))
        return [failure for source in sources for failure in source.failures.failing()]

    async def _close_sources(self) -> None:
        for source in self._sources:
            try:
                await source.aclose()
            except Exception:
                log.exception("controller %s: %r did not close well", self.name, source)

    async def _sync_source(self, source: EventSource) -> None:
        self._unsynced.setdefault(id(source), None)
        limit = self._sync_timeout
        try:
            async with timeout(self._clock, limit):
                await self._start_source(source)
        except ClockTimeoutError as error:
            raise CacheSyncError(
                f"controller {self.name}: {source!r} did not start within {limit:g} s: its start() must not block"
            ) from error
        while True:
            try:
                await self._wait_synced(source)
                break
            except CacheSyncError as error:
                if self._sync_policy is SyncPolicy.FAIL:
                    raise CacheSyncError(f"controller {self.name} cannot start: {error}") from error.__cause__ or error
                log.error("controller %s waits: %s", self.name, error)  # noqa: TRY400 - it says what is missing
                self._unsynced[id(source)] = error
                if self._sync_policy is SyncPolicy.DEGRADE:
                    self._tasks.start(self._sync_late(source), name=f"sync {source!r}")
                    return
        self._unsynced.pop(id(source), None)

    async def _wait_synced(self, source: EventSource) -> None:
        """Wait for a source. Raises `CacheSyncError` after ``cache_sync_timeout``."""
        limit = self._sync_timeout
        try:
            # The source's own error is more precise: wait a little longer for it.
            async with timeout(self._clock, limit + _CANCEL_GRACE):
                await source.wait_synced(limit)
        except ClockTimeoutError as error:
            raise CacheSyncError(f"controller {self.name}: {source!r} did not sync within {limit:g} s") from error

    async def _sync_late(self, source: EventSource) -> None:
        """Wait for a source while the workers run."""
        self._unsynced.setdefault(id(source), None)
        while True:
            try:
                await self._wait_synced(source)
                break
            except CacheSyncError as error:
                log.error("controller %s still misses a source: %s", self.name, error)  # noqa: TRY400 - as above
                self._unsynced[id(source)] = error
            except OpsdkError as error:
                log.error("controller %s goes on without %r: %s", self.name, source, error)  # noqa: TRY400 - as above
                return
        self._unsynced.pop(id(source), None)

    async def _start_source(self, source: EventSource) -> None:
        # By identity: a source that is added while others sync must not start twice.
        if id(source) not in self._started_sources:
            self._started_sources.add(id(source))
            await source.start(self.queue)

    async def _work(self) -> None:
        limit = self.options.max_concurrent_reconciles
        self.state = ControllerState.RUNNING
        log.info("controller %s starts %d workers", self.name, limit)
        self._record_workers()
        workers = [self._tasks.start(self._worker(), name=f"worker {number}") for number in range(limit)]
        self._ready.set()
        try:
            # Workers end only by shutdown. Any other end is a bug, which must not stay hidden.
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            for worker in done:
                worker.result()
        finally:
            await self._stop(workers)

    async def _stop(self, workers: list[asyncio.Task[None]]) -> None:
        self.state = ControllerState.DRAINING
        self.queue.shut_down()
        try:
            if pending := [w for w in workers if not w.done()]:
                async with timeout(self._clock, self.options.shutdown_timeout):
                    await asyncio.wait(pending)
        except ClockTimeoutError:
            pass  # what still runs is cancelled
        finally:
            await self._cancel(workers)

    async def _cancel(self, workers: list[asyncio.Task[None]]) -> None:
        pending = [w for w in workers if not w.done()]
        if not pending:
            return
        stuck = ", ".join(str(item) for item in self.queue.core.processing())
        log.warning("controller %s cancels reconciles that did not finish in time: %s", self.name, stuck)
        for worker in pending:
            worker.cancel()
        if await wait_ended(pending, _CANCEL_GRACE, self._clock):
            stuck = ", ".join(str(item) for item in self.queue.core.processing())
            raise ShutdownTimeoutError(f"controller {self.name}: reconciles ignore their cancellation: {stuck}")

    def _on_worker_error(self, worker: str, error: BaseException) -> None:
        """While running, `_work` raises the error; while stopping, this log line is the only report."""
        log.error("%s ended: %r", worker, error, exc_info=error)

    # -------------------------------------------------------------- work
    async def _worker(self) -> None:
        while True:
            try:
                queue_item = await self.queue.get()
            except ShutDownError:
                return
            self._active += 1
            self._record_workers()
            if (task := asyncio.current_task()) is not None:
                task.set_name(f"{self.name}/reconcile {queue_item.item}")  # the watchdog names the task that blocks
            try:
                await self._reconcile(queue_item)
            finally:
                self._active -= 1
                self._record_workers()
                self.queue.done(queue_item.item)

    async def _reconcile(self, queue_item: QueueItem[Request]) -> None:
        request = queue_item.item
        began = self._clock.now()
        reconcile_id = str(loop_uuid4())
        token = RECONCILE_ID.set(reconcile_id)
        fields = {
            "controllerKind": self.kind,
            "namespace": request.namespace,
            "name": request.name,
            "reconcileID": reconcile_id,
        }
        try:
            with log_context(**{k: v for k, v in fields.items() if v}):
                outcome, notes = await self._attempt(queue_item)
        finally:
            RECONCILE_ID.reset(token)
        self._hook.record(Reconciled(controller=self.name, result=outcome, seconds=self._clock.now() - began, **notes))

    async def _attempt(self, queue_item: QueueItem[Request]) -> tuple[Outcome, dict[str, bool]]:
        item = queue_item.item
        scope: ClockTimeout | None = None
        slow = self._clock.call_later(_SLOW_RECONCILE, lambda: self._on_slow(item))
        try:
            async with timeout(self._clock, self.options.reconciliation_timeout or None) as scope:
                result = await self._call_reconciler(item)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # This task was not cancelled: the reconciler raised a CancelledError of its own.
            return self._on_failure(queue_item, error, panicked=True, timed_out=(scope is not None and scope.expired()))
        except Exception as error:  # noqa: BLE001 - any exception of a reconciler is logged, counted and retried
            if _is_terminal(error):
                log.error("reconcile failed, not retried: %s", error)  # noqa: TRY400 - the message is sufficient
                self.queue.forget(item)
                return Outcome.ERROR, {"terminal": True, "timed_out": (scope is not None and scope.expired())}
            return self._on_failure(queue_item, error, timed_out=(scope is not None and scope.expired()))
        finally:
            slow.cancel()
        return self._on_result(queue_item, result), {"timed_out": scope.expired()}

    def _on_slow(self, item: Request) -> None:
        seconds = self._clock.now() - self.queue.core.processing().get(item, self._clock.now())
        log.warning(
            "controller %s: the reconcile of %s runs for %.0f s; until it ends, its worker takes nothing else "
            "(max_concurrent_reconciles=%d, reconciliation_timeout=%g)",
            self.name,
            item,
            seconds,
            self.options.max_concurrent_reconciles,
            self.options.reconciliation_timeout,
        )

    async def _call_reconciler(self, request: Request) -> Result | None:
        result = await self.reconciler.reconcile(request)
        if not isinstance(result, Result | None):
            raise UsageError(f"the reconciler returned {result!r}: return a Result, or None")
        return result

    def _on_failure(
        self, queue_item: QueueItem[Request], error: BaseException, **notes: bool
    ) -> tuple[Outcome, dict[str, bool]]:
        wait = self.queue.add_rate_limited(queue_item.item, priority=queue_item.priority)
        if _is_all(error, ConflictError):
            # Expected with concurrent writers: the next reconcile reads the newer object.
            log.info("the object changed concurrently, retry in %.3g s: %s", wait, error)
        elif _is_all(error, OpsdkError):
            log.error("reconcile failed, retry in %.3g s: %s", wait, error)
        else:
            log.error("reconcile failed, retry in %.3g s", wait, exc_info=error)
        return Outcome.ERROR, notes

    def _on_result(self, queue_item: QueueItem[Request], result: Result | None) -> Outcome:
        item, priority = queue_item.item, queue_item.priority
        if result is not None and result.priority is not None:
            priority = result.priority
        if result is not None and result.requeue_seconds > 0:
            self.queue.forget(item)
            self.queue.add(item, after=result.requeue_seconds, priority=priority)
            return Outcome.REQUEUE_AFTER
        if result is not None and result.requeue:
            self.queue.add_rate_limited(item, priority=priority)
            return Outcome.REQUEUE
        self.queue.forget(item)
        return Outcome.SUCCESS

    # -------------------------------------------------------------- telemetry
    def _record_workers(self) -> None:
        self._hook.record(
            Workers(controller=self.name, active=self._active, limit=self.options.max_concurrent_reconciles)
        )

    def record_queue(self, event: str, seconds: float = 0.0) -> None:
        """Record an event of the work queue."""
        depth = tuple(self.queue.core.depth().items())
        in_progress = tuple(self.queue.core.processing().values())
        self._hook.record(
            Queued(controller=self.name, event=event, seconds=seconds, depth=depth, in_progress=in_progress)
        )

    def __repr__(self) -> str:
        return f"<Controller {self.name} {self.state.value}: {self._active} busy, {self.queue!r}>"


def _is_all(error: BaseException, kind: type[Exception]) -> bool:
    """Whether the error is of `kind`, or a group (from a TaskGroup) of such errors only."""
    if isinstance(error, ExceptionGroup):
        return all(_is_all(part, kind) for part in error.exceptions)
    return isinstance(error, kind)


def _is_terminal(error: BaseException | None) -> bool:
    """Whether the error is a `TerminalError`, a group of only such errors, or raised ``from`` one."""
    if isinstance(error, ExceptionGroup):
        return all(map(_is_terminal, error.exceptions))
    while error is not None and not isinstance(error, TerminalError):
        error = error.__cause__
    return error is not None


class _Hooks(QueueHooks):
    """Converts the queue's events to records."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def added(self) -> None:
        self._controller.record_queue("added")

    def retried(self) -> None:
        self._controller.record_queue("retried")

    def taken(self, waited: float) -> None:
        self._controller.record_queue("taken", waited)

    def finished(self, worked: float) -> None:
        self._controller.record_queue("finished", worked)
