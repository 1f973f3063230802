"""The recorder: takes what happened at once, writes it in the background."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Literal

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.tasks import TaskOwner
from opsdk.api.core.v1 import ObjectReference
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import AnyObject, deep_copy, gvk_of
from opsdk.client.client import Client
from opsdk.errors import AlreadyExistsError, ApiError, NotFoundError, OpsdkError
from opsdk.patch import merge_patch
from opsdk.recorder.correlator import EventCorrelator, EventKey, Write

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
# What waits here when the server is away; more is dropped and counted. client-go keeps as many.
_QUEUE_SIZE = 1000
_TRIES = 12
# The count of a series is written at most so often, as long as it grows.
_COUNT_SECONDS = 360.0
# So many are written at a time, as client-go does.
_LANES = 8
# The server refuses longer notes.
_NOTE_BYTES = 1024


class EventRecorder:
    """Writes Events (``events.k8s.io/v1``) about objects, in the background.

    Recording never waits and never fails: Events are for people, and must not hold up the work. What cannot be
    written is retried, then logged and counted in `dropped`. Begins to write with `open`.

    Args:
        controller: who reports, e.g. ``website-operator``.
    """

    def __init__(self, client: Client, controller: str, *, clock: Clock = LOOP_CLOCK) -> None:
        self.controller = controller
        self.dropped = 0
        self._client = client
        self._clock = clock
        self._correlator = EventCorrelator(controller=controller, instance=f"{controller}-{socket.gethostname()}")
        # What is written about one Event must stay in order: all of it goes through the same lane.
        self._shards: list[asyncio.Queue[tuple[Write, EventKey, Event]]] = [asyncio.Queue() for _ in range(_LANES)]
        self._waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks = TaskOwner(f"events of {controller}", on_error=self._on_crash)
        self._started = False
        self._closed = False

    def event(
        self,
        regarding: AnyObject,
        type: EventType,  # noqa: A002 - the field's name
        reason: str,
        note: str,
        *,
        action: str = "",
        related: AnyObject | None = None,
    ) -> None:
        """Tell people that something happened to `regarding`.

        Args:
            regarding: the object.
            type: ``Warning`` for what somebody should look at.
            reason: one word in CamelCase, for machines: ``DeploymentCreated``.
            note: a sentence, for people; cut after 1024 bytes.
            action: what was done or tried, in CamelCase; `reason` if not given.
            related: another object that plays a part.
        """
        if self._closed:
            return
        try:
            about, other = _reference(regarding), _reference(related) if related is not None else None
            what = EventKey(type, reason, action or reason, _cut(note), _words(about), _words(other))
            write, event = self._correlator.record(what, {"regarding": about, "related": other}, self._clock.wall())
        except Exception as error:  # noqa: BLE001 - a mistake in telling must not stop the work that is told of
            self._drop(repr(error))
            return
        if write is not Write.NOTHING:
            self._put(write, what, event)

    def _put(self, write: Write, what: EventKey, event: Event) -> None:
        if self._waiting >= _QUEUE_SIZE:
            self._drop(f"more than {_QUEUE_SIZE} events wait")
            self._correlator.forget(what)
            return
        self._waiting += 1
        self._idle.clear()
        self._shards[hash(event.metadata.name) % _LANES].put_nowait((write, what, deep_copy(event)))

    # -------------------------------------------------------------- writing
    def needs_leader_election(self) -> bool:
        """False: every replica may report."""
        return False

    def open(self) -> None:
        """Begin to write in the background."""
        if not self._started and not self._closed:
            self._started = True
            self._tasks.start(self._count(), name="count")
            for number, lane in enumerate(self._shards):
                self._tasks.start(self._run(lane), name=f"write {number}")

    async def aclose(self, *, shutdown_timeout: float = 2.0) -> None:
        """Write what waits, for at most `grace` seconds, then stop; later events are dropped quietly. Idempotent."""
        if not self._closed:
            self._closed = True
            self._put_unsent()
        try:
            if self._started:
                async with asyncio.timeout(shutdown_timeout):
                    await self._idle.wait()
        except TimeoutError:
            log.warning("%d events of %s were not written before the end", self._waiting, self.controller)
        finally:
            await self._tasks.aclose()
            self.dropped += self._waiting
            self._waiting = 0
            self._idle.set()

    async def _run(self, lane: asyncio.Queue[tuple[Write, EventKey, Event]]) -> None:
        while True:
            write, what, event = await lane.get()
            try:
                await self._write(write, what, event)
            except Exception as error:
                log.exception("an event could not be written: a bug")
                self._drop(repr(error))
            # Not in a `finally`: what is cut off by the end was not written, and is counted there.
            self._waiting -= 1
            if not self._waiting:
                self._idle.set()

    async def _count(self) -> None:
        """Write how often things happened, every few minutes."""
        while True:
            await self._clock.sleep(_COUNT_SECONDS)
            self._put_unsent()

    def _put_unsent(self) -> None:
        for what, event in self._correlator.unsent():
            self._put(Write.SERIES, what, event)

    async def _write(self, write: Write, what: EventKey, event: Event) -> None:
        waits = Backoff(base=0.5, factor=2.0, cap=10.0, jitter=0.25).start()
        for _ in range(_TRIES):
            try:
                if write is Write.SERIES:
                    series = to_builtins(event.series)
                    await self._client.patch(event, merge_patch({"series": series}))
                else:
                    await self._client.create(event)
            except NotFoundError as error:
                # The event we add to has expired (or the namespace is gone, and creating says so).
                if write is Write.CREATE:
                    self._drop(str(error))
                    return
                write = Write.CREATE
                self._correlator.forget(what)
            except AlreadyExistsError:
                return  # no other event has this name: the answer to an earlier try was lost
            except OpsdkError as error:
                if not error.retryable:
                    self._drop(str(error))
                    return
                retry_after = error.retry_after if isinstance(error, ApiError) else None
                await self._clock.sleep(max(waits.next(self._clock.now()), retry_after or 0.0))
            else:
                return
        self._drop(f"no success in {_TRIES} tries")

    def _drop(self, why: str) -> None:
        self.dropped += 1
        # The 1st, 2nd, 4th, 8th, ...: a flood of events must not become a flood of lines.
        if self.dropped & (self.dropped - 1) == 0:
            log.warning("an event of %s is dropped (%d so far): %s", self.controller, self.dropped, why)

    def _on_crash(self, task: str, error: BaseException) -> None:
        log.critical("%s ended: %r", task, error, exc_info=error)


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


def _words(reference: ObjectReference | None) -> tuple[str, ...]:
    """What two references to one object share; the revision is no part of it."""
    if reference is None:
        return ()
    r = reference
    return (r.api_version or "", r.kind or "", r.namespace or "", r.name or "", r.uid or "")


def _cut(note: str) -> str:
    data = note.encode(errors="replace")
    return data.decode() if len(data) <= _NOTE_BYTES else data[: _NOTE_BYTES - 3].decode(errors="ignore") + "..."
