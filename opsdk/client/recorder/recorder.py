"""The recorder queues Events, and writes them in the background.

Upstream: k8s.io/client-go/tools/events/event_recorder.go (v1.36)
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic, utc_now
from opsdk.aio.containment import contain
from opsdk.aio.fence import FENCE, Fence
from opsdk.aio.named_sleep import named_sleep
from opsdk.aio.tasks import TaskOwner
from opsdk.api.core.v1 import ObjectReference
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import AnyObject, deep_copy, gvk_of
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.client.recorder.correlator import EventCorrelator, EventKey, SavedEvent, Write
from opsdk.client.recorder.event_type import EventType
from opsdk.errors import AlreadyExistsError, ApiError, NotFoundError, OpsdkError
from opsdk.telemetry.describe import repr_of
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Maximum number of queued Events; more are dropped and counted (maxQueuedEvents in client-go).
_QUEUE_SIZE = 1000
_TRIES = 12
# Seconds between writes of a growing series (refreshTime in client-go).
_COUNT_SECONDS = 360.0
# Events that are written in parallel.
_SHARDS = 8
# The server rejects longer notes.
_NOTE_BYTES = 1024


class _Queued(NamedTuple):
    """An Event to write, and the fence of the task that recorded it."""

    write: Write
    key: EventKey
    event: Event
    fence: Fence | None


class EventRecorder:
    """Writes Events (``events.k8s.io/v1``) about objects, in the background.

    Recording never waits and never raises. A failed write is retried, then logged and counted in `dropped`. Writing
    starts with `open`. Events of a task that needs leadership are dropped when this replica no longer leads.

    Args:
        client: writes the Events.
        controller: the reporting controller, such as ``website-operator``.
        dry_run: write nothing.
    """

    def __init__(self, client: Client, controller: str, *, dry_run: bool = False) -> None:
        self.dry_run = dry_run
        self.controller = controller
        self.dropped = 0
        self._client = client
        self._correlator = EventCorrelator(controller=controller, instance=f"{controller}-{socket.gethostname()}")
        # Writes of one Event must stay in order, so they use the same shard.
        self._shards: list[asyncio.Queue[_Queued]] = [asyncio.Queue() for _ in range(_SHARDS)]
        self._fence: Fence | None = None
        self._waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks = TaskOwner(f"events of {controller}", on_error=self._on_crash)
        self._started = False
        self._closed = False

    def event(
        self,
        regarding: AnyObject,
        type: EventType,
        reason: str,
        note: str,
        *,
        action: str = "",
        related: AnyObject | None = None,
    ) -> None:
        """Record an Event about `regarding`.

        Args:
            regarding: the object.
            type: ``Normal``, or ``Warning`` for a problem that needs attention.
            reason: one CamelCase word for programs: ``DeploymentCreated``.
            note: a sentence for users; truncated after 1024 bytes.
            action: what was done or attempted, in CamelCase; default: `reason`.
            related: another object that is involved.
        """
        if self._closed:
            self._drop("the recorder is closed")
            return
        try:
            about, other = _reference(regarding), _reference(related) if related is not None else None
            key = EventKey(
                type, reason, action or reason, _truncated(note), _reference_key(about), _reference_key(other)
            )
            write, event = self._correlator.record(key, {"regarding": about, "related": other}, utc_now())
        except BaseException as error:  # noqa: BLE001 - a failed Event must not stop the reconcile
            contain(error)
            self._drop(repr_of(error))
            return
        if write is Write.DROP:
            self._drop(f"there were too many {type} Events about {event.metadata.name} lately")
            return
        self._fence = FENCE.get() or self._fence
        if write is not Write.NOTHING and not self.dry_run:
            self._put(write, key, event, FENCE.get())

    def _put(self, write: Write, key: EventKey, event: Event, fence: Fence | None) -> None:
        if self._waiting >= _QUEUE_SIZE:
            self._drop(f"the queue of {_QUEUE_SIZE} Events is full")
            self._correlator.forget(key)
            return
        self._waiting += 1
        self._idle.clear()
        # Not `hash`: it differs from process to process, and so would the order of a replay.
        shard = self._shards[crc32(event.metadata.name.encode()) % _SHARDS]
        shard.put_nowait(_Queued(write, key, deep_copy(event), fence))

    # -------------------------------------------------------------- checkpoints
    def save(self) -> list[SavedEvent] | None:
        """Return the Events that repetitions belong to; None while one is written."""
        return None if self._waiting else self._correlator.save()

    def restore(self, saved: Iterable[SavedEvent]) -> None:
        """Remember the Events of a checkpoint."""
        self._correlator.restore(saved, _key_of)

    # -------------------------------------------------------------- writing
    def needs_leader_election(self) -> bool:
        """Return False: every replica records Events."""
        return False

    def open(self) -> None:
        """Start writing in the background."""
        if not self._started and not self._closed:
            self._started = True
            self._tasks.start(self._count(), name="count")
            for number, shard in enumerate(self._shards):
                self._tasks.start(self._run(shard), name=f"write {number}")

    def refuse(self) -> None:
        """Drop all further Events. For a recorder that was never opened; `aclose` writes queued Events."""
        self._closed = True

    async def aclose(self, *, shutdown_timeout: float = 2.0) -> None:
        """Write queued Events for at most `shutdown_timeout` seconds, then stop. Idempotent.

        Later Events are dropped.
        """
        if not self._closed:
            self._closed = True
            self._put_unsent()
        try:
            if self._started:
                async with asyncio.timeout(shutdown_timeout):
                    await self._idle.wait()
        except TimeoutError:
            log.warning("%d Events of %s were not written before shutdown", self._waiting, self.controller)
        finally:
            await self._tasks.aclose()
            self.dropped += self._waiting
            self._waiting = 0
            self._idle.set()

    async def _run(self, shard: asyncio.Queue[_Queued]) -> None:
        while True:
            queued = await shard.get()
            token = FENCE.set(queued.fence)
            try:
                await self._write(queued.write, queued.key, queued.event)
            except Exception as error:
                log.exception("writing an Event failed unexpectedly")
                self._drop(repr(error))
            FENCE.reset(token)
            # Not in a `finally`: after a cancellation, `aclose` counts the Event as dropped.
            self._waiting -= 1
            if not self._waiting:
                self._idle.set()

    async def _count(self) -> None:
        """Write the counts of series every few minutes."""
        while True:
            await named_sleep(f"events {self.controller}", _COUNT_SECONDS)
            self._put_unsent()
            self._correlator.forget_ended(utc_now())

    def _put_unsent(self) -> None:
        """Write the counts. If any Event was recorded behind a fence, the counts are too."""
        for key, event in self._correlator.unsent():
            if not self.dry_run:
                self._put(Write.SERIES, key, event, self._fence)

    async def _write(self, write: Write, key: EventKey, event: Event) -> None:
        """Write an Event, with retries. A series whose Event has expired becomes a new Event."""
        waits = Backoff(base=0.5, factor=2.0, cap=10.0, jitter=0.25).start()
        for _ in range(_TRIES):
            try:
                if write is Write.SERIES:
                    series = to_builtins(event.series)
                    await self._client.patch(event, merge_patch({"series": series}))
                else:
                    await self._client.create(event)
            except NotFoundError as error:
                # The Event of the series has expired, or the namespace is gone (then creating raises as well).
                if write is Write.CREATE:
                    self._drop(str(error))
                    return
                write = Write.CREATE
                self._correlator.forget(key)
            except AlreadyExistsError:
                return  # names are unique: an earlier attempt succeeded, but its response was lost
            except OpsdkError as error:
                if not error.retryable:
                    self._drop(str(error))
                    return
                retry_after = error.retry_after if isinstance(error, ApiError) else None
                await asyncio.sleep(max(waits.next(monotonic()), retry_after or 0.0))
            else:
                return
        self._drop(f"failed {_TRIES} times")

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        # Log the 1st, 2nd, 4th, 8th and so on: many dropped events must not fill the log.
        if self.dropped & (self.dropped - 1) == 0:
            log.warning("dropped an Event of %s (%d so far): %s", self.controller, self.dropped, reason)

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.critical("%s ended: %r", task, error, exc_info=error)


def _key_of(event: Event) -> EventKey:
    note, action, reason = event.note or "", event.action or "", event.reason or ""
    regarding, related = _reference_key(event.regarding), _reference_key(event.related)
    return EventKey(event.type or "", reason, action, note, regarding, related)


def _reference(obj: AnyObject) -> ObjectReference:
    gvk = gvk_of(obj)
    meta = obj.metadata
    return ObjectReference(
        api_version=gvk.api_version,
        kind=gvk.kind,
        name=meta.name,
        namespace=meta.namespace or None,
        uid=meta.uid or None,
        resource_version=meta.resource_version or None,
    )


def _reference_key(reference: ObjectReference | None) -> tuple[str, ...]:
    """Return the fields that identify an object; the resource version is not one of them."""
    if reference is None:
        return ()
    r = reference
    return (r.api_version or "", r.kind or "", r.namespace or "", r.name or "", r.uid or "")


def _truncated(note: str) -> str:
    data = note.encode(errors="replace")
    return data.decode() if len(data) <= _NOTE_BYTES else data[: _NOTE_BYTES - 3].decode(errors="ignore") + "..."
