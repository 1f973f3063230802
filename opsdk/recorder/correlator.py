"""Which Event to write for something that happened, and whether to write one at all. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from cachetools import LRUCache

from opsdk.api.core.v1 import ObjectReference
from opsdk.api.events.v1 import Event, EventSeries
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.time import MicroTime

# A repetition within so many seconds belongs to the same series, as in client-go.
_SERIES_SECONDS = 360.0
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class EventKey(NamedTuple):
    """What makes two happenings the same."""

    type: str
    reason: str
    action: str
    note: str
    regarding: tuple[str, ...]
    related: tuple[str, ...]


class Write(Enum):
    """What to do with an Event."""

    CREATE = "create"
    SERIES = "series"
    """Send its series to the Event that is there."""
    NOTHING = "nothing"


@dataclass(slots=True)
class _Correlation:
    event: Event
    last: datetime
    sent: int = 1
    """The count that was handed out to be written."""


class EventCorrelator:
    """Turns repetitions into series.

    Args:
        size: how many different happenings are remembered; the least recent are forgotten.
    """

    def __init__(self, *, controller: str, instance: str, size: int = 4096) -> None:
        self._controller = controller
        # The server refuses longer ones.
        self._instance = instance[:128]
        self._stamp = 0
        self._known: LRUCache[EventKey, _Correlation] = LRUCache(size)

    def record(
        self, what: EventKey, references: Mapping[str, ObjectReference | None], now: datetime
    ) -> tuple[Write, Event]:
        """The Event for a happening, and what to do with it."""
        state = self._known.get(what)
        if state is None or (now - state.last).total_seconds() > _SERIES_SECONDS:
            event = self._fresh(what, references, now)
            self._known[what] = _Correlation(event, now)
            return Write.CREATE, event
        state.last = now
        series = state.event.series
        count = 2 if series is None else series.count + 1
        state.event.series = EventSeries(count=count, last_observed_time=MicroTime.of(now))
        if series is None:
            state.sent = count
            return Write.SERIES, state.event
        # Only counted: `unsent` hands the count out later, so that a loop does not write all the time.
        return Write.NOTHING, state.event

    def unsent(self) -> Iterator[tuple[EventKey, Event]]:
        """The series that have grown since they were last handed out; to be asked for every few minutes."""
        for what, state in list(self._known.items()):
            series = state.event.series
            if series is not None and series.count > state.sent:
                state.sent = series.count
                yield what, state.event

    def forget(self, what: EventKey) -> None:
        """The Event is gone from the server: the next one is created anew."""
        self._known.pop(what, None)

    def _fresh(self, what: EventKey, references: Mapping[str, ObjectReference | None], now: datetime) -> Event:
        regarding = references["regarding"] or ObjectReference()
        # Events of cluster-scoped objects live in "default".
        namespace = regarding.namespace or "default"
        # Never the same twice: two things may happen to one object in one tick of the clock.
        self._stamp = max(self._stamp + 1, int(now.timestamp() * 1e6) * 1000)
        name = (regarding.name or "event")[:236].rstrip("-.")
        if not _SUBDOMAIN.fullmatch(name):  # roles and the like may be called what no event may be
            name = "event"
        return Event(
            metadata=ObjectMeta(name=f"{name}.{self._stamp:x}", namespace=namespace),
            event_time=MicroTime.of(now),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=what.action,
            reason=what.reason,
            regarding=regarding,
            related=references["related"],
            note=what.note,
            type=what.type,
        )
