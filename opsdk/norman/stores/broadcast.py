"""Broadcasts events to subscribers, with a bounded queue for each, and a log for resuming.

Upstream: github.com/rancher/norman/pkg/broadcast/generic.go
Deviates: a subscriber may resume after a revision; norman's subscribers list again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Self

from msgspec.structs import replace

from opsdk.aio.randomness import loop_random
from opsdk.apimachinery.integers import parse_int
from opsdk.norman.codes import ErrorCode
from opsdk.norman.model import ResourceEvent, ResourceEvents

QUEUE_SIZE = 100
"""Maximum number of queued events of a subscriber. A slower subscriber is dropped."""

LOG_SIZE = 1000
"""Number of logged events from which a subscriber can resume."""


class Broadcaster:
    """Sends each event to all subscribers, in order.

    A revision is the name of the log and the number of the event. A revision of another log, such as that of an earlier
    process, or one that has left the log, is too old.

    Args:
        on_idle: called when the last subscriber has left.
    """

    def __init__(self, on_idle: Callable[[], None] | None = None) -> None:
        self._on_idle = on_idle
        self._name = f"{loop_random().getrandbits(48):012x}"
        self._number = 0
        self._log: deque[ResourceEvent] = deque(maxlen=LOG_SIZE)
        self._queues: set[_Subscription] = set()

    @property
    def revision(self) -> str:
        """The revision of the newest event."""
        return f"{self._name}-{self._number}"

    @property
    def subscribers(self) -> int:
        """The number of subscribers."""
        return len(self._queues)

    def publish(self, event: ResourceEvent) -> None:
        """Send an event. Never waits."""
        self._number += 1
        event = replace(event, revision=self.revision)
        self._log.append(event)
        for subscription in list(self._queues):
            if not subscription.put(event):
                self._discard(subscription)

    def subscribe(self, since: str = "") -> ResourceEvents:
        """Yield the events after `since`, or from this call on. Ends when the subscriber is too slow, and on `end`.

        Raises:
            NormanError: Gone; `since` is too old.
        """
        subscription = _Subscription(self._events_after(since) if since else [], self._discard)
        self._queues.add(subscription)
        return subscription

    def end(self) -> None:
        """End all subscriptions after their queued events."""
        queues, self._queues = self._queues, set()
        for subscription in queues:
            subscription.end()

    def _discard(self, subscription: _Subscription) -> None:
        if subscription in self._queues:
            self._queues.discard(subscription)
            if not self._queues and self._on_idle is not None:
                self._on_idle()

    def _events_after(self, since: str) -> list[ResourceEvent]:
        name, _, text = since.rpartition("-")
        number = parse_int(text)
        oldest = self._number - len(self._log)
        if name != self._name or number is None or not oldest <= number <= self._number:
            raise ErrorCode.GONE.error("the revision is too old: list again")
        return list(self._log)[number - oldest :]


class _Subscription:
    """The queued events of one subscriber."""

    def __init__(self, events: list[ResourceEvent], on_close: Callable[[_Subscription], None]) -> None:
        self._events = deque(events)
        self._on_close = on_close
        self._ended = False
        self._wake = asyncio.Event()

    def put(self, event: ResourceEvent) -> bool:
        """Add an event. Returns False, and ends the subscription, if the queue is full."""
        if len(self._events) >= QUEUE_SIZE:
            # Drop queued events too: the subscriber lists again, and must not apply old events after that.
            self._events.clear()
            self.end()
            return False
        self._events.append(event)
        self._wake.set()
        return True

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ResourceEvent:
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._events.popleft()

    async def aclose(self) -> None:
        self.end()
        self._events.clear()
        self._on_close(self)
