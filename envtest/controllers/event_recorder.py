"""Event recorder: aggregate similar events, count repeated ones, and apply the spam filter.

Upstream: k8s.io/client-go/tools/record/events_cache.go (v1.36)
"""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass, field

from cachetools import LRUCache

from envtest.controllers.client import InProcessClient
from envtest.controllers.objects import stamp
from envtest.controllers.writes import EVENTS, CreateWrite, PatchWrite, PendingEvent
from opsdk.aio.clock import monotonic, utc_now
from opsdk.errors import ApiError, NotFoundError
from opsdk.structured_merge.value import JsonObject

_LOG = logging.getLogger("envtest.controllers")
_MEMORY = 4096
"""Size of the LRU caches: the default of client-go."""
_ALIKE, _WINDOW = 10, 600.0
"""Limits of aggregation: events that differ only in their message, and the interval in seconds."""
_BURST, _REFILL = 25.0, 300.0
"""Token bucket of each object: burst, and seconds per token."""
_NUMBERS = itertools.count(1)
"""Makes event names unique in this process, even if a test clock does not advance."""
_COMBINED = "(combined from similar events): "

Key = tuple[str, ...]


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
        self._buckets: LRUCache[Key, _Bucket] = LRUCache(_MEMORY)
        self._similar: LRUCache[Key, _SimilarEvents] = LRUCache(_MEMORY)
        self._recorded: LRUCache[Key, RecordedEvent] = LRUCache(_MEMORY)

    def __repr__(self) -> str:
        return f"<Correlator of {len(self._recorded)} events>"

    def look(self, event: PendingEvent, message: str, now: float) -> tuple[RecordedEvent, str] | None:
        """Return the record (`count` 0 if it is new) and the message to write; None if the event is dropped."""
        involved = event.involved_object
        uid = involved["metadata"].get("uid", "")
        spam_key = (
            involved.get("kind", ""),
            involved["metadata"].get("namespace", ""),
            involved["metadata"]["name"],
            uid,
        )
        aggregate_key = (*spam_key, event.reason, str(event.warning))
        message, combined = self._aggregated(aggregate_key, message, now)
        bucket = self._buckets.setdefault(spam_key, _Bucket(at=now))
        bucket.left = min(_BURST, bucket.left + (now - bucket.at) / _REFILL)
        bucket.at = now
        if bucket.left < 1:
            return None
        bucket.left -= 1
        return self._recorded.setdefault((*aggregate_key, "" if combined else message), RecordedEvent()), message

    def _aggregated(self, aggregate_key: Key, message: str, now: float) -> tuple[str, bool]:
        similar = self._similar.setdefault(aggregate_key, _SimilarEvents(last=now))
        if now - similar.last > _WINDOW:
            similar.texts.clear()
        similar.last = now
        similar.texts.add(message)
        if len(similar.texts) < _ALIKE:
            return message, False
        similar.texts.pop()
        return _COMBINED + message, True


def reference_to(obj: JsonObject) -> JsonObject:
    """Return the ``involvedObject`` of an Event."""
    meta = obj["metadata"]
    reference = {k: meta[k] for k in ("namespace", "name", "uid", "resourceVersion") if meta.get(k)}
    return {"kind": obj.get("kind", ""), "apiVersion": obj.get("apiVersion", ""), **reference}


def event_of(event: PendingEvent, message: str, *, name: str, source: JsonObject, now: str) -> JsonObject:
    """Return a new Event."""
    involved = reference_to(event.involved_object)
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": involved.get("namespace", "default")},
        "involvedObject": involved,
        "reason": event.reason,
        "message": message,
        "type": "Warning" if event.warning else "Normal",
        "source": source,
        "reportingComponent": source["component"],
        "reportingInstance": source.get("host", ""),
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


# ------------------------------------------------------------------ shell
class Recorder:
    """Records Events of one component, if it is enabled."""

    def __init__(self, api: InProcessClient, component: str, *, host: str = "", enabled: bool = True) -> None:
        self._api, self._enabled = api, enabled
        self._component = component
        self._source: JsonObject = {"component": component, **({"host": host} if host else {})}
        self._correlator = Correlator()

    def __repr__(self) -> str:
        return f"<Recorder of {self._component}>"

    async def record(self, event: PendingEvent, *, name: str = "", error: str = "") -> None:
        """Create an Event or raise its count. Events are best effort: errors are logged."""
        if not self._enabled:
            return
        message = event.message.replace("{name}", name).replace("{error}", error)[:1024]
        correlated = self._correlator.look(event, message, monotonic())
        if correlated is None:
            return
        entry, text = correlated
        try:
            await self._write(event, entry, text)
        except ApiError as refused:
            level = logging.DEBUG if refused.code in (403, 404) else logging.WARNING
            _LOG.log(level, "%s: event %s: %r", self._component, event.reason, refused)

    async def _write(self, event: PendingEvent, entry: RecordedEvent, text: str) -> None:
        """Write an Event, or its new count. One that has expired is created again."""
        wall = utc_now()
        now = stamp(wall)
        entry.count += 1
        if entry.count > 1:
            meta = {"namespace": event.involved_object["metadata"].get("namespace", "default"), "name": entry.name}
            patch = {"count": entry.count, "lastTimestamp": now, "message": text}
            try:
                await self._api.write(PatchWrite(EVENTS, {"metadata": meta}, patch))
            except NotFoundError:
                entry.count = 1
            else:
                return
        ticks = int(wall.timestamp()) * 10**9 + wall.microsecond * 1000 + next(_NUMBERS)
        entry.name, entry.first = f"{event.involved_object['metadata']['name'][:236]}.{ticks:x}", now
        obj = event_of(event, text, name=entry.name, source=self._source, now=now)
        await self._api.write(CreateWrite(EVENTS, obj))
