"""Where events come from."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.tasks import TaskOwner
from opsdk.api.gvk import ObjectKey
from opsdk.api.kinds import Kind, KindLike, kind_of
from opsdk.cache.cache import Cache, CachedKind, KindRegistration
from opsdk.cache.store import Delta
from opsdk.errors import CacheSyncError, NoMatchError, OpsdkError, UsageError
from opsdk.flow.event import AnyEvent, event_of
from opsdk.flow.handler import EventHandler, Mapped
from opsdk.flow.predicate import Test
from opsdk.flow.request import Request
from opsdk.queue.core import LOW_PRIORITY
from opsdk.queue.workqueue import WorkQueue

log = logging.getLogger(__name__)

# How often a kind that is not served is looked for again: as often as controller-runtime does.
_RETRY_KIND = 10.0
# A handler that raises is asked again: soon at first, then every five minutes.
_RETRY_HANDLER = Backoff(base=0.1, factor=2.0, cap=300.0, jitter=0.1, reset_after=0)


class Source(Protocol):
    """Feeds a controller's queue."""

    async def start(self, queue: WorkQueue[Request]) -> None:
        """Begin to feed `queue`, and return; must not block for long."""
        ...

    async def wait_synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the error says why
        """Return when what was there at the start is in the queue; raise the reason after `timeout` seconds."""
        ...

    async def aclose(self) -> None:
        """Stop feeding. Idempotent."""
        ...


class _Feeder:
    """Events through predicates and a handler into a queue, in order.

    A handler that raises is asked again, with growing waits, until it answers or a newer event of the same object
    takes its place: no event is lost to a mistake or an outage.
    """

    def __init__(self, name: str, handler: EventHandler, predicates: Sequence[Test], clock: Clock) -> None:
        self.name = name
        self.handler = handler
        self.predicates = tuple(predicates)
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._queue: WorkQueue[Request] | None = None
        self._tasks = TaskOwner(f"source {name}")
        self._waiting: deque[tuple[Awaitable[Mapped], AnyEvent]] = deque()
        self._drainer: asyncio.Task[None] | None = None
        self._failed: dict[ObjectKey, AnyEvent] = {}

    def bind(self, queue: WorkQueue[Request]) -> None:
        if self._queue is not None:
            raise UsageError(f"the source {self.name} is started already: give each controller its own")
        self._queue = queue

    def feed(self, event: AnyEvent) -> None:
        self.counts["event"] += 1
        if not self._passes(event):
            self.counts["dropped"] += 1
            return
        if (failed := self._failed.get(event.view.key)) is not None:
            # The newer event stands for both: what the object was before either of them may matter.
            event = replace(event, old=failed.old or event.old)
            self._failed[event.view.key] = event
        self._map(event)

    def _passes(self, event: AnyEvent) -> bool:
        try:
            return all(test(event) for test in self.predicates)
        except Exception:
            # One event too many does no harm, one too few does.
            self.counts["predicate_error"] += 1
            log.exception("a predicate of source %s raised at %s: the event passes", self.name, event.view)
            return True

    def _map(self, event: AnyEvent) -> None:
        try:
            found = self.handler.requests(event)
        except Exception as error:  # noqa: BLE001 - the user's function: anything may come out of it
            self._retry_later(event, error)
            return
        if isinstance(found, Awaitable):
            # Asked in the order of the events: the queue must not see an older mapping after a newer one.
            self._waiting.append((found, event))
            if self._drainer is None:
                self._drainer = self._tasks.start(self._drain(), name="map")
        else:
            self._enqueue(found, event)

    def _enqueue(self, found: Mapped, event: AnyEvent) -> None:
        assert self._queue is not None
        self._failed.pop(event.view.key, None)
        priority = LOW_PRIORITY if event.initial or event.resync else 0
        for request in found:
            self._queue.add(request, priority=priority)

    async def _drain(self) -> None:
        try:
            while self._waiting:
                found, event = self._waiting.popleft()
                try:
                    self._enqueue(await found, event)
                except Exception as error:  # noqa: BLE001 - as in _map
                    self._retry_later(event, error)
        finally:
            self._drainer = None

    def _retry_later(self, event: AnyEvent, error: Exception) -> None:
        self.counts["handler_error"] += 1
        log.error(
            "the handler of source %s raised at %s; it will be asked again", self.name, event.view, exc_info=error
        )
        fresh = event.view.key not in self._failed
        self._failed[event.view.key] = event
        if fresh:
            self._tasks.start(self._retry(event.view.key), name=f"retry {event.view.key}")

    async def _retry(self, key: ObjectKey) -> None:
        waits = _RETRY_HANDLER.start()
        while key in self._failed:
            await self._clock.sleep(waits.next(self._clock.now()))
            if (event := self._failed.get(key)) is not None:
                self._map(event)
                await self.settled()

    async def settled(self) -> None:
        """Return when every event so far is mapped, or waits for a retry."""
        while self._drainer is not None:
            await asyncio.wait([self._drainer])

    async def aclose(self) -> None:
        for found, _ in self._waiting:
            if asyncio.iscoroutine(found):
                found.close()
        self._waiting.clear()
        self._failed.clear()
        await self._tasks.aclose()


