"""Event sources: feed the work queue of a controller. `opsdk.event.timers` has those that follow the clock.

Upstream: sigs.k8s.io/controller-runtime/pkg/source/source.go, pkg/internal/source/kind.go
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from enum import Enum
from typing import Any

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.aio.containment import cancellations, contain
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.gvk import GroupKind, ObjectKey
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, gvk_of, key_of
from opsdk.base.cause import ReconcileCause
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import CachedKind, KindRegistration
from opsdk.cache.store import Delta, DeltaType
from opsdk.errors import CacheSyncError, NoMatchError, OpsdkError, UsageError
from opsdk.event.dispatcher import EventDispatcher
from opsdk.event.event import event_of, generic_event
from opsdk.event.handlers import Enqueue, EnqueueRequestForObject, EventHandler, MapFunction, as_handler, is_async
from opsdk.event.predicates import PredicateFunc
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.failures import FunctionFailure
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["Channel", "ChannelSource", "EventSource", "FuncSource", "KindSource", "SyncPolicy"]

log = SafeLogger(__name__)

# Retries for a kind that is not served yet. Short at first, because its CRD is often installed together with the
# operator; then every ten seconds, as in controller-runtime.
_RETRY_KIND = Backoff(base=0.5, factor=2.0, cap=10.0, jitter=0.0, reset_after=0)

# Seconds for which a standby replica keeps a deletion. It is longer than any usual lease: the former leader was alive
# at the deletions before.
_KEEP_DELETIONS = 60.0
# Items of a channel that are kept before its source starts.
_MAX_ITEMS = 10_000
# Deletions that a standby replica keeps at least; with more live objects, as many as those.
_MIN_DELETIONS = 100


class SyncPolicy(Enum):
    """Action of a controller when a source has not synced in time."""

    FAIL = "fail"
    """Raise `CacheSyncError`, which ends the manager, as controller-runtime does."""
    RETRY = "retry"
    """Wait on. Other controllers run; readiness and the log say what is missing."""
    DEGRADE = "degrade"
    """Reconcile without the source. It joins when it has synced; until then readiness names what is missing."""


class EventSource(ABC):
    """Feeds a controller's work queue. Derive from it for a source of your own.

    Attributes:
        sync_policy: action when this source cannot sync; None is the policy of the controller.
    """

    sync_policy: SyncPolicy | None = None

    @abstractmethod
    async def start(self, queue: WorkQueue[Any]) -> None:
        """Start to feed `queue`, and return. Must not block.

        In a standby replica ``queue.standby`` is True, and no worker takes requests: see `WorkQueue.stand_by`.
        """

    async def wait_synced(self, timeout: float) -> None:  # noqa: B027 - the error says why; a default
        """Return when the initial objects are in the queue. Raise the reason after `timeout` seconds."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop feeding. Idempotent."""

    def problem(self) -> str:
        """Return why the source feeds nothing now, for readiness; empty if it works."""
        return ""

    def failing_functions(self) -> list[FunctionFailure]:
        """Return the functions of the user that raise now."""
        return []

    def watches(self, kind: GroupKind) -> bool:
        """Whether it has the events of a kind, in any version and representation."""
        return False

    @property
    def is_idle(self) -> bool:
        """Whether the queue and the caches have all that it knows: a checkpoint of a recording has only these."""
        return True


class _StandbyDeletions:
    """The objects that were deleted lately, while this replica was a standby. Pure.

    The former leader reconciles a deletion that it sees. Only those shortly before its end may be lost with it.
    """

    def __init__(self) -> None:
        self._deltas: dict[ObjectKey, tuple[float, Delta]] = {}  # the oldest first

    def add(self, delta: Delta, *, now: float, limit: int) -> None:
        """Record a delta of the watch. Keeps the newest `limit` deletions."""
        self._deltas.pop(delta.entry.key, None)
        if delta.change is DeltaType.DELETED:
            self._deltas[delta.entry.key] = (now, delta)
            while len(self._deltas) > limit:
                del self._deltas[next(iter(self._deltas))]

    def expire(self, *, now: float) -> None:
        """Forget the deletions that are older than a minute."""
        while self._deltas:
            key, (deleted_at, _) = next(iter(self._deltas.items()))
            if now - deleted_at < _KEEP_DELETIONS:
                return
            del self._deltas[key]

    def take(self, *, now: float) -> list[Delta]:
        """Return the deletions of the last minute, and forget all."""
        self.expire(now=now)
        deltas, self._deltas = self._deltas, {}
        return [delta for _, delta in deltas.values()]

    def __len__(self) -> int:
        """Return the number of deletions that are kept."""
        return len(self._deltas)


