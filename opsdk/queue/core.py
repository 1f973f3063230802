"""The queue as a value: deduplication, priority, delay, in-flight. Pure: the time is passed in.

An item is in at most one of these states::

    (unknown) -> DELAYED -> READY -> (handed out) PROCESSING -> (unknown)
                                                      |  added meanwhile
                                                      +-> WAITING until done, then DELAYED or READY

Promises, each kept after every call:
    * an item is handed to one worker at a time; what is added meanwhile is kept and handed out after `done`;
    * many adds of one item are one hand-out, at the highest priority and the earliest time among them;
    * among ready items the highest priority goes first, and equals go in the order in which they became ready;
    * nothing added before `shut_down` is lost, except that nothing is handed out after it unless draining.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""For initial lists and resyncs: live changes overtake them."""


class QueueState(Enum):
    """Where the queue is in its life."""

    OPEN = "open"
    """Takes and hands out items."""
    DRAINING = "draining"
    """Takes none; hands out what is ready."""
    CLOSED = "closed"
    """Takes and hands out nothing."""


@dataclass(slots=True)
class _Entry:
    """An item that is queued (delayed, ready, or waiting for its own processing to end)."""

    priority: int
    ready_at: float
    queued_at: float
    ready: bool = False
    # The heap may hold outdated places of an item: only the one with this number counts.
    ticket: int = 0


@dataclass(frozen=True, slots=True)
class QueueItem(Generic[K]):
    """An item given to a worker.

    Attributes:
        waited: seconds since it became ready.
    """

    item: K
    priority: int
    waited: float


class QueueCore(Generic[K]):
    """The queue's rules.

    >>> q = QueueCore()
    >>> q.add("a", now=0.0), q.add("b", now=0.0, priority=5), q.add("a", now=0.0)
    (True, True, False)
    >>> q.take(now=0.0).item
    'b'
    """

    def __init__(self) -> None:
        self.state = QueueState.OPEN
        self._entries: dict[K, _Entry] = {}
        self._processing: dict[K, float] = {}
        self._delayed: list[tuple[float, int, K]] = []
        self._ready: list[tuple[int, int, K]] = []
        self._tickets = count(1)
        self._depth: dict[int, int] = {}

    # -------------------------------------------------------------- adding
    def add(self, item: K, *, now: float, after: float = 0.0, priority: int = 0) -> bool:
        """Queue `item`, to be handed out `after` seconds from now; True if it was not queued before.

        An item that is queued already keeps the earlier time and the higher priority.
        """
        if self.state is not QueueState.OPEN:
            return False
        ready_at = now + max(after, 0.0)
        entry = self._entries.get(item)
        if entry is None:
            entry = self._entries[item] = _Entry(priority, ready_at, now)
            self._place(item, entry, now)
            return True
        earlier = ready_at < entry.ready_at and not entry.ready
        higher = priority > entry.priority
        if earlier or higher:
            if entry.ready and item not in self._processing:
                self._count(entry.priority, -1)
            entry.ready_at = min(entry.ready_at, ready_at)
            entry.priority = max(entry.priority, priority)
            entry.ready = False
            self._place(item, entry, now)
        return False

    def _place(self, item: K, entry: _Entry, now: float) -> None:
        entry.ticket = next(self._tickets)
        if item in self._processing:
            return  # waits for `done`, whatever its time
        if entry.ready_at <= now:
            self._make_ready(item, entry)
        else:
            heapq.heappush(self._delayed, (entry.ready_at, entry.ticket, item))

    def _make_ready(self, item: K, entry: _Entry) -> None:
        entry.ready = True
        heapq.heappush(self._ready, (-entry.priority, entry.ticket, item))
        self._count(entry.priority, 1)

    def _count(self, priority: int, change: int) -> None:
        depth = self._depth.get(priority, 0) + change
        if depth:
            self._depth[priority] = depth
        else:
            self._depth.pop(priority, None)

    # -------------------------------------------------------------- taking
    def advance(self, now: float) -> None:
        """Make ready what is due. `take` does so itself."""
        while self._delayed and self._delayed[0][0] <= now:
            _, ticket, item = heapq.heappop(self._delayed)
            entry = self._entries.get(item)
            if entry is not None and entry.ticket == ticket and not entry.ready:
                # A new ticket: among equals the order is that of becoming ready, not of being added.
                entry.ticket = next(self._tickets)
                self._make_ready(item, entry)

    def take(self, now: float) -> QueueItem[K] | None:
        """The next item for a worker, or None if none is ready."""
        if self.state is QueueState.CLOSED:
            return None
        self.advance(now)
        while self._ready:
            _, ticket, item = heapq.heappop(self._ready)
            entry = self._entries.get(item)
            if entry is None or entry.ticket != ticket:
                continue
            del self._entries[item]
            self._count(entry.priority, -1)
            self._processing[item] = now
            return QueueItem(item, entry.priority, now - entry.ready_at)
        return None

    def done(self, item: K, *, now: float) -> float:
        """The worker has finished `item`; returns the seconds it took. What was added meanwhile is queued now."""
        started = self._processing.pop(item, None)
        if started is None:
            raise KeyError(f"{item!r} is not being processed: done() was called twice, or never taken")
        entry = self._entries.get(item)
        if entry is not None:
            self._place(item, entry, now)
        return now - started

    # -------------------------------------------------------------- looking
    def next_ready_at(self) -> float | None:
        """When the next delayed item becomes ready, or None."""
        while self._delayed:
            ready_at, ticket, item = self._delayed[0]
            entry = self._entries.get(item)
            if entry is not None and entry.ticket == ticket:
                return ready_at
            heapq.heappop(self._delayed)  # outdated
        return None

    def has_ready(self, now: float) -> bool:
        """Whether `take` would hand something out."""
        self.advance(now)
        return bool(self._depth) and self.state is not QueueState.CLOSED

    def __len__(self) -> int:
        """How many items are ready: neither delayed nor waiting for their own processing to end."""
        return sum(self._depth.values())

    def depth(self) -> dict[int, int]:
        """How many items are ready, by priority."""
        return dict(self._depth)

    def queued(self) -> Iterator[K]:
        """Every item that is queued in any way."""
        return iter(self._entries)

    def processing(self) -> dict[K, float]:
        """Items at workers, and since when."""
        return dict(self._processing)

    # -------------------------------------------------------------- ending
    def shut_down(self, *, drain: bool = False) -> None:
        """Take nothing more; with `drain`, go on handing out what is ready. Idempotent."""
        if self.state is QueueState.CLOSED:
            return
        self.state = QueueState.DRAINING if drain else QueueState.CLOSED
        self._delayed.clear()
        for item in [i for i, e in self._entries.items() if not e.ready]:
            del self._entries[item]

    def __repr__(self) -> str:
        delayed = len(self._entries) - len(self)
        return f"<queue {self.state.value}: {len(self)} ready, {delayed} later, {len(self._processing)} at work>"