class KindSource:
    """The changes of a kind, from the cache's informers.

    A kind that is not served yet is looked for every ten seconds until it is, so a controller may start before its
    CRD is installed.
    """

    def __init__(
        self,
        cache: Cache,
        kind: KindLike[Any],
        handler: EventHandler,
        *,
        predicates: Sequence[Test] = (),
        clock: Clock = LOOP_CLOCK,
    ) -> None:
        self.kind: Kind[Any] = kind_of(kind)
        self.cache = cache
        self._clock = clock
        self._feeder = _Feeder(str(self.kind.gvk), handler, predicates, clock)
        self._tasks = TaskOwner(f"source {self.kind.gvk}", on_error=self._on_crash)
        self._registration: KindRegistration | None = None
        self._cached: CachedKind | None = None
        self._found = asyncio.Event()
        self._problem: BaseException | None = None

    @property
    def counts(self) -> Counter[str]:
        """How often: event, dropped, predicate_error, handler_error."""
        return self._feeder.counts

    async def start(self, queue: WorkQueue[Request]) -> None:
        """Find the informer in the background, and add a handler to it."""
        self._feeder.bind(queue)
        self._tasks.start(self._attach(), name="attach")

    async def _attach(self) -> None:
        said = False
        while True:
            try:
                await self._feeder.handler.prepare(self.cache.mapper)
                self._cached = await self.cache.informer_for(self.kind)
                break
            except UsageError as error:  # no retry can mend it
                self._problem = error
                self._found.set()
                return
            except OpsdkError as error:
                self._problem = error
                level = logging.DEBUG if said else logging.WARNING
                log.log(level, "cannot watch %s yet: %s", self.kind.gvk, error)
                said = isinstance(error, NoMatchError)
            await self._clock.sleep(_RETRY_KIND)
        self._problem = None
        self._registration = self._cached.add_handler(self._on_delta, resync=True)
        self._found.set()

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.error("%s ended: %r", task, error, exc_info=error)
        self._problem = error
        self._found.set()

    def _on_delta(self, delta: Delta) -> None:
        self._feeder.feed(event_of(delta, self.kind))

    async def wait_synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the error says why
        """Return when every object of the initial list went through the handler.

        Raises `CacheSyncError` naming the kind and the last problem: not served, not allowed, not reachable.
        """
        deadline = self._clock.now() + timeout
        try:
            async with asyncio.timeout(timeout):
                await self._found.wait()
        except TimeoutError:
            raise CacheSyncError(
                f"no informer for {self.kind.gvk} within {timeout:g} s: {self._problem}"
            ) from self._problem
        if self._problem is not None:
            raise self._problem
        assert self._cached is not None
        await self._cached.wait_synced(max(deadline - self._clock.now(), 0.001))
        await self._feeder.settled()

    async def aclose(self) -> None:
        """Take the handler away. Idempotent."""
        if self._registration is not None:
            self._registration.remove()
        await self._tasks.aclose()
        await self._feeder.aclose()

    def __repr__(self) -> str:
        return f"<KindSource {self.kind.gvk} -> {self._feeder.handler!r}>"


class ChannelSource:
    """Requests from outside the cluster: a webhook of some service, a timer, a test.

    Requests sent before the start are kept.

    >>> channel = ChannelSource("billing")
    >>> channel.send(Request("default", "site"))
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._queue: WorkQueue[Request] | None = None
        self._early: list[tuple[Request, int]] = []
        self._closed = False

    def send(self, request: Request, *, priority: int = 0) -> None:
        """Have `request` reconciled; ignored once the controller has stopped."""
        if self._closed:
            return
        if self._queue is None:
            self._early.append((request, priority))
        else:
            self._queue.add(request, priority=priority)

    async def start(self, queue: WorkQueue[Request]) -> None:
        """Pass on what was sent so far and what will be."""
        if self._queue is not None:
            raise UsageError(f"the channel {self.name} is started already: give each controller its own")
        self._queue = queue
        early, self._early = self._early, []
        for request, priority in early:
            queue.add(request, priority=priority)

    async def wait_synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the port's
        """A channel has nothing to wait for."""

    async def aclose(self) -> None:
        """Pass on nothing more."""
        self._closed = True

    def __repr__(self) -> str:
        return f"<ChannelSource {self.name}>"