class KindSource(EventSource):
    """The changes of a kind, from the cache's informers.

    A kind that the server does not serve yet is retried at least every ten seconds, so a controller may start before
    its CRD is installed.

    In a standby replica the informer runs, and neither predicates nor the handler are called. When the replica leads,
    they get the deletions of the last minute (at most as many as there are objects, and at least 100), and then each
    object of the cache as a create event with ``initial``.

    Args:
        cache: provides the informer.
        kind: the watched kind.
        handler: maps events to requests.
        predicates: an event must pass all of them.
        sync_policy: see `EventSource`.
    """

    def __init__(
        self,
        cache: Cache,
        kind: KindLike[AnyObject],
        handler: EventHandler,
        *,
        predicates: Sequence[PredicateFunc] = (),
        sync_policy: SyncPolicy | None = None,
    ) -> None:
        self.sync_policy = sync_policy
        self.kind: Kind[AnyObject] = kind_of(kind)
        self.cache = cache
        self._dispatcher = EventDispatcher(str(self.kind.gvk), handler, predicates)
        self._tasks = TaskOwner(f"source {self.kind.gvk}", on_error=self._on_crash)
        self._registration: KindRegistration | None = None
        self._cached: CachedKind | None = None
        self._handler_added = asyncio.Event()
        self._problem: BaseException | None = None
        self._deletions: _StandbyDeletions | None = None
        self._expiry: asyncio.TimerHandle | None = None

    def failing_functions(self) -> list[FunctionFailure]:
        """Return the predicates and handlers that raise now."""
        return self._dispatcher.failures.failing()

    def watches(self, kind: GroupKind) -> bool:
        """Whether it watches this kind."""
        return self.kind.gvk.group_kind == kind

    @property
    def is_idle(self) -> bool:
        """Whether no event is retried, and no deletion is kept for the time when this replica leads."""
        return not self._deletions and not self._dispatcher.retries_events

    @property
    def counts(self) -> Counter[str]:
        """Counters: event, dropped, predicate_error, handler_error, given_up."""
        return self._dispatcher.counts

    async def start(self, queue: WorkQueue[Any]) -> None:
        """Start a task that gets the informer and adds a handler to it."""
        self._dispatcher.bind(queue)
        if queue.standby:
            self._deletions = _StandbyDeletions()
            queue.on_activate(self._activate)
        self._tasks.start(self._add_to_informer(), name="attach")

    def _activate(self) -> None:
        """Dispatch what a standby replica has kept back."""
        deletions, self._deletions = self._deletions, None
        self._stop_expiry()
        for delta in deletions.take(now=monotonic()) if deletions is not None else ():
            self._dispatcher.dispatch(event_of(delta, self.kind))
        if self._registration is not None:
            self._registration.replay()

    def _on_delta(self, delta: Delta) -> None:
        if self._deletions is None:
            self._dispatcher.dispatch(event_of(delta, self.kind))
            return
        assert self._cached is not None
        objects = sum(len(informer.store) for informer in self._cached.informers.values())
        self._deletions.add(delta, now=monotonic(), limit=max(objects, _MIN_DELETIONS))
        if self._expiry is None and self._deletions:
            self._expiry = asyncio.get_running_loop().call_later(_KEEP_DELETIONS, self._expire_deletions)

    def _expire_deletions(self) -> None:
        self._expiry = None
        if self._deletions is None:
            return
        self._deletions.expire(now=monotonic())
        if self._deletions:
            self._expiry = asyncio.get_running_loop().call_later(_KEEP_DELETIONS, self._expire_deletions)

    def _stop_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    async def _add_to_informer(self) -> None:
        """Add the handler to the kind's informer, with retries until the server serves the kind."""
        reported = False
        waits = _RETRY_KIND.start()
        while True:
            try:
                await self._dispatcher.handler.prepare(self.cache.mapper)
                self._cached = await self.cache.informer_for(self.kind, pin=False)
                break
            except UsageError as error:  # a retry does not help
                self._problem = error
                self._handler_added.set()
                return
            except OpsdkError as error:
                self._problem = error
                level = logging.DEBUG if reported else logging.WARNING
                log.log(level, "cannot watch %s yet: %s", self.kind.gvk, error)
                reported = isinstance(error, NoMatchError)
            await asyncio.sleep(waits.next(monotonic()))
        self._problem = None
        self._registration = self._cached.add_handler(self._on_delta, resync=True)
        self._handler_added.set()

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.error("%s ended: %r", task, error, exc_info=error)
        self._problem = error
        self._handler_added.set()

    async def wait_synced(self, timeout: float) -> None:
        """Return when the handler has mapped every object of the initial list.

        Raises `CacheSyncError` with the kind and the last problem: not served, forbidden, unreachable. A later call
        continues to wait.
        """
        deadline = monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                await self._handler_added.wait()
        except TimeoutError:
            raise CacheSyncError(
                f"no informer for {self.kind.gvk} within {timeout:g} s: {self._problem}"
            ) from self._problem
        if self._problem is not None:
            raise self._problem
        assert self._cached is not None
        assert self._registration is not None
        await self._cached.wait_listed(max(deadline - monotonic(), 0.001))
        try:
            async with asyncio.timeout(max(deadline - monotonic(), 0.001)):
                await self._registration.wait_synced()
                await self._dispatcher.wait_mapped()
        except TimeoutError:
            raise CacheSyncError(
                f"{self._dispatcher.handler!r} has not mapped every {self.kind.gvk} within {timeout:g} s: "
                "check that it returns"
            ) from None

    def problem(self) -> str:
        """Return why the source does not follow its kind now, or an empty string."""
        if self._cached is None:
            return f"no informer for {self.kind.gvk}: {self._problem or 'looking it up'}"
        unready = [str(health) for health in self._cached.health() if not health.ready]
        return "; ".join(unready)

    async def aclose(self) -> None:
        """Remove the handler; informers without other users stop. Idempotent."""
        self._stop_expiry()
        if self._registration is not None:
            self._registration.remove()
        try:
            await self._tasks.aclose()
        finally:
            await self._dispatcher.aclose()
            if self._cached is not None:
                await self.cache.release(self._cached)

    def __repr__(self) -> str:
        return f"<KindSource {self.kind.gvk} -> {self._dispatcher.handler!r}>"


