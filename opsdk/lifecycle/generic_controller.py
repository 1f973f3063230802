"""GenericController: named handlers of one kind, on one shared informer and one work queue.

Upstream: github.com/rancher/norman/controller/generic_controller.go, github.com/rancher/lasso/pkg/controller
Deviates: by default only failed handlers are retried; a handler gets a copy of the object, so that changes of a
failed handler do not reach the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from opsdk.aio.clock import monotonic
from opsdk.aio.containment import cancellations, contain, is_panic
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, deep_copy, key_of
from opsdk.base.cause import ReconcileCause, traceparents_of
from opsdk.base.durations import shown_seconds
from opsdk.cluster.cluster import Cluster
from opsdk.controller.context import Context
from opsdk.controller.controller import Controller, ControllerState
from opsdk.controller.journal import Journal
from opsdk.controller.options import ControllerOptions
from opsdk.controller.outcome import ReconcileEnd, Requeue, shorten_error
from opsdk.controller.pausing import HeldBack, Pause, or_pause_changes
from opsdk.controller.reconcile import Result
from opsdk.controller.requeue import RequeuePolicy
from opsdk.controller.retries import is_terminal
from opsdk.errors import UsageError
from opsdk.event.event import AnyEvent, EventType
from opsdk.event.handlers import EnqueueRequestForObject, Mapped
from opsdk.event.predicates import PredicateFunc, all_of, any_of, begins_deletion
from opsdk.event.request import Request
from opsdk.event.sources import EventSource, FuncSource, KindSource
from opsdk.lifecycle.errors import HandlersFailedError, HandlerTimeoutError, IgnoreError
from opsdk.lifecycle.handlers import (
    HandlerFunction,
    HandlerList,
    HandlerTransaction,
    NamedHandler,
    check_returned,
)
from opsdk.lifecycle.lifecycle import LifecycleHandler
from opsdk.lifecycle.names import LifecycleNames, unknown_finalizers
from opsdk.lifecycle.options import GenericControllerOptions, RetryPolicy, SlowingRateLimiter
from opsdk.lifecycle.recent_deletions import RETRY_SECONDS, RecentDeletions
from opsdk.lifecycle.run_table import AnyRequest, HandlerRequest, RunTable, RunVerdict, request_of
from opsdk.queue.core import LOW_PRIORITY, QueueItem
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.context import log_context
from opsdk.telemetry.reconcile_log import log_failure
from opsdk.telemetry.records import Reconciled, TelemetryHook
from opsdk.telemetry.records import ReconcileOutcome as Outcome
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

T = TypeVar("T", bound=AnyObject)

_DEFERRED = Result()
"""The result of an item that did not run: its failures still count."""


class _RequeueHandlers(RequeuePolicy):
    """Retries each failed handler with its own backoff. For `RetryPolicy.FAILED`.

    Args:
        retry: see `RetryPolicy`.
        on_held: is called when a pause holds an item back, which leaves its place to another one.

    Attributes:
        scheduled: the due times of queued retries. An earlier event does not count as an attempt.
    """

    def __init__(self, retry: RetryPolicy, on_held: Callable[[], None]) -> None:
        super().__init__()
        self._retry = retry
        self._on_held = on_held
        self.scheduled: dict[HandlerRequest, float] = {}

    def after_failure(self, queue: WorkQueue[Any], queue_item: QueueItem[Any], error: BaseException) -> ReconcileEnd:
        if self._retry is RetryPolicy.ALL or not isinstance(error, HandlersFailedError):
            return super().after_failure(queue, queue_item, error)
        now = monotonic()
        waits, requeues = [], []
        traceparents = traceparents_of(queue_item.causes)
        for name, reason in zip(error.names, error.exceptions, strict=True):
            item = HandlerRequest.of(request_of(queue_item.item), name)
            if not is_terminal(reason) and item not in self.scheduled:
                cause = ReconcileCause("retry", detail=shorten_error(reason), traceparents=traceparents)
                wait = queue.next_delay(item)
                requeues.append(Requeue(item=item, after=wait, priority=LOW_PRIORITY, cause=cause))
                self.scheduled[item] = now + wait
            if item in self.scheduled:
                waits.append(max(self.scheduled[item] - now, 0.0))
        log_failure(error, wait=min(waits))
        detail = f"retry {', '.join(error.names)} in {shown_seconds(min(waits))}: {error}"
        return ReconcileEnd(Outcome.ERROR, detail=detail, requeues=tuple(requeues))

    def after_success(self, queue: WorkQueue[Any], queue_item: QueueItem[Any], result: Result | None) -> ReconcileEnd:
        if result is _DEFERRED:
            return ReconcileEnd(Outcome.SUCCESS, detail="deferred, or already done")
        return super().after_success(queue, queue_item, result)

    def after_pause(self, queue: WorkQueue[Any], queue_item: QueueItem[Any], held: HeldBack) -> ReconcileEnd:
        self.scheduled.pop(queue_item.item, None)
        self._on_held()
        return super().after_pause(queue, queue_item, held)


class _RecordDeletions(EnqueueRequestForObject):
    """Maps events to requests, and records deletions."""

    def __init__(self, deletions: RecentDeletions) -> None:
        self._deletions = deletions

    def requests(self, event: AnyEvent) -> Mapped:
        if event.type is EventType.DELETE:
            self._deletions.record(event.view.uid, event.view.resource_version, now=monotonic())
        return super().requests(event)


class GenericController(Generic[T]):
    """Calls named handlers for the objects of one kind. A Runnable.

    The handlers of an object are called one after the other, in the order of their registration, and never twice at
    the same time. Each gets the object that the previous one returned. All are called, even after a failure. The errors
    are joined, and the object is retried as `GenericControllerOptions.retry` says. Without a handler the controller
    waits for the first one, and starts no informer.

    With `RetryPolicy.FAILED`, a handler whose call timed out does not delay the others: until it succeeds, it is called
    for this object after them, on its own. The same applies to a handler that timed out for as many objects as there
    are workers.

    Args:
        cluster: reads and writes.
        kind: the kind of the objects.
        name: for logs and metrics; default: the kind in lower case with ``-handlers``.
        options: see `GenericControllerOptions`.
        predicates: an event must pass all of them.
        hook: receives telemetry. Each call of a handler is a reconcile of ``<name>/<handler>`` in the metrics.
        journal: keeps what each run did.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: KindLike[T],
        *,
        name: str = "",
        options: GenericControllerOptions | None = None,
        predicates: Sequence[PredicateFunc] = (),
        hook: TelemetryHook | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.kind: Kind[T] = kind_of(kind)
        self.name = name or f"{self.kind.name.lower()}-handlers"
        self.cluster = cluster
        self.options = options or GenericControllerOptions()
        self.handlers = HandlerList(self.name)
        self.finalizers: dict[str, LifecycleNames] = {}
        self._finalizer_names: set[str] = set()
        """The names of the lifecycles that have a finalizer."""
        self._deletions = RecentDeletions()
        self._warned_finalizers: set[str] = set()
        self._table = RunTable(retry_limit=max(1, self.options.workers - 1))
        self._has_handlers = asyncio.Event()
        self._sources: list[EventSource] = []
        self._tasks = TaskOwner(f"controller {self.name}", on_error=self._on_crash)
        sources: list[EventSource] = [
            KindSource(
                cluster.cache,
                self.kind,
                _RecordDeletions(self._deletions),
                predicates=self._predicates(predicates) if predicates else (),
            )
        ]
        if self.options.resync:
            sources.append(FuncSource(self._resync))
        self._requeue_policy = _RequeueHandlers(self.options.retry, lambda: self._requeue(self._table.unpark()))
        self.controller = Controller(
            self.name,
            self._reconcile,
            sources=sources,
            options=ControllerOptions(
                max_concurrent_reconciles=self.options.workers,
                shutdown_timeout=self.options.shutdown_timeout,
                needs_leader_election=self.options.needs_leader_election,
                rate_limiter=self.options.rate_limiter or SlowingRateLimiter(),
                pausing=self.options.pausing,
            ),
            hook=hook,
            kind=self.kind,
            cluster=cluster,
            journal=journal,
            requeue=self._requeue_policy,
        )

    def _predicates(self, predicates: Sequence[PredicateFunc]) -> Sequence[PredicateFunc]:
        """Return predicates that drop neither the change of a pause nor the beginning of a deletion."""
        passes = all_of(*predicates) if self.options.pausing is None else or_pause_changes(tuple(predicates))
        return [any_of(begins_deletion(self._finalizer_names), passes)]

    # -------------------------------------------------------------- registration
    def add_handler(
        self,
        name: str,
        function: HandlerFunction,
        *,
        timeout: float | None = None,
        when: Callable[[T], bool] | None = None,
        enabled: Callable[[], bool] | None = None,
        transaction: HandlerTransaction | None = None,
    ) -> NamedHandler:
        """Add a handler at the end. After the start it is called for the objects that exist.

        Args:
            name: unique in this controller.
            function: see `opsdk.lifecycle.handlers.HandlerFunction`.
            timeout: seconds for one call; 0 for no limit; None for the timeout of the options.
            when: objects for which it is called. It is also called for deleted objects, with None as the object.
            enabled: whether it is called at all (``AddFeatureHandler``). Read before each call.
            transaction: the handler becomes active when this commits.

        Returns:
            The registration. As an async context manager it removes the handler at its end.

        Raises:
            UsageError: the name is empty or taken, or the function cannot be called. The message has file and line.
        """
        if not name:
            raise UsageError(f"a handler of {self.name} needs a name: its errors and metrics have it")
        registration = NamedHandler(
            name,
            function,
            timeout=self.options.handler_timeout if timeout is None else timeout,
            when=when,
            enabled=enabled,
            on_remove=self._on_remove,
        )
        self.handlers.add(registration)
        if transaction is not None:
            transaction.add(registration, self._activated)
        else:
            registration.active = True
            self._activated(registration)
        return registration

    def add_lifecycle(
        self,
        name: str,
        instance: Any,
        *,
        names: LifecycleNames | None = None,
        timeout: float | None = None,
        when: Callable[[T], bool] | None = None,
        enabled: Callable[[], bool] | None = None,
        transaction: HandlerTransaction | None = None,
    ) -> NamedHandler:
        """Add a lifecycle: an object with any of ``create``, ``updated`` and ``remove``. See `LifecycleHandler`.

        Args:
            name: unique in this controller.
            instance: the lifecycle.
            names: the finalizer and the annotation; default: norman's, `LifecycleNames.norman`.
            timeout: see `add_handler`.
            when: see `add_handler`.
            enabled: see `add_handler`.
            transaction: see `add_handler`.

        Raises:
            UsageError: see `add_handler`; or the kind is cached as metadata only, which cannot be updated.
        """
        if issubclass(self.kind.representation, PartialObjectMetadata):
            raise UsageError(f"lifecycle {name} writes whole objects: create {self.name} for {self.kind.name} itself")
        names = names or LifecycleNames.norman(name)
        handler = LifecycleHandler[Any](name, instance, kind=self.kind, names=names)
        registration = self.add_handler(
            name, handler, timeout=timeout, when=when, enabled=enabled, transaction=transaction
        )
        if handler.methods.remove:
            self.finalizers[name] = names
            self._finalizer_names.add(names.finalizer)
        return registration

    def on_change(self, name: str, function: Callable[..., Awaitable[Any]]) -> NamedHandler:
        """Add a handler (wrangler's ``OnChange``). Same as `add_handler`, without options."""
        return self.add_handler(name, function)

    def on_remove(self, name: str, function: Callable[..., Awaitable[Any]]) -> NamedHandler:
        """Call ``function(obj)`` or ``function(obj, ctx)`` when an object is being deleted (wrangler's ``OnRemove``).

        Wrangler's finalizer keeps the object until it succeeds.
        """
        names = LifecycleNames.wrangler(name)
        return self.add_lifecycle(name, SimpleNamespace(remove=function), names=names)

    def remove_handler(self, name: str) -> None:
        """Remove a handler. A running call continues. Raises `UsageError` if no handler has this name."""
        registration = self.handlers.get(name)
        if registration is None:
            names = ", ".join(handler.name for handler in self.handlers) or "none"
            raise UsageError(f"{self.name} has no handler {name!r}: it has {names}")
        registration.remove()

    def _on_remove(self, registration: NamedHandler) -> None:
        names = self.finalizers.pop(registration.name, None)
        if names is not None:
            self._finalizer_names.discard(names.finalizer)
        self.handlers.discard(registration)
        self._table.forget_handler(registration.name)

    def _activated(self, registration: NamedHandler) -> None:
        self._has_handlers.set()
        if self.controller.state is not ControllerState.RUNNING:
            return
        cause = ReconcileCause("handler added", detail=registration.name)
        for request in self.keys():
            item: AnyRequest = request
            if self.options.retry is RetryPolicy.FAILED:
                self._table.failed(request, registration.name)
                item = HandlerRequest.of(request, registration.name)
            self.controller.queue.add(item, priority=LOW_PRIORITY, cause=cause)

    # -------------------------------------------------------------- queue
    def enqueue(self, namespace: str, name: str) -> None:
        """Call all handlers for an object, after the rate limiter's delay. Calls before the start are queued."""
        self.controller.queue.add_rate_limited(Request(namespace, name), cause=ReconcileCause("enqueue"))

    def enqueue_after(self, namespace: str, name: str, seconds: float) -> None:
        """Call all handlers for an object in `seconds`, unless an earlier call is already scheduled."""
        self.controller.queue.add(Request(namespace, name), after=seconds, cause=ReconcileCause("enqueue"))

    def keys(self) -> list[Request]:
        """Return the requests for all cached objects; none before the informer has synced."""
        cached = self.cluster.cache.existing(self.kind)
        if cached is None:
            return []
        return [Request(*e.key) for informer in cached.informers.values() for e in informer.store.entries()]

    def add_source(self, source: EventSource) -> None:
        """Add a source for the queue, such as a `KindSource` of related objects."""
        if self.controller.state is ControllerState.NEW:
            self._sources.append(source)
        else:
            self._tasks.start(self.controller.watch(source), name=f"watch {source!r}")

    async def _resync(self, queue: WorkQueue[Any]) -> None:
        while True:
            await asyncio.sleep(self.options.resync)
            for request in self.keys():
                queue.add(request, priority=LOW_PRIORITY, cause=ReconcileCause("resync"))

    # -------------------------------------------------------------- running
    def needs_leader_election(self) -> bool:
        """Return the option of this name."""
        return self.options.needs_leader_election

    async def start(self) -> None:
        """Wait for the first handler, then call handlers until cancelled. Raises the errors of `Controller.start`."""
        try:
            await self._has_handlers.wait()
            await self._watch_added()
            await self.controller.start()
        finally:
            await self._tasks.aclose()

    async def warmup(self) -> None:
        """Start the sources before leadership. See `Controller.warmup`."""
        if self._has_handlers.is_set():
            await self._watch_added()
            await self.controller.warmup()

    async def _watch_added(self) -> None:
        """Pass the sources that were added before the start to the controller."""
        sources, self._sources = self._sources, []
        for source in sources:
            await self.controller.watch(source)

    async def wait_ready(self) -> None:
        """Wait until the workers run; return immediately without a handler."""
        if self._has_handlers.is_set():
            await self.controller.wait_ready()

    def pause(self, pause: Pause | None) -> None:
        """Call no handler until the end of `pause`, or until ``pause(None)``. See `Controller.pause`."""
        self.controller.pause(pause)

    def debug_pages(self) -> Mapping[str, Callable[[], Iterable[object]]]:
        return self.controller.debug_pages()

    def enqueue_now(self, controller: str, namespace: str, name: str) -> str:
        """Call all handlers for an object now; see `opsdk.base.runnable.Enqueues`."""
        return self.controller.enqueue_now(controller, namespace, name)

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.error("%s ended: %r", task, error, exc_info=error)

    # -------------------------------------------------------------- handling
    async def _reconcile(self, request: Request, ctx: Context) -> Result | None:
        """Handle a queue item: call all handlers of an object, or one."""
        item: AnyRequest = request
        if isinstance(item, HandlerRequest):
            self._requeue_policy.scheduled.pop(item, None)
        verdict = self._table.begin(item)
        if verdict is not RunVerdict.RUN:
            if isinstance(item, HandlerRequest) and verdict is not RunVerdict.PARKED:
                self._requeue(self._table.unpark())
            return _DEFERRED
        try:
            return await self._run(item, ctx)
        finally:
            self._requeue(self._table.end(item))

    def _requeue(self, items: Iterable[AnyRequest]) -> None:
        for item in items:
            self.controller.queue.add(item, cause=ReconcileCause("deferred"))

    async def _run(self, item: AnyRequest, ctx: Context) -> Result | None:
        """Call the handlers of an item in order. Raises `HandlersFailedError` with the errors of those that failed."""
        key = request_of(item)
        obj = await ctx.client.get_or_none(self.kind, key.key)
        if obj is not None and self._deletions.is_stale(
            obj.metadata.uid, obj.metadata.resource_version, now=monotonic()
        ):
            log.warning("the cache is stale, it has the deleted %s %s: waiting for a newer list", self.kind.name, key)
            return Result(requeue_after=RETRY_SECONDS)
        if obj is not None and self.finalizers:
            self._warn_of_unknown(obj)
        errors: dict[str, Exception] = {}
        task = asyncio.current_task()
        before = cancellations(task)
        for registration in self._handlers_to_call(item):
            try:
                if registration.selects(obj):
                    obj = await self._call(registration, key, obj, ctx)
            except IgnoreError as reason:
                log.debug("%s skips %s: %s", registration.name, key, reason)
                self._clear_failure(key, registration.name)
            except BaseException as raised:  # noqa: BLE001 - a user function may raise anything
                error = contain(raised, task=task, cancelling=before)
                error.add_note(f"in handler {registration.name}")
                errors[registration.name] = error
            else:
                self._clear_failure(key, registration.name)
        if errors:
            self._record_failures(key, errors)
            raise HandlersFailedError(errors)
        return None

    def _warn_of_unknown(self, obj: T) -> None:
        """Log, once each, finalizers with the prefix of our lifecycles that no lifecycle handles."""
        for name in unknown_finalizers(obj.metadata.finalizers, self.finalizers.values()):
            if name not in self._warned_finalizers:
                self._warned_finalizers.add(name)
                log.warning(
                    "%s %s has the finalizer %s, which no lifecycle of %s handles: if its controller is removed, run "
                    "opsdk cleanup --finalizers %s --kind %s",
                    self.kind.name,
                    key_of(obj),
                    name,
                    self.name,
                    name,
                    self.kind.gvk.group_kind,
                )

    def _handlers_to_call(self, item: AnyRequest) -> Iterable[NamedHandler]:
        """Return the handlers to call now. A handler whose last call timed out gets a separate queue item."""
        if isinstance(item, HandlerRequest):
            registration = self.handlers.get(item.handler)
            return [registration] if registration is not None else []
        if self.options.retry is RetryPolicy.ALL:
            return self.handlers
        chosen = []
        for registration in self.handlers:
            hangs = registration.timeouts >= self.options.workers or self._table.timed_out(item, registration.name)
            if not hangs:
                chosen.append(registration)
                continue
            self._table.failed(item, registration.name, timed_out=True)
            own = HandlerRequest.of(item, registration.name)
            self.controller.queue.add(own, priority=LOW_PRIORITY, cause=ReconcileCause("after a timeout"))
        return chosen

    async def _call(self, registration: NamedHandler, key: Request, obj: T | None, ctx: Context) -> T | None:
        """Call a handler with a copy of the object, and return the object for the next one."""
        attempt = self.controller.queue.rate_limiter.num_requeues(HandlerRequest.of(key, registration.name))
        copied = deep_copy(obj) if obj is not None else None
        own = replace(ctx, request=key, object=copied, attempt=attempt or ctx.attempt)
        began = monotonic()
        failure: BaseException | None = None
        task = asyncio.current_task()
        before = cancellations(task)
        limit = asyncio.timeout(registration.timeout or None)
        try:
            with log_context(handler=registration.name):
                async with limit:
                    returned = await registration.call(key, copied, own)
            registration.timeouts = 0
            if returned is None:
                return obj
            return check_returned(registration.name, returned, kind=self.kind, request=key, given=obj)
        except TimeoutError as error:
            if not limit.expired():
                failure = error
                raise
            registration.timeouts += 1
            failure = HandlerTimeoutError(
                f"{registration.name} has not returned for {self.kind.name} {key} after {registration.timeout:g} s"
            )
            raise failure from error
        except IgnoreError:
            registration.timeouts = 0
            raise
        except BaseException as error:
            failure = contain(error, task=task, cancelling=before)
            if failure is error:
                raise
            raise failure from error
        finally:
            outcome = Outcome.SUCCESS if failure is None else Outcome.ERROR
            self.controller.hook.record(
                Reconciled(
                    controller=f"{self.name}/{registration.name}",
                    result=outcome,
                    seconds=monotonic() - began,
                    panicked=failure is not None and is_panic(failure),
                    error=failure,
                )
            )

    def _clear_failure(self, key: Request, handler: str) -> None:
        item = HandlerRequest.of(key, handler)
        self._table.succeeded(key, handler)
        self._requeue_policy.scheduled.pop(item, None)
        self.controller.queue.forget(item)

    def _record_failures(self, key: Request, errors: dict[str, Exception]) -> None:
        for name, error in errors.items():
            if is_terminal(error):
                self._clear_failure(key, name)
            elif self.options.retry is RetryPolicy.FAILED:
                self._table.failed(key, name, timed_out=isinstance(error, HandlerTimeoutError))

    def __repr__(self) -> str:
        return f"<GenericController {self.name}: {len(self.handlers)} handlers, {self._table!r}>"
