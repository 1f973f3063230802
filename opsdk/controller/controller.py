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
from opsdk.controller.reconcile import RECONCILE_ID, ReconcileFunction, Reconciler, Result, as_reconciler
from opsdk.errors import ConflictError, OpsdkError, ShutdownTimeoutError, TerminalError, UsageError
from opsdk.flow.request import Request
from opsdk.flow.source import Source
from opsdk.queue.core import Handout
from opsdk.queue.ratelimit import RateLimiter
from opsdk.queue.workqueue import QueueHooks, ShutDownError, WorkQueue
from opsdk.telemetry.context import log_context
from opsdk.telemetry.records import Hook, Queued, Reconciled, Workers
from opsdk.telemetry.records import Result as Outcome

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a controller works.

    Attributes:
        max_concurrent_reconciles: workers; one key is never with two of them.
        cache_sync_timeout: seconds until every source must have synced.
        reconciliation_timeout: seconds after which one reconcile is cancelled and counted as failed; 0 for never.
        drain_timeout: seconds that reconciles in progress get to finish at stop, before they are cancelled.
        needs_leader_election: run only on the elected replica.
        limiter: how failures wait; per key from 5 ms to 1000 s by default.
    """

    max_concurrent_reconciles: int = 1
    cache_sync_timeout: float = 120.0
    reconciliation_timeout: float = 0.0
    drain_timeout: float = 20.0
    needs_leader_election: bool = True
    limiter: RateLimiter[Request] | None = None

    def __post_init__(self) -> None:
        if self.max_concurrent_reconciles < 1:
            raise UsageError(f"max_concurrent_reconciles is {self.max_concurrent_reconciles}: it must be at least 1")


class Stage(Enum):
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

    Stopping has three steps: no new work, drain for `drain_timeout` seconds, cancel. Cancelling `start` once begins
    them; cancelling it again goes to the last.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler | ReconcileFunction,
        *,
        sources: Sequence[Source] = (),
        options: ControllerOptions | None = None,
        clock: Clock = LOOP_CLOCK,
        hook: Hook | None = None,
        kind: str = "",
    ) -> None:
        if not name:
            raise UsageError("a controller needs a name")
        self.name = name
        self.kind = kind
        self.options = options or ControllerOptions()
        self.stage = Stage.NEW
        self.reconciler = as_reconciler(reconciler)
        self._hook = hook or Hook()
        self._clock = clock
        self._sources = list(sources)
        self.queue: WorkQueue[Request] = WorkQueue(name, limiter=self.options.limiter, clock=clock, hooks=_Hooks(self))
        self._tasks = TaskOwner(f"controller {name}", on_error=lambda *_: None)  # `_work` looks at each itself
        self._active = 0
        self._ready = asyncio.Event()

    def needs_leader_election(self) -> bool:
        """As the options say."""
        return self.options.needs_leader_election

    async def watch(self, source: Source) -> None:
        """Add a source; one added after the start begins at once."""
        self._sources.append(source)
        if self.stage in (Stage.SYNCING, Stage.RUNNING):
            await source.start(self.queue)

    async def wait_ready(self) -> None:
        """Return when the workers run."""
        await self._ready.wait()

    # -------------------------------------------------------------- life
    async def start(self) -> None:
        """Sync the sources, then reconcile until cancelled."""
        if self.stage is not Stage.NEW:
            raise UsageError(
                f"controller {self.name} was started more than once: it was probably added to a manager twice"
            )
        self.stage = Stage.SYNCING
        try:
            with log_context(controller=self.name):
                await self._sync()
                await self._work()
        finally:
            self.stage = Stage.STOPPED
            self.queue.shut_down()
            for source in self._sources:
                await source.aclose()

    async def _sync(self) -> None:
        for source in self._sources:
            await source.start(self.queue)
        waiting = [source.wait_synced(self.options.cache_sync_timeout) for source in self._sources]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        failed = next((r for r in results if isinstance(r, BaseException)), None)
        if failed is not None:
            if isinstance(failed, OpsdkError):
                failed.add_note(f"while controller {self.name} waited for its caches")
            raise failed

    async def _work(self) -> None:
        limit = self.options.max_concurrent_reconciles
        self.stage = Stage.RUNNING
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
        self.stage = Stage.DRAINING
        self.queue.shut_down()
        try:
            if pending := [w for w in workers if not w.done()]:
                await asyncio.wait(pending, timeout=self.options.drain_timeout)
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
        _, pending_still = await asyncio.wait(pending, timeout=5.0)
        if pending_still:
            raise ShutdownTimeoutError(f"controller {self.name}: reconciles ignore their cancellation: {stuck}")

    # -------------------------------------------------------------- work
    async def _worker(self) -> None:
        while True:
            try:
                handout = await self.queue.get()
            except ShutDownError:
                return
            self._active += 1
            self._record_workers()
            try:
                await self._reconcile(handout)
            finally:
                self._active -= 1
                self._record_workers()
                self.queue.done(handout.item)

    async def _reconcile(self, handout: Handout[Request]) -> None:
        request = handout.item
        began = self._clock.now()
        reconcile_id = str(uuid.uuid4())
        token = RECONCILE_ID.set(reconcile_id)
        fields = {"namespace": request.namespace, "name": request.name, "reconcileID": reconcile_id}
        try:
            with log_context(**{k: v for k, v in fields.items() if v}):
                outcome, notes = await self._attempt(handout)
        finally:
            RECONCILE_ID.reset(token)
        self._hook.record(Reconciled(controller=self.name, result=outcome, seconds=self._clock.now() - began, **notes))

    async def _attempt(self, handout: Handout[Request]) -> tuple[Outcome, dict[str, bool]]:
        scope = asyncio.timeout(self.options.reconciliation_timeout or None)
        try:
            async with scope:
                result = await self.reconciler.reconcile(handout.item)
        except TerminalError as error:
            log.error("reconcile failed for good: %s", error)  # noqa: TRY400 - the message says it all
            self.queue.forget(handout.item)
            return Outcome.ERROR, {"terminal": True}
        except TimeoutError as error:
            return self._failed(handout, error, timed_out=scope.expired())
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled us: the reconciler let a cancellation of its own escape.
            return self._failed(handout, error, crashed=True)
        except Exception as error:  # noqa: BLE001 - whatever a reconciler raises is logged, counted and retried
            return self._failed(handout, error)
        return self._next(handout, result), {}

    def _failed(
        self, handout: Handout[Request], error: BaseException, **notes: bool
    ) -> tuple[Outcome, dict[str, bool]]:
        wait = self.queue.add_rate_limited(handout.item, priority=handout.priority)
        if isinstance(error, ConflictError):
            # Somebody was faster; the next look sees the newer object. Nothing to worry about.
            log.info("the object changed meanwhile, again in %.3g s: %s", wait, error)
        elif isinstance(error, OpsdkError):
            log.error("reconcile failed, again in %.3g s: %s", wait, error)
        else:
            log.error("reconcile failed, again in %.3g s", wait, exc_info=error)
        return Outcome.ERROR, notes

    def _next(self, handout: Handout[Request], result: Result | None) -> Outcome:
        item, priority = handout.item, handout.priority
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
        self._hook.record(Queued(controller=self.name, event=event, seconds=seconds, depth=depth))

    def __repr__(self) -> str:
        return f"<Controller {self.name} {self.stage.value}: {self._active} at work, {self.queue!r}>"


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