class Channel:
    """Carries events from outside the cluster to controllers: a webhook, another system, a test.

    Each `ChannelSource` of the channel gets every item. Items sent before a source starts are kept, the last one for
    each request or object, and at most the newest 10,000. Call `send` in the event loop; from a thread, use
    ``loop.call_soon_threadsafe``.

    >>> from opsdk.event.request import Request
    >>> billing = Channel("billing")
    >>> source = ChannelSource(billing)
    >>> billing.send(Request("default", "site"))
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._sources: list[ChannelSource] = []
        self._unconnected: dict[Hashable, Hashable | AnyObject] | None = {}
        self._closed = False

    def send(self, item: Hashable | AnyObject) -> None:
        """Send a request, an `opsdk.event.handlers.Enqueue`, or an object.

        A request is queued as it is. An object becomes a generic event, which passes the predicates and the handler of
        each source.

        Raises `UsageError` after `close`.
        """
        if self._closed:
            raise UsageError(f"the channel {self.name} is closed: send() is no longer possible")
        if self._unconnected is not None:
            _keep(self._unconnected, item)
        for source in self._sources:
            source.receive(item)

    def close(self) -> None:
        """Accept no more events. Items sent before are delivered. Idempotent."""
        self._closed = True

    def connect(self, source: ChannelSource) -> None:
        """Deliver to `source`. The first source also gets the items sent before."""
        self._sources.append(source)
        unclaimed, self._unconnected = self._unconnected, None
        for item in (unclaimed or {}).values():
            source.receive(item)

    def disconnect(self, source: ChannelSource) -> None:
        """Stop delivering to `source`."""
        if source in self._sources:
            self._sources.remove(source)

    def __repr__(self) -> str:
        return f"<Channel {self.name}>"


class ChannelSource(EventSource):
    """The events of a `Channel`, for one controller.

    Args:
        channel: the channel.
        handler: maps generic events to requests; default: a request for the object itself.
        predicates: a generic event must pass all of them.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        handler: EventHandler | MapFunction | None = None,
        predicates: Sequence[PredicateFunc] = (),
    ) -> None:
        self.channel = channel
        name = f"channel {channel.name}"
        handler = as_handler(handler) if handler is not None else EnqueueRequestForObject()
        self._dispatcher = EventDispatcher(name, handler, predicates)
        self._cause = ReconcileCause(name)
        self._queue: WorkQueue[Any] | None = None
        self._before_start: dict[Hashable, Hashable | AnyObject] = {}
        channel.connect(self)

    def receive(self, item: Hashable | AnyObject) -> None:
        """Queue a request, or dispatch an object as a generic event. `Channel.send` calls it."""
        if self._queue is None:
            _keep(self._before_start, item)
        elif isinstance(item, AnyObject):
            self._dispatcher.dispatch(generic_event(item))
        elif isinstance(item, Enqueue):
            self._queue.add(item.request, after=item.after, priority=item.priority or 0, cause=self._cause)
        else:
            self._queue.add(item, cause=self._cause)

    async def start(self, queue: WorkQueue[Any]) -> None:
        """Queue the items sent so far, and all later items."""
        self._dispatcher.bind(queue)
        self._queue = queue
        waiting, self._before_start = self._before_start, {}
        for item in waiting.values():
            self.receive(item)

    async def wait_synced(self, timeout: float) -> None:
        """Return when the items sent before the start are mapped."""
        async with asyncio.timeout(timeout):
            await self._dispatcher.wait_mapped()

    def failing_functions(self) -> list[FunctionFailure]:
        """Return the predicates and handlers that raise now."""
        return self._dispatcher.failures.failing()

    async def aclose(self) -> None:
        """Ignore later items."""
        self.channel.disconnect(self)
        await self._dispatcher.aclose()

    def __repr__(self) -> str:
        return f"<ChannelSource {self.channel.name}>"


