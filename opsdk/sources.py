"""Where events come from."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject
from opsdk.cache.cache import Cache, CachedKind, KindRegistration
from opsdk.cache.store import Delta
from opsdk.dispatcher import EventDispatcher
from opsdk.errors import CacheSyncError, NoMatchError, OpsdkError, UsageError
from opsdk.event.event import event_of
from opsdk.event.request import Request
from opsdk.handlers import EventHandler
from opsdk.predicates import PredicateFunc
from opsdk.queue.work_queue import WorkQueue

log = logging.getLogger(__name__)

# When a kind that is not served is looked for again: soon at first, for its definition is often installed together
# with the operator; then every ten seconds, as controller-runtime does.
_RETRY_KIND = Backoff(base=0.5, factor=2.0, cap=10.0, jitter=0.0, reset_after=0)


class EventSource(Protocol):
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


class KindSource:
    """The changes of a kind, from the cache's informers.

    A kind that is not served yet is looked for, at least every ten seconds, until it is, so a controller may start
    before its CRD is installed.
    """

    def __init__(
        self,
        cache: Cache,
        kind: KindLike[AnyObject],
        handler: EventHandler,
        *,
        predicates: Sequence[PredicateFunc] = (),
        clock: Clock = LOOP_CLOCK,
    ) -> None:
        self.kind: Kind[AnyObject] = kind_of(kind)
        self.cache = cache
        self._clock = clock
        self._dispatcher = EventDispatcher(str(self.kind.gvk), handler, predicates, clock)
        self._tasks = TaskOwner(f"source {self.kind.gvk}", on_error=self._on_crash)
        self._registration: KindRegistration | None = None
        self._cached: CachedKind | None = None
        self._attached = asyncio.Event()
        self._problem: BaseException | None = None

    @property
    def counts(self) -> Counter[str]:
        """How often: event, dropped, predicate_error, handler_error, given_up."""
        return self._dispatcher.counts

    async def start(self, queue: WorkQueue[Request]) -> None:
        """Find the informer in the background, and add a handler to it."""
        self._dispatcher.bind(queue)
        self._tasks.start(self._attach(), name="attach")

    async def _attach(self) -> None:
        reported = False
        waits = _RETRY_KIND.start()
        while True:
            try:
                await self._dispatcher.handler.prepare(self.cache.mapper)
                self._cached = await self.cache.informer_for(self.kind)
                break
            except UsageError as error:  # no retry can mend it
                self._problem = error
                self._attached.set()
                return
            except OpsdkError as error:
                self._problem = error
                level = logging.DEBUG if reported else logging.WARNING
                log.log(level, "cannot watch %s yet: %s", self.kind.gvk, error)
                reported = isinstance(error, NoMatchError)
            await self._clock.sleep(waits.next(self._clock.now()))
        self._problem = None
        self._registration = self._cached.add_handler(self._on_delta, resync=True)
        self._attached.set()

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.error("%s ended: %r", task, error, exc_info=error)
        self._problem = error
        self._attached.set()

    def _on_delta(self, delta: Delta) -> None:
        self._dispatcher.dispatch(event_of(delta, self.kind))

    async def wait_synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the error says why
        """Return when every object of the initial list went through the handler.

        Raises `CacheSyncError` naming the kind and the last problem: not served, not allowed, not reachable.
        """
        deadline = self._clock.now() + timeout
        try:
            async with asyncio.timeout(timeout):
                await self._attached.wait()
        except TimeoutError:
            raise CacheSyncError(
                f"no informer for {self.kind.gvk} within {timeout:g} s: {self._problem}"
            ) from self._problem
        if self._problem is not None:
            raise self._problem
        assert self._cached is not None
        await self._cached.wait_synced(max(deadline - self._clock.now(), 0.001))
        try:
            async with asyncio.timeout(max(deadline - self._clock.now(), 0.001)):
                await self._dispatcher.wait_mapped()
        except TimeoutError:
            raise CacheSyncError(
                f"{self._dispatcher.handler!r} has not mapped every {self.kind.gvk} within {timeout:g} s: "
                "check that it returns"
            ) from None

    async def aclose(self) -> None:
        """Take the handler away. Idempotent."""
        if self._registration is not None:
            self._registration.remove()
        try:
            await self._tasks.aclose()
        finally:
            await self._dispatcher.aclose()

    def __repr__(self) -> str:
        return f"<KindSource {self.kind.gvk} -> {self._dispatcher.handler!r}>"


class ChannelSource:
    """Requests from outside the cluster: a webhook of some service, a timer, a test.

    Requests sent before the start are kept.

    >>> channel = ChannelSource("billing")
    >>> channel.send(Request("default", "site"))
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._queue: WorkQueue[Request] | None = None
        self._sent_before_start: list[tuple[Request, int]] = []
        self._closed = False

    def send(self, request: Request, *, priority: int = 0) -> None:
        """Have `request` reconciled; ignored once the controller has stopped."""
        if self._closed:
            return
        if self._queue is None:
            self._sent_before_start.append((request, priority))
        else:
            self._queue.add(request, priority=priority)

    async def start(self, queue: WorkQueue[Request]) -> None:
        """Pass on what was sent so far and what will be."""
        if self._queue is not None:
            raise UsageError(f"the channel {self.name} is started already: give each controller its own")
        self._queue = queue
        early, self._sent_before_start = self._sent_before_start, []
        for request, priority in early:
            queue.add(request, priority=priority)

    async def wait_synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the port's
        """A channel has nothing to wait for."""

    async def aclose(self) -> None:
        """Pass on nothing more."""
        self._closed = True

    def __repr__(self) -> str:
        return f"<ChannelSource {self.name}>"
