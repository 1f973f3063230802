"""Reads from the server what own writes left unknown, once for all readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.codec import peek_key
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry
from opsdk.cache.list_watch import ListerWatcher
from opsdk.cache.own_writes import UnknownMark, revision_of
from opsdk.cache.store import InformerStore
from opsdk.errors import CacheError, ForbiddenError, GoneError, MethodNotAllowedError, NotFoundError, OpsdkError
from opsdk.rest.pages import Pages
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# With more unknown objects, a list of all is cheaper than a request for each.
_MAX_GETS = 16


class ReadStart(NamedTuple):
    """What the store held when a read began.

    Attributes:
        lists: how many lists had replaced the store's content.
        revision: the resource version that the watch had passed.
        watched: the object as the watch had shown it.
        visible: the object as reads showed it.
    """

    lists: int
    revision: int
    watched: StoreEntry | None
    visible: StoreEntry | None

    @property
    def at_least(self) -> int:
        """The lowest resource version that a server sends now, unless it went back."""
        shown = [entry for entry in (self.watched, self.visible) if entry is not None]
        return max((revision_of(entry.resource_version) or 0 for entry in shown), default=0)

    def has_shown(self, entry: StoreEntry) -> bool:
        """Whether the watch had shown exactly this state."""
        watched = self.watched
        return watched is not None and (watched.uid, watched.resource_version) == (entry.uid, entry.resource_version)


class UnknownRead:
    """A read of one object whose state is not known, from before its request until after its response. Pure.

    Args:
        store: has the mark.
        key: of the object.
        mark: what the read resolves.
    """

    def __init__(self, store: InformerStore, key: ObjectKey, mark: UnknownMark) -> None:
        self.start = ReadStart(store.lists, store.revision, store.get(key, own_writes=False), store.get(key))
        self._store = store
        self._key = key
        self._mark = mark
        self._pending = store.own.pending_write(key)

    def found(self) -> None:
        """The server has the object. The caller records the response."""
        self._store.own.resolve(self._key, self._mark, self._pending)

    def missing(self) -> None:
        """The server has no such object."""
        self._store.own.resolve(self._key, self._mark, self._pending)
        for entry in (self.start.watched, self.start.visible):
            if entry is not None:
                self._store.write_deleted(self._key, entry.uid)

    def denied(self) -> None:
        """The server does not let this process read the object: the pending write stays."""
        self._store.own.resolve(self._key, self._mark, None)


class _Read:
    """A read that is under way. `error` is set when it has failed."""

    def __init__(self, mark: UnknownMark) -> None:
        self.mark = mark
        self.error: OpsdkError | None = None
        self.task: asyncio.Task[None] | None = None


class UnknownReads:
    """Reads what `OwnWrites.unknown` and `OwnWrites.unknown_list` name. Concurrent readers share a request.

    Args:
        source: reads from the server.
        store: has the marks.
        record: records a body that was read.
        tasks: owns the requests: a reader that is cancelled does not end the read of others.
        page_size: objects per page of a list.
        name: resource and scope, for messages.
    """

    def __init__(
        self,
        source: ListerWatcher,
        store: InformerStore,
        *,
        record: Callable[[bytes, ReadStart], object],
        tasks: TaskOwner,
        page_size: int,
        name: str,
    ) -> None:
        self._source = source
        self._store = store
        self._record = record
        self._tasks = tasks
        self._page_size = page_size
        self._name = name
        self._reads: dict[ObjectKey | None, _Read] = {}

    async def read(self, key: ObjectKey | None = None) -> None:
        """Return when the state of `key`, or of everything, is known.

        Raises:
            OpsdkError: the object must be read from the server, and the request failed.
            CacheError: the informer was closed.
        """
        own = self._store.own
        if own.unknown_list is not None:
            await self._share(None)
        if key is not None:
            if key in own.unknown:
                await self._share(key)
            return
        if len(own.unknown) > _MAX_GETS:
            own.record_all_unknown()
            await self._share(None)
        elif own.unknown:
            unknown = tuple(own.unknown)
            results = await asyncio.gather(*(self._share(one) for one in unknown), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    def _mark(self, target: ObjectKey | None) -> UnknownMark | None:
        own = self._store.own
        return own.unknown_list if target is None else own.unknown.get(target)

    async def _share(self, target: ObjectKey | None) -> None:
        """Wait for a read that began after the mark of `target` was set."""
        mark = self._mark(target)
        read = self._reads.get(target)
        if read is not None and read.mark is not mark:
            await _ended(read)  # it began before the last write
            read = self._reads.get(target)
        if (mark := self._mark(target)) is None:
            return  # the watch has shown the write, or another reader has read it
        if read is None:
            read = self._start(target, mark)
        await _ended(read)
        if read.error is not None and self._mark(target) is not None:
            raise read.error

    def _start(self, target: ObjectKey | None, mark: UnknownMark) -> _Read:
        read = _Read(mark)
        try:
            read.task = self._tasks.start(self._run(target, read), name="read own write")
        except RuntimeError as error:
            raise CacheError(f"the informer for {self._name} is closed") from error
        self._reads[target] = read
        return read

    async def _run(self, target: ObjectKey | None, read: _Read) -> None:
        try:
            await (self._read_all(read.mark) if target is None else self._read_one(target, read.mark))
        except OpsdkError as error:
            read.error = error
        finally:
            del self._reads[target]

    async def _read_one(self, key: ObjectKey, mark: UnknownMark) -> None:
        """Read one object from the server. The mark is resolved unless the request fails."""
        read = UnknownRead(self._store, key, mark)
        try:
            data = await self._source.get(key)
        except NotFoundError:
            read.missing()
        except (ForbiddenError, MethodNotAllowedError) as error:
            read.denied()
            log.warning("cannot get %s %s after a write, so cached reads may be outdated: %s", self._name, key, error)
        else:
            read.found()
            self._record(data, read.start)

    async def _read_all(self, mark: UnknownMark) -> None:
        """List all objects; without pages if one has expired, because the server went back or compacted its history."""
        try:
            await self._list_all(mark, page_size=self._page_size)
        except GoneError:
            await self._list_all(mark, page_size=0)

    async def _list_all(self, mark: UnknownMark, *, page_size: int) -> None:
        """List the server's objects, and resolve the marks and pending writes that were there before the request."""
        store, own = self._store, self._store.own
        visible = {entry.key: entry for entry in store.entries()}
        watched = {entry.key: entry for entry in store.entries(own_writes=False)}
        lists, revision = store.lists, store.revision
        pending, marks = own.pending_writes(), dict(own.unknown)
        listed: set[ObjectKey] = set()
        token, pages = "", Pages(self._source.describe())
        while True:
            items, meta = await self._source.list_page(continue_token=token, limit=page_size)
            for item in items:
                key = peek_key(item)
                listed.add(key)
                own.resolve(key, marks.get(key), pending.get(key))
                self._record(item, ReadStart(lists, revision, watched.get(key), visible.get(key)))
            if not (token := meta.continue_token):
                break
            pages.check(token, progress=bool(items))
        for key in marks.keys() | pending.keys():
            own.resolve(key, marks.get(key), pending.get(key))
        for key, entry in (*watched.items(), *visible.items()):
            if key not in listed:
                store.write_deleted(key, entry.uid)
        if own.unknown_list is mark:
            own.unknown_list = None


async def _ended(read: _Read) -> None:
    """Wait for a read. The cancellation of the caller does not end it."""
    assert read.task is not None
    await asyncio.wait([read.task])
    if read.task.cancelled():
        raise CacheError("the informer was closed while an own write was read from the server")
