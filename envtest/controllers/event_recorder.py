"""Event recorder: aggregate similar events, count repeated ones, and apply the spam filter.

Upstream: k8s.io/client-go/tools/record/events_cache.go (v1.36)
"""

from __future__ import annotations

import itertools
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from envtest.controllers.client import InProcessClient
from envtest.controllers.objects import stamp
from envtest.controllers.writes import EVENTS, CreateWrite, PatchWrite, PendingEvent
from opsdk.aio.clock import Clock
from opsdk.errors import ApiError, NotFoundError
from opsdk.structured_merge.value import JsonObject

_LOG = logging.getLogger("envtest.controllers")
_MEMORY = 4096
"""Objects and events that are remembered, as in clients written in Go."""
_ALIKE, _WINDOW = 10, 600.0
"""So many events that differ only in their text within so many seconds are counted as one from then on."""
_BURST, _REFILL = 25.0, 300.0
"""So many events about one object at once, and one more each so many seconds."""
_NUMBERS = itertools.count(1)
"""No two events of this process have one name, even where time stands still."""
_COMBINED = "(combined from similar events): "

V = TypeVar("V")
Key = tuple[str, ...]


class _Recent(OrderedDict[Key, V]):
    """A dictionary that forgets what was not used for longest."""

    def take(self, key: Key, default: V) -> V:
        entry: V = self.pop(key, default)
        self[key] = entry
        if len(self) > _MEMORY:
            self.popitem(last=False)
        return entry


@dataclass(slots=True)
class _Bucket:
    left: float = _BURST
    at: float = 0.0


@dataclass(slots=True)
class _SimilarEvents:
    texts: set[str] = field(default_factory=set)
    last: float = 0.0


@dataclass(slots=True)
class RecordedEvent:
    """A recorded event: its name, count and first timestamp."""

    name: str = ""
    count: int = 0
    first: str = ""


# ------------------------------------------------------------------ core
class Correlator:
    """Aggregates, counts or drops events. It has no clock: times are seconds."""

    def __init__(self) -> None:
        self._buckets: _Recent[_Bucket] = _Recent()
        self._alike: _Recent[_SimilarEvents] = _Recent()
        self._said: _Recent[RecordedEvent] = _Recent()

    def __repr__(self) -> str:
        return f"<Correlator of {len(self._said)} events>"

    def look(self, note: PendingEvent, message: str, now: float) -> tuple[RecordedEvent, str] | None:
        """Return the record (`count` 0 if it is new) and the message to write; None if the event is dropped."""
        about = note.involved_object
        uid = about["metadata"].get("uid", "")
        whose = (about.get("kind", ""), about["metadata"].get("namespace", ""), about["metadata"]["name"], uid)
        same = (*whose, note.reason, str(note.warning))
        message, combined = self._combined(same, message, now)
        if not self._spend(whose, now):
            return None
        return self._said.take((*same, "" if combined else message), RecordedEvent()), message

    def _combined(self, same: Key, message: str, now: float) -> tuple[str, bool]:
        alike = self._alike.take(same, _SimilarEvents(last=now))
        if now - alike.last > _WINDOW:
            alike.texts.clear()
        alike.last = now
        alike.texts.add(message)
        if len(alike.texts) < _ALIKE:
            return message, False
        alike.texts.pop()
        return _COMBINED + message, True

    def _spend(self, whose: Key, now: float) -> bool:
        bucket = self._buckets.take(whose, _Bucket(at=now))
        bucket.left = min(_BURST, bucket.left + (now - bucket.at) / _REFILL)
        bucket.at = now
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True


def reference_to(obj: JsonObject) -> JsonObject:
    """Return the ``involvedObject`` of an Event."""
    meta = obj["metadata"]
    reference = {k: meta[k] for k in ("namespace", "name", "uid", "resourceVersion") if meta.get(k)}
    return {"kind": obj.get("kind", ""), "apiVersion": obj.get("apiVersion", ""), **reference}


def event_of(note: PendingEvent, message: str, *, name: str, source: JsonObject, now: str) -> JsonObject:
    """Return a new Event."""
    involved = reference_to(note.involved_object)
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": involved.get("namespace", "default")},
        "involvedObject": involved,
        "reason": note.reason,
        "message": message,
        "type": "Warning" if note.warning else "Normal",
        "source": source,
        "reportingComponent": source["component"],
        "reportingInstance": source.get("host", ""),
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


# ------------------------------------------------------------------ shell
class Recorder:
    """Records Events of one component."""

    def __init__(self, api: InProcessClient, component: str, clock: Clock, *, host: str = "") -> None:
        self._api = api
        self._component = component
        self._source: JsonObject = {"component": component, **({"host": host} if host else {})}
        self._clock = clock
        self._correlator = Correlator()

    def __repr__(self) -> str:
        return f"<Recorder of {self._component}>"

    async def record(self, note: PendingEvent, *, name: str = "", error: str = "") -> None:
        """Create an Event or raise its count. Events are best effort: errors are logged."""
        message = note.message.replace("{name}", name).replace("{error}", error)[:1024]
        correlated = self._correlator.look(note, message, self._clock.now())
        if correlated is None:
            return
        entry, text = correlated
        try:
            await self._write(note, entry, text)
        except ApiError as refused:
            level = logging.DEBUG if refused.code in (403, 404) else logging.WARNING
            _LOG.log(level, "%s: event %s: %r", self._component, note.reason, refused)

    async def _write(self, note: PendingEvent, said: RecordedEvent, text: str) -> None:
        wall = self._clock.wall()
        now = stamp(wall)
        said.count += 1
        if said.count > 1:
            meta = {"namespace": note.involved_object["metadata"].get("namespace", "default"), "name": said.name}
            patch = {"count": said.count, "lastTimestamp": now, "message": text}
            try:
                await self._api.write(PatchWrite(EVENTS, {"metadata": meta}, patch))
            except NotFoundError:
                said.count = 1
            else:
                return
        said.name, said.first = self._name(note, wall), now
        event = event_of(note, text, name=said.name, source=self._source, now=now)
        await self._api.write(CreateWrite(EVENTS, event))

    @staticmethod
    def _name(note: PendingEvent, wall: datetime) -> str:
        ticks = int(wall.timestamp()) * 10**9 + wall.microsecond * 1000 + next(_NUMBERS)
        return f"{note.involved_object['metadata']['name'][:236]}.{ticks:x}"
