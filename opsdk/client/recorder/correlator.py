"""Decides which Event to write, and combines repetitions into series. Pure.

Upstream: k8s.io/client-go/tools/events/event_broadcaster.go, event_recorder.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import NamedTuple

import msgspec
from cachetools import LRUCache

from opsdk.api.core.v1 import ObjectReference
from opsdk.api.events.v1 import Event, EventSeries
from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.time import MicroTime
from opsdk.client.recorder.spam_filter import SpamFilter

# Seconds within which a repetition belongs to the same series (finishTime in client-go).
_SERIES_SECONDS = 360.0
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class EventKey(NamedTuple):
    """Identifies repetitions of an Event."""

    type: str
    reason: str
    action: str
    note: str
    regarding: tuple[str, ...]
    related: tuple[str, ...]


class Write(Enum):
    """The write for an Event."""

    CREATE = "create"
    SERIES = "series"
    """Patch the series of the existing Event."""
    NOTHING = "nothing"
    DROP = "drop"
    """There were too many Events about the object."""


class _Correlation(msgspec.Struct):
    event: Event
    last: datetime
    sent: int = 1
    """The count that was last returned for writing."""


class SavedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An Event that repetitions belong to, for checkpoints.

    Attributes:
        event: as JSON.
        last: when it was recorded the last time.
        sent: the count that was last returned for writing.
    """

    event: bytes
    last: datetime
    sent: int


class EventCorrelator:
    """Combines repetitions of Events into series.

    Args:
        controller: the reporting controller.
        instance: the reporting instance.
        size: how many different Events are remembered; the least recently used are forgotten.
    """

    def __init__(self, *, controller: str, instance: str, size: int = 4096) -> None:
        self._controller = controller
        # The server rejects a longer reportingInstance.
        self._instance = instance[:128]
        self._stamp = 0
        self._correlations: LRUCache[EventKey, _Correlation] = LRUCache(size)
        self._spam = SpamFilter(size)

    def record(
        self, key: EventKey, references: Mapping[str, ObjectReference | None], now: datetime
    ) -> tuple[Write, Event]:
        """Return the Event, and the write for it."""
        state = self._correlations.get(key)
        if state is None or (now - state.last).total_seconds() > _SERIES_SECONDS:
            event = self._new_event(key, references, now)
            if not self._spam.allows(key.type, key.regarding, now):
                return Write.DROP, event
            self._correlations[key] = _Correlation(event, now)
            return Write.CREATE, event
        state.last = now
        series = state.event.series
        count = 2 if series is None else series.count + 1
        state.event.series = EventSeries(count=count, last_observed_time=MicroTime.of(now))
        if series is None:
            state.sent = count
            return Write.SERIES, state.event
        # Only count it: `unsent` returns the count later, so that repetitions cause no write each.
        return Write.NOTHING, state.event

    def unsent(self) -> Iterator[tuple[EventKey, Event]]:
        """Iterate over the series that have grown since they were last returned. Call it every few minutes."""
        for key, state in list(self._correlations.items()):
            series = state.event.series
            if series is not None and series.count > state.sent:
                state.sent = series.count
                yield key, state.event

    def forget_ended(self, now: datetime) -> None:
        """Forget the series that have ended: a repetition creates a new Event."""
        for key, state in list(self._correlations.items()):
            if (now - state.last).total_seconds() > _SERIES_SECONDS:
                self.forget(key)
        self._spam.forget_full(now)

    def __len__(self) -> int:
        """Return the number of Events that are remembered."""
        return len(self._correlations)

    def forget(self, key: EventKey) -> None:
        """Forget an Event that the server no longer has. The next repetition creates a new one."""
        self._correlations.pop(key, None)

    def save(self) -> list[SavedEvent]:
        """Return the Events that repetitions belong to, the least recently used first."""
        states = list(self._correlations.values())
        return [SavedEvent(event=encode(state.event), last=state.last, sent=state.sent) for state in states]

    def restore(self, saved: Iterable[SavedEvent], key_of: Callable[[Event], EventKey]) -> None:
        """Remember Events of a checkpoint."""
        for each in saved:
            event = decode(each.event, kind_of(Event))
            key = key_of(event)
            self._correlations[key] = _Correlation(event, each.last, each.sent)
            self._spam.allows(key.type, key.regarding, each.last)
            self._stamp = max(self._stamp, int((event.metadata.name or "").rpartition(".")[2], 16))

    def _new_event(self, key: EventKey, references: Mapping[str, ObjectReference | None], now: datetime) -> Event:
        """Return a new Event with a unique name, in the namespace of its object."""
        regarding = references["regarding"] or ObjectReference()
        # Events about cluster-scoped objects are in the namespace "default", as in client-go.
        namespace = regarding.namespace or "default"
        # Unique, even if two Events have the same timestamp.
        self._stamp = max(self._stamp + 1, int(now.timestamp() * 1e6) * 1000)
        name = (regarding.name or "event")[:236].rstrip("-.")
        if not _SUBDOMAIN.fullmatch(name):  # RBAC names may contain characters that Event names may not
            name = "event"
        return Event(
            metadata=ObjectMeta(name=f"{name}.{self._stamp:x}", namespace=namespace),
            event_time=MicroTime.of(now),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=key.action,
            reason=key.reason,
            regarding=regarding,
            related=references["related"],
            note=key.note,
            type=key.type,
        )
