"""Event sources: feed the work queue of a controller.

Upstream: sigs.k8s.io/controller-runtime/pkg/source/source.go, pkg/internal/source/kind.go
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.tasks import TaskOwner
from opsdk.aio.timeout import timeout as clock_timeout
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import CachedKind, KindRegistration
from opsdk.dispatcher import EventDispatcher
from opsdk.errors import CacheSyncError, NoMatchError, OpsdkError, UsageError
from opsdk.event.event import event_of
from opsdk.event.request import Request
from opsdk.handlers import EventHandler
from opsdk.predicates import PredicateFunc
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.failures import FunctionFailures

log = logging.getLogger(__name__)

# Retries for a kind that is not served yet. Short at first, because its CRD is often installed together with the
# operator; then every ten seconds, as in controller-runtime.
_RETRY_KIND = Backoff(base=0.5, factor=2.0, cap=10.0, jitter=0.0, reset_after=0)


class EventSource(Protocol):
    """Feeds a controller's work queue."""

    async def start(self, queue: WorkQueue[Request]) -> None:
        """Start to feed `queue`, and return. Must not block."""
        ...

    async def wait_synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the error says why
        """Return when the initial objects are in the queue. Raise the reason after `timeout` seconds."""
        ...

    async def aclose(self) -> None:
        """Stop feeding. Idempotent."""
        ...


class KindSource:
    """The changes of a kind, from the cache's informers.

    A kind that the server does not serve yet is retried at least every ten seconds, so a controller may start before
    its CRD is installed.

    Args:
        cache: provides the informer.
        kind: the watched kind.
        handler: maps events to requests.
        predicates: an event must pass all of them.
        clock: source of time.
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
        self._tasks = TaskOwner(f"source {self.kind.gvk}", on_error=self._on_crash, clock=clock)
        self._registration: KindRegistration | None = None
        self._cached: CachedKind | None = None
        self._attached = asyncio.Event()
        self._problem: BaseException | None = None

    @property
    def failures(self) -> FunctionFailures:
        """The predicates and handlers that raise."""
        return self._dispatcher.failures

    @property
    def counts(self) -> Counter[str]:
        """Counters: event, dropped, predicate_error, handler_error, given_up."""
        return self._dispatcher.counts

    async def start(self, queue: WorkQueue[Request]) -> None:
        """Start a task that gets the informer and adds a handler to it."""
        self._dispatcher.bind(queue)
        self._tasks.start(self._attach(), name="attach")

    async def _attach(self) -> None:
        reported = False
        waits = _RETRY_KIND.start()
        while True:
            try:
                await self._dispatcher.handler.prepare(self.cache.mapper)
                self._cached = await self.cache.informer_for(self.kind, pin=False)
                break
            except UsageError as error:  # a retry does not help
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
        self._registration = self._cached.add_handler(
            lambda delta: self._dispatcher.dispatch(event_of(delta, self.kind)), resync=True
        )
        self._attached.set()

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.error("%s ended: %r", task, error, exc_info=error)
        self._problem = error
        self._attached.set()

    async def wait_synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the error says why
        """Return when the handler has mapped every object of the initial list.

        Raises `CacheSyncError` with the kind and the last problem: not served, forbidden, unreachable. A later call
        waits on.
        """
        deadline = self._clock.now() + timeout
        try:
            async with clock_timeout(self._clock, timeout):
                await self._attached.wait()
        except TimeoutError:
            raise CacheSyncError(
                f"no informer for {self.kind.gvk} within {timeout:g} s: {self._problem}"
            ) from self._problem
        if self._problem is not None:
            raise self._problem
        assert self._cached is not None
        assert self._registration is not None
        await self._cached.wait_synced(max(deadline - self._clock.now(), 0.001))
        try:
            async with clock_timeout(self._clock, max(deadline - self._clock.now(), 0.001)):
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
        """Remove the handler; informers that nobody else uses stop. Idempotent."""
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


class ChannelSource:
    """Requests from outside the cluster: a webhook, a timer, a test.

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
        """Queue `request`. Does nothing after the controller has stopped."""
        if self._closed:
            return
        if self._queue is None:
            self._sent_before_start.append((request, priority))
        else:
            self._queue.add(request, priority=priority)

    async def start(self, queue: WorkQueue[Request]) -> None:
        """Queue the requests sent so far and all later ones."""
        if self._queue is not None:
            raise UsageError(f"the channel {self.name} is already started: create one channel for each controller")
        self._queue = queue
        early, self._sent_before_start = self._sent_before_start, []
        for request, priority in early:
            queue.add(request, priority=priority)

    async def wait_synced(self, timeout: float) -> None:  # noqa: ASYNC109 - the port's
        """Return at once: a channel has no initial objects."""

    async def aclose(self) -> None:
        """Ignore later requests."""
        self._closed = True

    def __repr__(self) -> str:
        return f"<ChannelSource {self.name}>"
