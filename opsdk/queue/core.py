"""The rules of the work queue: deduplication, priority, delay, processing. Pure: the caller passes the time.

States of an item::

    (unknown) -> DELAYED -> READY -> (taken) PROCESSING -> (unknown)
                                                 |  added during processing
                                                 +-> WAITING until done, then DELAYED or READY

Invariants, after every call:
    * one worker at a time processes an item; an item added during processing is returned again after `done`;
    * several adds of one item are returned once, with the highest priority and the earliest time among them;
    * the ready item with the highest priority is returned first, and equal ones in the order they became ready, or in
      the order of `opsdk.queue.fairness`;
    * no priority starves: while the oldest ready item of a lower priority waits longer than `max_wait`, every second
      item that is returned is of its priority. So the n-th of these is returned at the latest with the 2n-th take;
    * no item added before `shut_down` is lost, but after it only a draining queue returns items.

Upstream: sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue/priorityqueue.go
Deviates: there, items of low priority wait for as long as others are ready.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from enum import Enum
from itertools import count, islice
from operator import itemgetter
from typing import Generic, TypeVar

import msgspec

from opsdk.base.cause import ReconcileCause, ReconcileCauses
from opsdk.queue.fairness import FairOrder

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""Priority of initial lists and resyncs: live changes are processed first."""
MAX_WAIT = 30.0
"""Seconds that ready items wait for items of higher priorities."""
# Heaps and levels that are smaller keep their outdated places.
_FEW = 64


class QueueState(Enum):
    """State of the queue."""

    HELD = "held"
    """Accepts and returns no items until `restore`: the queue of a replay that begins in the middle of a run."""
    OPEN = "open"
    """Accepts and returns items."""
    DRAINING = "draining"
    """Accepts no items; returns the ready ones."""
    CLOSED = "closed"
    """Accepts and returns no items."""


# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_OPEN, _DRAINING, _CLOSED = QueueState.OPEN, QueueState.DRAINING, QueueState.CLOSED


class _Entry(msgspec.Struct, gc=False):
    """A queued item: delayed, ready, or waiting for the end of its own processing."""

    priority: int
    ready_at: float
    queued_at: float
    ready: bool = False
    # A heap or a level may hold outdated places of an item: only the one with this number is valid.
    ticket: int = 0
    # One cause as it is: nearly all items have one.
    causes: ReconcileCauses | ReconcileCause | None = None
    # Causes that happen later, such as timers, by source, event and key, each with its time.
    later: dict[tuple[str, str, str], tuple[float, ReconcileCause]] | None = None

    def add_cause(self, cause: ReconcileCause) -> None:
        """Add a cause that has happened."""
        if self.causes is None:
            self.causes = cause
            return
        if not isinstance(self.causes, ReconcileCauses):
            self.causes = ReconcileCauses(self.causes)
        self.causes.add(cause)

    def add_later_cause(self, at: float, cause: ReconcileCause) -> None:
        """Add a cause that happens at a time. Of equal ones, the earliest is kept."""
        if self.later is None:
            self.later = {}
        identity = (cause.source, cause.event, cause.key)
        existing = self.later.get(identity)
        if existing is None or at <= existing[0]:
            self.later[identity] = (at, cause)

    def happen(self, now: float) -> None:
        """Add the causes whose time has come."""
        for happens_at, cause in sorted((self.later or {}).values(), key=itemgetter(0)):
            if happens_at <= now:
                self.add_cause(cause)
        self.later = None

    def all_causes(self) -> tuple[ReconcileCause, ...]:
        """Return the causes that have happened, oldest first."""
        if isinstance(self.causes, ReconcileCauses):
            return self.causes.all()
        return () if self.causes is None else (self.causes,)


class QueueItem(msgspec.Struct, Generic[K], frozen=True, gc=False):
    """An item that a worker processes.

    Attributes:
        item: the item.
        priority: its priority.
        waited: seconds since it became ready.
        causes: why it was queued; those of combined adds too. A timer that has not fired does not count.
    """

    item: K
    priority: int
    waited: float
    causes: tuple[ReconcileCause, ...] = ()


class QueuedItem(msgspec.Struct, Generic[K], frozen=True):
    """An item that waits in the queue.

    Attributes:
        item: the item.
        priority: its priority.
        ready: a worker may take it now.
        ready_at: when it became ready, or becomes ready, by the queue's clock.
        causes: why it was queued, without timers that have not fired.
    """

    item: K
    priority: int
    ready: bool
    ready_at: float
    causes: tuple[ReconcileCause, ...]


