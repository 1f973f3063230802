"""An informer: one store, one list and watch loop, and any number of handlers.

The loop ends only with the informer. An unexpected error is logged, shows in `Informer.health`, and leads to a new
list.

Upstream: k8s.io/client-go/tools/cache/shared_informer.go (v1.36)
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Self

from opsdk.aio.clock import monotonic
from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.cache.entry import Problem
from opsdk.cache.health import InformerHealth, InformerState
from opsdk.cache.informer_indices import InformerIndices
from opsdk.cache.informer_writes import InformerWrites
from opsdk.cache.lag_monitor import LagMonitor
from opsdk.cache.list_watch import ListerWatcher
from opsdk.cache.list_watch_loop import ListWatchLoop
from opsdk.cache.options import ListWatchOptions
from opsdk.cache.reflector import Reflector, ReflectorStep, Rollback
from opsdk.cache.registration import Handler, HandlerRegistration
from opsdk.cache.shared_processor import SharedProcessor
from opsdk.cache.store import Delta, DeltaType, InformerStore
from opsdk.cache.unknown_reads import UnknownReads
from opsdk.errors import (
    CacheError,
    CacheSyncError,
    ForbiddenError,
    GoneError,
    MethodNotAllowedError,
    NotFoundError,
    OpsdkError,
    UnauthorizedError,
    UsageError,
)
from opsdk.telemetry.failures import FunctionFailures
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Errors that only an administrator can correct: readers with `fail_fast` get them at once.
_DENIALS = (ForbiddenError, UnauthorizedError, NotFoundError, MethodNotAllowedError)


class InformerOptions(ListWatchOptions, frozen=True, kw_only=True):
    """Options of an `Informer`. Times are in seconds.

    Attributes:
        page_size: objects per page of a list.
        list_bytes: see `ListWatchOptions`.
        watch_list: use streaming lists; the informer falls back to pages where the server has none.
        resync: time between resyncs for handlers that request them, with 10 % jitter; 0 for never.
        stale_after: time without a watch until the health is `InformerState.STALE`.
        lag_interval: see `ListWatchOptions`.
        expected: the kind of the objects; events with another kind are skipped.
        transform: changes each object before it is stored.
        namespace: the namespace of `source`; own writes in others are ignored.
        label_selector: of `source`: own writes that it does not select are not visible.
        field_selector: of `source`. Own writes are evaluated by name and namespace only.
        shard: of `source`: own writes outside it are not visible.
    """

    watch_list: bool = False
    resync: float = 0.0
    expected: GroupVersionKind | None = None
    namespace: str = ""


class Informer(Closing):
    """Keeps a store up to date and calls handlers with the deltas.

    Args:
        source: lists and watches.
        options: see `InformerOptions`.
    """

    def __init__(self, source: ListerWatcher, options: InformerOptions | None = None) -> None:
        o = self.options = options or InformerOptions()
        self.name = source.describe()
        self.store = InformerStore(transform=o.transform, selector=o.label_selector, shard=o.shard)
        self.reflector = Reflector(
            self.store, page_size=o.page_size, watch_list=o.watch_list, list_bytes=o.list_bytes, expected=o.expected
        )
        self.counts: Counter[str] = Counter()
        """Counters: list (pages), synced (complete lists), watch, event, error, undecodable, function_error,
        handler_error, rollback."""
        self.source = source
        self._failures = FunctionFailures(self.name)
        self._tasks = TaskOwner(f"informer {self.name}", on_error=self._on_crash)
        self._processor = SharedProcessor(
            self.name, self.store, tasks=self._tasks, counts=self.counts, failures=self._failures
        )
        self._started = False
        self._closed = False
        self._changed = asyncio.Event()
        """Set, and replaced, after each list, failure and close."""
        self._loop = ListWatchLoop(
            self.name,
            source,
            self.reflector,
            counts=self.counts,
            deliver=self._deliver_step,
            apply=self._apply_step,
            on_failure=self._on_failure,
        )
        self.indices = InformerIndices(self.store, tasks=self._tasks, report=self._report_problems)
        """The indices of the store."""
        self.own_writes = InformerWrites(
            self.store,
            namespace=o.namespace,
            field_selector=o.field_selector,
            report=self._report_problems,
            on_rollback=self.on_rollback,
        )
        """The results of own writes, for reads."""
        self.unknown_reads = UnknownReads(
            source,
            self.store,
            record=self.own_writes.record_read,
            tasks=self._tasks,
            page_size=o.page_size,
            name=self.name,
        )
        """Reads what own writes left unknown."""
        self._lag = LagMonitor(source, self.reflector)

    # -------------------------------------------------------------- life cycle
    def start(self) -> None:
        """Start to list and watch in the background. Raises `UsageError` on a second call."""
        if self._started:
            raise UsageError(f"the informer for {self.name} is started already")
        self._started = True
        self._loop.watch_lost_at = monotonic()
        self._tasks.start(self._loop.run(), name="reflect")
        if self.options.resync:
            self._tasks.start(self._processor.resync(self.options.resync), name="resync")
        if self.options.lag_interval is not None:
            self._tasks.start(self._lag.run(self.options.lag_interval), name="lag")

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._started

    @property
    def has_synced(self) -> bool:
        """Whether the initial list is in the store."""
        return self.reflector.synced

    @property
    def is_forbidden(self) -> bool:
        """Whether the server forbids the initial list."""
        return not self.has_synced and isinstance(self.last_error, ForbiddenError)

    @property
    def last_error(self) -> OpsdkError | None:
        """The error that the informer recovers from, or None."""
        return self.reflector.last_error

    def health(self) -> InformerHealth:
        """Return the health now."""
        now, contact = monotonic(), self._loop.last_contact_at
        has_watch = not self._started or self.reflector.connected(now)
        lost = 0.0 if has_watch else now - self._loop.watch_lost_at
        if self._closed or not self._started:
            state = InformerState.STOPPED
        elif not self.has_synced:
            state = InformerState.SYNCING
        else:
            state = InformerState.STALE if lost > self.options.stale_after else InformerState.CURRENT
        failing = self.store.failing()
        return InformerHealth(
            name=self.name,
            state=state,
            seconds_since_contact=None if contact is None else now - contact,
            seconds_without_watch=lost,
            last_error=self.last_error,
            failing_functions=tuple(f"{name} fails for {len(keys)} objects" for name, keys in failing.items() if keys),
            function_failures=self.counts["function_error"],
            objects=len(self.store),
            size=self.store.size(),
            lists=self.counts["synced"],
            watches=self.counts["watch"],
            events=self.counts["event"],
            errors=self.counts["error"],
            undecodable=self.counts["undecodable"],
            own_writes_seen=self.own_writes.shown,
            own_write_delay=self.own_writes.delay,
            rollbacks=self.counts["rollback"],
            resource_version=self.reflector.resource_version,
            lag_seconds=self._lag.seconds(),
        )

    async def wait_synced(self, timeout: float | None = None, *, fail_fast: bool = False) -> None:
        """Return when the initial list is in the store.

        Args:
            timeout: seconds; None for no limit.
            fail_fast: raise as soon as the server denies the list, instead of waiting for an administrator.

        Raises:
            CacheSyncError: the time has passed, or the list is denied; its cause is the last error.
            CacheError: the informer was closed.
        """
        try:
            async with asyncio.timeout(timeout):
                while not self.has_synced and not self._closed:
                    if fail_fast and isinstance(self.last_error, _DENIALS):
                        raise CacheSyncError(f"{self.name} cannot be listed: {self.last_error}") from self.last_error
                    await self._changed.wait()
        except TimeoutError:
            detail = f": {self.last_error}" if self.last_error else f" (state: {self.reflector.state.value})"
            raise CacheSyncError(
                f"timed out after {timeout or 0:g} s waiting for the list of {self.name}{detail}"
            ) from self.last_error
        if not self.has_synced:
            raise CacheError(f"the informer for {self.name} was closed before its list was complete")

    def _notify(self) -> None:
        """Wake the callers of `wait_synced`."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def aclose(self) -> None:
        """Stop watching. Handlers are no longer called; waiting readers get a `CacheError`. Idempotent."""
        self._closed = True
        self._processor.close()
        self._notify()
        await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    # -------------------------------------------------------------- handlers
    def add_handler(self, handler: Handler, *, resync: bool = False) -> HandlerRegistration:
        """Call `handler` for every delta from now on. It first gets the existing objects as ADDED.

        Many existing objects are delivered in slices, before any later delta; `HandlerRegistration.has_synced` is
        True once all are delivered.
        """
        registration = self._processor.add(handler, resync=resync)
        if self.has_synced:
            registration.deliver(self.initial_deltas())
            registration.complete_initial()
        return registration

    def initial_deltas(self) -> Iterator[Delta]:
        """Iterate over the existing objects as ADDED, without the results of own writes."""
        entries = self.store.entries(own_writes=False)
        return (Delta(change=DeltaType.ADDED, new=entry, initial=True) for entry in entries)

    @property
    def handlers(self) -> int:
        """The number of registered handlers."""
        return len(self._processor.registrations)

    # -------------------------------------------------------------- deltas
    def on_rollback(self, resource_version: str) -> None:
        """List again: a response shows that the API server went back. See `ListWatchLoop.on_rollback`."""
        self._loop.on_rollback(resource_version)

    def _deliver_step(self, step: ReflectorStep) -> None:
        """Report the problems of a watch event, and deliver its deltas to the handlers."""
        if step.problems:
            self._report_problems(step.problems)
        for registration in self._processor.registrations:
            registration.deliver(step.deltas)
        if self.store.own.shown_own_changes:
            self.own_writes.measure_shown()

    async def _apply_step(self, step: ReflectorStep) -> None:
        """Deliver a step. At the end of a list, wake the callers of `wait_synced`, and deliver the differences."""
        if not step.synced:
            self._deliver_step(step)
            return
        if step.problems:
            self._report_problems(step.problems)
        registrations = self._processor.registrations
        self.counts["synced"] += 1
        is_first = self.counts["synced"] == 1
        if step.rollback is not None:
            self._report_rollback(step.rollback)
        self._notify()
        if step.replaced is not None:
            await self._processor.deliver_replaced(step.replaced, registrations)
            self.own_writes.skip_shown()  # a list after a gap does not show the watch's delay
        if is_first:
            for registration in registrations:
                registration.complete_initial()

    # -------------------------------------------------------------- errors
    def _on_failure(self, verb: str, error: OpsdkError | None) -> None:
        self.counts["error"] += 1
        self._notify()
        level = logging.WARNING  # most errors end by themselves
        if isinstance(error, ForbiddenError):
            level = logging.ERROR  # an administrator has to grant the permission
        elif isinstance(error, GoneError):
            level = logging.INFO  # expected, for example after a change of a definition: a complete list follows
        log.log(level, "cannot %s %s: %s", verb, self.name, error)

    def _report_rollback(self, rollback: Rollback) -> None:
        self.counts["rollback"] += 1
        log.error(
            "the API server went back from resource version %d to %d and has lost data, for example because etcd was "
            "restored: the list of %s replaces what the cache held, own writes included",
            rollback.revision_before,
            rollback.revision,
            self.name,
        )

    def _report_problems(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            if problem.function:
                self.counts["function_error"] += 1
                self._failures.failed(problem.function, problem.key, problem.error)
            else:
                self.counts["undecodable"] += 1
                log.error(
                    "an object of %s does not decode and is skipped: %s: %s", self.name, problem.key, problem.error
                )

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.critical("%s ended: %r", task, error, exc_info=error)

    def __repr__(self) -> str:
        return f"<Informer {self.name}: {self.reflector!r}, {self.handlers} handlers>"