def _keep(items: dict[Hashable, Hashable | AnyObject], item: Hashable | AnyObject) -> None:
    """Keep an item until the source starts."""
    identity = (gvk_of(item), key_of(item)) if isinstance(item, AnyObject) else item
    items.pop(identity, None)
    items[identity] = item
    if len(items) > _MAX_ITEMS:
        del items[next(iter(items))]


class FuncSource(EventSource):
    """Runs an async function that feeds the queue (``source.Func``).

    The function runs as a task from the start of the controller to its end. An exception ends the task, and fails
    readiness.

    >>> async def produce(queue: WorkQueue[Request]) -> None:
    ...     queue.add(Request("default", "site"))
    >>> FuncSource(produce)
    <FuncSource produce>
    """

    def __init__(self, function: Callable[[WorkQueue[Any]], Awaitable[None]]) -> None:
        if not is_async(function):
            raise UsageError(f"{function!r} is not async: declare it with `async def`")
        self.name = getattr(function, "__name__", repr(function))
        self._function = function
        self._tasks = TaskOwner(f"source {self.name}", on_error=self._on_crash)
        self._problem = ""

    async def start(self, queue: WorkQueue[Any]) -> None:
        """Start the function."""
        self._tasks.start(self._run(queue), name="produce")

    async def _run(self, queue: WorkQueue[Any]) -> None:
        task = asyncio.current_task()
        before = cancellations(task)
        try:
            await self._function(queue)
        except BaseException as error:  # noqa: BLE001 - a user function may raise anything
            # A CancelledError of the function's own would end the task without a word.
            raise contain(error, task=task, cancelling=before) from error.__cause__

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.error("%s ended: %r", task, error, exc_info=error)
        self._problem = f"{self!r} ended: {error!r}"

    def problem(self) -> str:
        """Return why the function ended; empty if it has not failed."""
        return self._problem

    async def aclose(self) -> None:
        """Cancel the function."""
        await self._tasks.aclose()

    def __repr__(self) -> str:
        return f"<FuncSource {self.name}>"
