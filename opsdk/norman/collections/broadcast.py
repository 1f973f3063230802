"""Broadcasts the events of a collection to subscribers, with a bounded queue for each, and a log for resuming. Pure.

Upstream: github.com/rancher/norman/pkg/broadcast/generic.go;
github.com/rancher/steve/pkg/sqlcache/informer/internal/ring/circular_buffer.go
Deviates: a subscriber may resume after a revision; norman's subscribers list again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from opsdk.apimachinery.integers import parse_int
from opsdk.norman.codes import revision_too_old

T = TypeVar("T")


class Broadcaster(Generic[T]):
    """Sends each event to all subscribers, in order.

    Args:
        name: of the log, in front of its revisions; empty where revisions mean the same in every process. A revision of
            another log, such as that of an earlier process, is too old.
        log_size: events from which a subscriber can resume.
        queue_size: events that wait for a subscriber. A slower one is dropped.

    Attributes:
        revision: of the newest event.
    """

    def __init__(self, name: str = "", *, log_size: int = 1000, queue_size: int = 10_000) -> None:
        self.revision = 0
        self._prefix = f"{name}-" if name else ""
        self._log: deque[tuple[int, T]] = deque(maxlen=log_size)
        self._complete_since = 0
        self._queue_size = queue_size
        self._listeners: dict[object, Callable[[int, T], None]] = {}
        self._subscriptions: dict[Subscription[T], None] = {}

    @property
    def subscribers(self) -> int:
        """The number of subscribers."""
        return len(self._subscriptions)

    def start(self, revision: int) -> None:
        """Drop the log: it begins after a revision."""
        self._log.clear()
        self._complete_since = self.revision = revision

    def publish(self, event: T, revision: int | None = None) -> None:
        """Send an event, with the next revision or a later one. Never waits."""
        self.revision = self.revision + 1 if revision is None else revision
        if len(self._log) == self._log.maxlen:
            self._complete_since = self._log[0][0]
        self._log.append((self.revision, event))
        for listener in list(self._listeners.values()):
            listener(self.revision, event)

    def listen(self, listener: Callable[[int, T], None]) -> Callable[[], None]:
        """Call a listener with revision and event of each change. Returns the function that removes it; idempotent."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None

    def subscribe(self, since: int | None = None) -> Subscription[T]:
        """Return the events after a revision, or from this call on. The caller closes the subscription.

        Raises:
            NormanError: Gone; the revision is too old.
        """
        return Subscription(self, self.events_after(since) if since is not None else [], self._queue_size)

    def events_after(self, revision: int) -> list[tuple[int, T]]:
        """Return the logged events after a revision. Raises `NormanError` Gone if it is too old."""
        if revision < self._complete_since:
            raise revision_too_old()
        return [(number, event) for number, event in self._log if number > revision]

    def format_revision(self, revision: int) -> str:
        """Return the text of a revision, for clients."""
        return f"{self._prefix}{revision}"

    def parse_revision(self, text: str) -> int | None:
        """Return the revision of a string; None for an empty one. Raises `NormanError` Gone for that of another log."""
        if not text:
            return None
        number = parse_int(text.removeprefix(self._prefix))
        if not text.startswith(self._prefix) or number is None or (self._prefix and number > self.revision):
            raise revision_too_old()
        return number

    def end(self) -> None:
        """End all subscriptions after their queued events."""
        for subscription in list(self._subscriptions):
            subscription.end()

    def __repr__(self) -> str:
        return f"<Broadcaster of {len(self._log)} events since {self._complete_since}, {self.subscribers} subscribers>"


class Subscription(Generic[T]):
    """The events of one subscriber, with their revisions: an asynchronous iterator.

    Attributes:
        is_dropped: it ended because its reader was too slow. Queued events are dropped too: the reader lists again, and
            must not apply old events after that.
    """

    def __init__(self, broadcaster: Broadcaster[T], events: list[tuple[int, T]], queue_size: int) -> None:
        self.is_dropped = False
        self._broadcaster = broadcaster
        self._events = deque(events)
        self._queue_size = queue_size
        self._ended = False
        self._wake = asyncio.Event()
        self._remove = broadcaster.listen(self._put)
        broadcaster._subscriptions[self] = None  # noqa: SLF001 - of the same module

    def _put(self, revision: int, event: T) -> None:
        if len(self._events) >= self._queue_size:
            self.is_dropped = True
            self._events.clear()
            self.end()
            return
        self._events.append((revision, event))
        self._wake.set()

    def end(self) -> None:
        """End after the queued events. Idempotent."""
        self._ended = True
        self._remove()
        self._broadcaster._subscriptions.pop(self, None)  # noqa: SLF001 - of the same module
        self._wake.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[int, T]:
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._events.popleft()

    async def aclose(self) -> None:
        """End now. Idempotent."""
        self._events.clear()
        self.end()