class SavedItem(msgspec.Struct, Generic[K], frozen=True, kw_only=True):
    """A queued item as `QueueCore.save` returns it.

    Attributes:
        item: the item.
        priority: its priority.
        ready_at: when it became ready, or becomes ready, by the queue's clock.
        queued_at: when it was added.
        causes: that have happened.
        later: causes that happen later, each with its time.
    """

    item: K
    priority: int
    ready_at: float
    queued_at: float
    causes: tuple[ReconcileCause, ...] = ()
    later: tuple[tuple[float, ReconcileCause], ...] = ()


class QueueCore(Generic[K]):
    """The state of a work queue.

    Args:
        fair_order: orders the ready items of a priority; None orders them by the time when they became ready.
        max_wait: seconds that ready items wait for items of higher priorities; 0 for no limit.

    >>> q = QueueCore()
    >>> q.add("a", now=0.0), q.add("b", now=0.0, priority=5), q.add("a", now=0.0)
    (True, True, False)
    >>> q.take(now=0.0).item
    'b'
    """

    def __init__(self, fair_order: FairOrder[K] | None = None, *, max_wait: float = MAX_WAIT) -> None:
        self.state = _OPEN
        self._fair = fair_order
        self._max_wait = max_wait
        self._took_overdue = False
        self._entries: dict[K, _Entry] = {}
        self._processing: dict[K, float] = {}
        self.delayed: list[tuple[float, int, K]] = []
        """Items by the time when they become ready: a heap, with outdated places. Empty: no item waits for its time."""
        self._levels: dict[int, deque[tuple[int, K, float]]] = {}
        """Ready items by priority, in the order in which they became ready: ticket, item, and since when."""
        self._tickets = count(1)
        self._depth: dict[int, int] = {}
        self._ready_count = 0
        self.limit = sys.maxsize
        """Queued items. A new item above the limit replaces the oldest one."""
        self.dropped = 0
        """Items that were replaced because of `limit`."""
        self.paused = False
        """No item is returned while this is set. Added items are combined as usual."""

    # -------------------------------------------------------------- adding
    def add(
        self,
        item: K,
        *,
        now: float,
        after: float = 0.0,
        priority: int = 0,
        cause: ReconcileCause | None = None,
        timer: bool = False,
    ) -> bool:
        """Queue `item` for `after` seconds from now. Returns True if it was not queued.

        An item that is already queued keeps the earlier time and the higher priority, and its causes. With
        `timer`, the cause is the end of the delay, so it is not a cause of an earlier start.
        """
        if self.state is not _OPEN:
            return False
        ready_at = now + max(after, 0.0)
        entry = self._entries.get(item)
        is_new = entry is None
        if entry is None:
            entry = self._entries[item] = _Entry(priority, ready_at, now)
        if cause is not None:
            if timer and ready_at > now:
                entry.add_later_cause(ready_at, cause)
            elif entry.causes is None:
                entry.causes = cause
            else:
                entry.add_cause(cause)
        if is_new:
            if len(self._entries) > self.limit:
                self._drop_oldest()
            self._schedule(item, entry, now)
            return True
        earlier = ready_at < entry.ready_at and not entry.ready
        higher = priority > entry.priority
        if earlier or higher:
            if entry.ready and item not in self._processing:
                self._leave_ready(item, entry)
            entry.ready_at = min(entry.ready_at, ready_at)
            entry.priority = max(entry.priority, priority)
            entry.ready = False
            self._schedule(item, entry, now)
        return False

    def _drop_oldest(self) -> None:
        item = next(iter(self._entries))
        entry = self._entries.pop(item)
        self.dropped += 1
        if entry.ready:
            self._leave_ready(item, entry)

    def _leave_ready(self, item: K, entry: _Entry) -> None:
        self._change_depth(entry.priority, -1)
        if self._fair is not None:
            self._fair.discard(entry.priority, item)

    def _is_valid(self, ticket: int, item: K) -> bool:
        """Whether a place in a heap or a level is that of the item now."""
        entry = self._entries.get(item)
        return entry is not None and entry.ticket == ticket

    def _schedule(self, item: K, entry: _Entry, now: float) -> None:
        entry.ticket = next(self._tickets)
        if item in self._processing:
            return  # waits for `done`, whatever its time
        if entry.ready_at <= now:
            self._make_ready(item, entry, now)
        else:
            heapq.heappush(self.delayed, (entry.ready_at, entry.ticket, item))
            # A delay of hours would keep an outdated place for hours.
            if len(self.delayed) > _FEW and len(self.delayed) > 2 * len(self._entries):
                self.delayed = [place for place in self.delayed if self._is_valid(place[1], place[2])]
                heapq.heapify(self.delayed)

    def _make_ready(self, item: K, entry: _Entry, now: float) -> None:
        entry.ready = True
        if self._fair is not None:
            self._fair.push(entry.priority, item)
        self._change_depth(entry.priority, 1)
        level = self._levels.get(entry.priority)
        if level is None:
            level = self._levels[entry.priority] = deque()
        level.append((entry.ticket, item, now))
        if len(level) > _FEW and len(level) > 2 * self._depth[entry.priority]:
            self._levels[entry.priority] = deque(place for place in level if self._is_valid(place[0], place[1]))

    def _change_depth(self, priority: int, change: int) -> None:
        depth = self._depth[priority] = self._depth.get(priority, 0) + change
        if not depth:
            del self._depth[priority]
            del self._levels[priority]  # all its places are outdated
        self._ready_count += change

    # -------------------------------------------------------------- taking
    def advance(self, now: float) -> None:
        """Make due items ready. `take` calls it."""
        while self.delayed and self.delayed[0][0] <= now:
            _, ticket, item = heapq.heappop(self.delayed)
            entry = self._entries.get(item)
            if entry is not None and entry.ticket == ticket and not entry.ready:
                # A new ticket: equal priorities are ordered by when they became ready.
                entry.ticket = next(self._tickets)
                self._make_ready(item, entry, now)

    def take(self, now: float) -> QueueItem[K] | None:
        """Return the next item for a worker, or None if none is ready, or the queue is paused."""
        if self.state is _CLOSED or self.paused:
            return None
        if self.delayed:
            self.advance(now)
        item = self._pop(now)
        if item is None:
            return None
        entry = self._entries.pop(item)
        self._change_depth(entry.priority, -1)
        self._processing[item] = now
        if entry.later is not None:
            entry.happen(now)
        return QueueItem(item, entry.priority, now - entry.ready_at, entry.all_causes())

    def _pop(self, now: float) -> K | None:
        """Return the next ready item, and remove it from the order; None if no item is ready."""
        overdue = self._overdue(now) if len(self._depth) > 1 else None
        self._took_overdue = overdue is not None
        if self._fair is not None:
            return self._fair.pop(overdue)
        if not self._depth:
            return None
        level = self._levels[max(self._depth) if overdue is None else overdue]
        while True:  # a level has the place of an item, and perhaps outdated ones before it
            ticket, item, _ = level.popleft()
            entry = self._entries.get(item)
            if entry is not None and entry.ticket == ticket:
                return item

    def _overdue(self, now: float) -> int | None:
        """Return the lower priority whose oldest item waits for too long, every second time; else None."""
        if self._took_overdue or not self._max_wait:
            return None
        priority = min(self._depth, key=lambda priority: self._oldest(priority)[0])
        is_overdue = priority != max(self._depth) and now - self._oldest(priority)[2] > self._max_wait
        return priority if is_overdue else None

    def _oldest(self, priority: int) -> tuple[int, K, float]:
        """Return ticket, item and time of the item of a priority that became ready first."""
        level = self._levels[priority]
        while not self._is_valid(level[0][0], level[0][1]):
            level.popleft()
        return level[0]

    def done(self, item: K, *, now: float) -> float:
        """Mark `item` as processed and return the seconds it took. Raises ``KeyError`` if it is not being processed."""
        started = self._processing.pop(item, None)
        if started is None:
            raise KeyError(f"{item!r} is not being processed: done() was called twice, or the item was never taken")
        entry = self._entries.get(item)
        if entry is not None:
            if self.state is _DRAINING:
                entry.ready_at = min(entry.ready_at, now)  # no delay is waited for any more
                entry.happen(math.inf)
            self._schedule(item, entry, now)
        return now - started

    def recover(self, item: K, *, now: float, after: float) -> None:
        """End the processing of `item`, queue it, and give every item its place anew. Idempotent.

        For an exception out of `add` or `done`, such as MemoryError, which may leave an item without a place.

        Args:
            item: whose processing has ended.
            now: the time.
            after: seconds until `item` is ready, unless it is queued for an earlier time.
        """
        self._processing.pop(item, None)
        entry = self._entries.get(item)
        if entry is None and self.state is _OPEN:
            entry = self._entries[item] = _Entry(0, now + after, now)
        if entry is not None:
            entry.ready_at = min(entry.ready_at, now if self.state is _DRAINING else now + after)
        self.delayed, self._levels, self._depth, self._ready_count = [], {}, {}, 0
        self._fair = None if self._fair is None else self._fair.emptied()
        for queued, place in sorted(self._entries.items(), key=lambda pair: pair[1].ticket):
            place.ready = False
            self._schedule(queued, place, now)

    # -------------------------------------------------------------- inspecting
    def next_ready_at(self) -> float | None:
        """Return the time when the next delayed item becomes ready, or None."""
        while self.delayed:
            ready_at, ticket, item = self.delayed[0]
            entry = self._entries.get(item)
            if entry is not None and entry.ticket == ticket:
                return ready_at
            heapq.heappop(self.delayed)  # outdated
        return None

    def has_ready(self, now: float) -> bool:
        """Whether `take` returns an item."""
        self.advance(now)
        return bool(self._depth) and self.state is not _CLOSED and not self.paused

    def __len__(self) -> int:
        """Return the number of ready items."""
        return self._ready_count

    def depth(self) -> dict[int, int]:
        """Return the number of ready items by priority."""
        return dict(self._depth)

    def queued(self) -> Iterator[K]:
        """Iterate over all queued items: delayed, ready and waiting."""
        return iter(self._entries)

    def items(self, limit: int) -> list[QueuedItem[K]]:
        """Return the queued items in the order in which they were added, at most `limit`. To show them."""
        return [
            QueuedItem(item, entry.priority, entry.ready, entry.ready_at, entry.all_causes())
            for item, entry in islice(self._entries.items(), limit)
        ]

    def size(self) -> int:
        """Return the number of all queued items: delayed, ready and waiting."""
        return len(self._entries)

    def flow_depth(self) -> dict[tuple[int, Hashable], int] | None:
        """Return the number of ready items by priority and flow; None if the order is not fair."""
        return None if self._fair is None else self._fair.depth()

    def processing(self) -> dict[K, float]:
        """Return the items that workers process, with their start times."""
        return dict(self._processing)

    # -------------------------------------------------------------- checkpoints
    def save(self) -> list[SavedItem[K]] | None:
        """Return the queued items, in the order in which equal ones are returned; None while one is processed."""
        if self._processing:
            return None
        return [
            SavedItem(
                item=item,
                priority=entry.priority,
                ready_at=entry.ready_at,
                queued_at=entry.queued_at,
                causes=entry.all_causes(),
                later=tuple((entry.later or {}).values()),
            )
            for item, entry in sorted(self._entries.items(), key=lambda pair: pair[1].ticket)
        ]

    def restore(self, items: Iterable[SavedItem[K]], *, now: float) -> None:
        """Open a queue that is held, with the items of a `save`."""
        assert self.state is QueueState.HELD
        self.state = _OPEN
        for saved in items:
            entry = self._entries[saved.item] = _Entry(saved.priority, saved.ready_at, saved.queued_at)
            for cause in saved.causes:
                entry.add_cause(cause)
            for happens_at, cause in saved.later:
                entry.add_later_cause(happens_at, cause)
            self._schedule(saved.item, entry, now)

    # -------------------------------------------------------------- ending
    def shut_down(self, *, drain: bool = False) -> None:
        """Accept no more items. With `drain`, return those that are ready or wait for `done`. Idempotent.

        A paused queue returns none of them, so it closes at once.
        """
        if self.state is _CLOSED:
            return
        drain = drain and not self.paused
        self.state = _DRAINING if drain else _CLOSED
        self.delayed.clear()
        for item, entry in list(self._entries.items()):
            if not entry.ready and not (drain and item in self._processing):
                del self._entries[item]

    @property
    def ended(self) -> bool:
        """Whether no item will be returned any more."""
        return self.state is _CLOSED or (self.state is _DRAINING and not self._entries)

    def __repr__(self) -> str:
        delayed = len(self._entries) - len(self)
        return f"<queue {self.state.value}: {len(self)} ready, {delayed} delayed, {len(self._processing)} processing>"
