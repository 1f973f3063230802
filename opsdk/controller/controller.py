"""The controller: one queue, its sources, its workers."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.tasks import TaskOwner
from opsdk.aio.waiting import finish, wait_ended
from opsdk.controller.reconcile import RECONCILE_ID, ReconcileFunction, Reconciler, Result, as_reconciler
from opsdk.errors import CacheSyncError, ConflictError, OpsdkError, ShutdownTimeoutError, TerminalError, UsageError
from opsdk.event.request import Request
from opsdk.queue.core import QueueItem
from opsdk.queue.rate_limiters import RateLimiter
from opsdk.queue.work_queue import QueueHooks, ShutDownError, WorkQueue
from opsdk.sources import EventSource
from opsdk.telemetry.context import log_context
from opsdk.telemetry.records import Hooks, Queued, Reconciled, TelemetryHook, Workers
from opsdk.telemetry.records import ReconcileOutcome as Outcome

log = logging.getLogger(__name__)

# Seconds that what was told to end gets to say something.
_CANCEL_GRACE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a controller works.

    Attributes:
        max_concurrent_reconciles: workers; one key is never with two of them.
        cache_sync_timeout: seconds until every source must have synced.
        reconciliation_timeout: seconds after which one reconcile is cancelled and counted as failed; 0 for never.
        shutdown_timeout: seconds that reconciles in progress get to finish at stop, before they are cancelled.
        needs_leader_election: run only on the elected replica.
        rate_limiter: how failures wait; per key from 5 ms to 1000 s by default.
    """

    max_concurrent_reconciles: int = 1
    cache_sync_timeout: float = 120.0
    reconciliation_timeout: float = 0.0
    shutdown_timeout: float = 20.0
    needs_leader_election: bool = True
    rate_limiter: RateLimiter[Request] | None = None

    def __post_init__(self) -> None:
        if self.max_concurrent_reconciles < 1:
            raise UsageError(f"max_concurrent_reconciles is {self.max_concurrent_reconciles}: it must be at least 1")


class ControllerState(Enum):
    """Where a controller is in its life."""

    NEW = "new"
    SYNCING = "syncing"
    """Sources are started; no worker runs before all have synced."""
    RUNNING = "running"
    DRAINING = "draining"
    """No new work; reconciles in progress may finish."""
    STOPPED = "stopped"


class Controller:
    """Reconciles requests. A Runnable.

    Stopping has three steps: no new work, drain for `shutdown_timeout` seconds, cancel. Cancelling `start` once begins
    them; cancelling it again goes to the last.
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
        self._hook = Hooks([hook] if hook is not None else [])  # one that raises is logged, and stops no worker
        self._clock = clock
        self._sources = list(sources)
        self._started_sources: set[int] = set()
        self.queue: WorkQueue[Request] = WorkQueue(
            name, rate_limiter=self.options.rate_limiter, clock=clock, hooks=_Hooks(self)
        )
        self._tasks = TaskOwner(f"controller {name}", on_error=self._on_worker_error)
        self._active = 0
        self._ready = asyncio.Event()

    def needs_leader_election(self) -> bool:
        """As the options say."""
        return self.options.needs_leader_election

    async def watch(self, source: EventSource) -> None:
        """Add a source; one added after the start begins at once. `UsageError` once the controller has ended."""
        if self.state is ControllerState.STOPPED:
            raise UsageError(f"controller {self.name} has stopped: it takes no source")
        self._sources.append(source)
        if self.state in (ControllerState.SYNCING, ControllerState.RUNNING):
            await self._start_source(source)

    async def wait_ready(self) -> None:
        """Return when the workers run."""
        await self._ready.wait()

    # -------------------------------------------------------------- life
    async def start(self) -> None:
        """Sync the sources, then reconcile until cancelled."""
        if self.state is not ControllerState.NEW:
            raise UsageError(
                f"controller {self.name} was started more than once: it was probably added to a manager twice"
            )
        self.state = ControllerState.SYNCING
        try:
            with log_context(controller=self.name):
                await self._sync()
                await self._work()
        finally:
            self.state = ControllerState.STOPPED
            self.queue.shut_down()
            await finish(self._close_sources(), name=f"controller {self.name}/close sources")

    async def _close_sources(self) -> None:
        for source in self._sources:
            try:
                await source.aclose()
            except Exception:
                log.exception("controller %s: %r did not close well", self.name, source)

    async def _sync(self) -> None:
        results = await asyncio.gather(*map(self._sync_source, self._sources), return_exceptions=True)
        failed = next((r for r in results if isinstance(r, BaseException)), None)
        if failed is not None:
            failed.add_note(f"while controller {self.name} waited for its sources")
            raise failed

    async def _sync_source(self, source: EventSource) -> None:
        limit = self.options.cache_sync_timeout
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                await self._start_source(source)
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise CacheSyncError(
                f"controller {self.name}: {source!r} did not start within {limit:g} s: its start() must not block"
            ) from error
        # The source itself knows best why it is late: it is given a moment to say so.
        scope = asyncio.timeout(limit + _CANCEL_GRACE)
        try:
            async with scope:
                await source.wait_synced(limit)
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise CacheSyncError(f"controller {self.name}: {source!r} did not sync within {limit:g} s") from error
        except CacheSyncError as error:
            raise CacheSyncError(f"controller {self.name} cannot start: {error}") from error.__cause__ or error

    async def _start_source(self, source: EventSource) -> None:
        # By identity: one added while others sync must not be started twice.
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
            # Workers end only by shutdown: the first to end otherwise has met a bug, which must not go unseen.
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
                await asyncio.wait(pending, timeout=self.options.shutdown_timeout)
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
        if await wait_ended(pending, _CANCEL_GRACE):
            stuck = ", ".join(str(item) for item in self.queue.core.processing())
            raise ShutdownTimeoutError(f"controller {self.name}: reconciles ignore their cancellation: {stuck}")

    def _on_worker_error(self, worker: str, error: BaseException) -> None:
        """While running, `_work` raises it; while stopping, this line is all there is."""
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
            try:
                await self._reconcile(queue_item)
            finally:
                self._active -= 1
                self._record_workers()
                self.queue.done(queue_item.item)

    async def _reconcile(self, queue_item: QueueItem[Request]) -> None:
        request = queue_item.item
        began = self._clock.now()
        reconcile_id = str(uuid.uuid4())
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
        scope = asyncio.timeout(self.options.reconciliation_timeout or None)
        try:
            async with scope:
                result = await self._ask(item)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled us: the reconciler let a cancellation of its own escape.
            return self._failed(queue_item, error, panicked=True, timed_out=scope.expired())
        except Exception as error:  # noqa: BLE001 - whatever a reconciler raises is logged, counted and retried
            if _is_all(error, TerminalError):
                log.error("reconcile failed for good: %s", error)  # noqa: TRY400 - the message says it all
                self.queue.forget(item)
                return Outcome.ERROR, {"terminal": True, "timed_out": scope.expired()}
            return self._failed(queue_item, error, timed_out=scope.expired())
        return self._next(queue_item, result), {"timed_out": scope.expired()}

    async def _ask(self, item: Request) -> Result | None:
        result = await self.reconciler.reconcile(item)
        if not isinstance(result, Result | None):
            raise UsageError(f"the reconciler answered {result!r}: it must answer a Result, or None")
        return result

    def _failed(
        self, queue_item: QueueItem[Request], error: BaseException, **notes: bool
    ) -> tuple[Outcome, dict[str, bool]]:
        wait = self.queue.add_rate_limited(queue_item.item, priority=queue_item.priority)
        if _is_all(error, ConflictError):
            # Somebody was faster; the next look sees the newer object. Nothing to worry about.
            log.info("the object changed meanwhile, again in %.3g s: %s", wait, error)
        elif _is_all(error, OpsdkError):
            log.error("reconcile failed, again in %.3g s: %s", wait, error)
        else:
            log.error("reconcile failed, again in %.3g s", wait, exc_info=error)
        return Outcome.ERROR, notes

    def _next(self, queue_item: QueueItem[Request], result: Result | None) -> Outcome:
        item, priority = queue_item.item, queue_item.priority
        if result is not None and result.priority is not None:
            priority = result.priority
        if result is not None and result.requeue_after > 0:
            self.queue.forget(item)
            self.queue.add(item, after=result.requeue_after, priority=priority)
            return Outcome.REQUEUE_AFTER
        if result is not None and result.requeue:
            self.queue.add_rate_limited(item, priority=priority)
            return Outcome.REQUEUE
        self.queue.forget(item)
        return Outcome.SUCCESS

    # -------------------------------------------------------------- telling
    def _record_workers(self) -> None:
        self._hook.record(
            Workers(controller=self.name, active=self._active, limit=self.options.max_concurrent_reconciles)
        )

    def record_queue(self, event: str, seconds: float = 0.0) -> None:
        """Tell the hook what happened in the queue."""
        depth = tuple(self.queue.core.depth().items())
        in_progress = tuple(self.queue.core.processing().values())
        self._hook.record(
            Queued(controller=self.name, event=event, seconds=seconds, depth=depth, in_progress=in_progress)
        )

    def __repr__(self) -> str:
        return f"<Controller {self.name} {self.state.value}: {self._active} at work, {self.queue!r}>"


def _is_all(error: BaseException, kind: type[Exception]) -> bool:
    """Whether it is of a kind, or (from a task group) a group of such errors only."""
    if isinstance(error, ExceptionGroup):
        return all(_is_all(part, kind) for part in error.exceptions)
    return isinstance(error, kind)


class _Hooks(QueueHooks):
    """The queue's events as records."""

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
