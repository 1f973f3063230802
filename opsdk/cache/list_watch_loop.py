"""Lists and watches for an informer: carries out what the reflector asks for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from opsdk.aio.clock import loop_time, monotonic
from opsdk.aio.containment import cancellations, contain
from opsdk.aio.slicer import Slicer
from opsdk.apimachinery.meta import ListMeta
from opsdk.cache.entry import StoreEntry
from opsdk.cache.head import decode_head
from opsdk.cache.list_watch import ListerWatcher, RawEvent
from opsdk.cache.reflector import (
    CONTINUE,
    Action,
    CheckRevision,
    ListPage,
    Reflector,
    ReflectorState,
    ReflectorStep,
    Wait,
    WatchFrom,
)
from opsdk.errors import DeadlineError, ForbiddenError, MethodNotAllowedError, NotFoundError, OpsdkError
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_LISTING = ReflectorState.LISTING

# Seconds without progress after which a streaming list is given up.
_WATCH_LIST_TIMEOUT = 10.0
# Seconds for both requests of a `CheckRevision`, whose answers have a few KB. The informer sees nothing meanwhile.
_CHECK_TIMEOUT = 10.0


class ListWatchLoop:
    """Runs one reflector.

    Args:
        name: of the source, for the log.
        source: lists and watches.
        reflector: decides what is next.
        counts: gets ``list``, ``watch`` and ``event``.
        deliver: called with the step of each watch event, in order.
        apply: called with each other step: of a list, and those with a next action.
        on_failure: called with the verb and the error of a request that failed.

    Attributes:
        last_contact_at: time of the clock of the last event or list; None before the first.
        watch_lost_at: when the last watch ended, or the informer started; in seconds of `monotonic`.
    """

    def __init__(
        self,
        name: str,
        source: ListerWatcher,
        reflector: Reflector,
        *,
        counts: Counter[str],
        deliver: Callable[[ReflectorStep], None],
        apply: Callable[[ReflectorStep], Awaitable[None]],
        on_failure: Callable[[str, OpsdkError | None], None],
    ) -> None:
        self._name = name
        self._source = source
        self._reflector = reflector
        self._counts = counts
        self._deliver, self._apply = deliver, apply
        self._on_failure = on_failure
        self.last_contact_at: float | None = None
        self.watch_lost_at = 0.0
        self._watching: asyncio.Timeout | None = None
        self._rollback_version = ""

    def on_rollback(self, resource_version: str) -> None:
        """List again: a response shows that the API server went back, and the watch may stay silent then.

        Without a watch, the next one ends at once, unless a list is requested before: one that is under way may be
        older than the response.

        Args:
            resource_version: of the response, older than one that was seen before the request.
        """
        self._rollback_version = self._rollback_version or resource_version
        # A watch that ends already needs no second end.
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(monotonic())

    async def run(self) -> None:
        """Carry out what the reflector asks for, one action after the other. It ends only by cancellation."""
        action: Action = self._reflector.start()
        task = asyncio.current_task()
        while True:
            cancelling = cancellations(task)
            try:
                match action:
                    case Wait():
                        await asyncio.sleep(action.seconds)
                        action = self._reflector.after_wait(action.then)
                    case ListPage():
                        action = await self._list(action)
                    case WatchFrom():
                        action = await self._watch(action)
                    case CheckRevision():
                        action = await self._check_revision()
            except BaseException as error:
                # A defect. The informer must not end: its readers would get stale objects.
                unexpected = contain(error, task=task, cancelling=cancelling)
                log.exception("the informer for %s lists again after an unexpected error", self._name)
                action = await self._next(self._reflector.on_unexpected_error(unexpected, now=monotonic()))

    async def _next(self, step: ReflectorStep) -> Action:
        if step.synced:
            self.last_contact_at = monotonic()
        await self._apply(step)
        assert step.next is not None
        return step.next

    async def _check_revision(self) -> Action:
        self._reflector.on_list_start()
        newest, version = self._reflector.store.newest_entry(), ""
        limit = asyncio.timeout(_CHECK_TIMEOUT)
        try:
            async with limit:
                _, meta = await self._source.list_page(continue_token="", limit=1)
                if newest is not None:
                    version = await self._version_on_server(newest)
        except TimeoutError:
            if not limit.expired():
                raise
            return await self._check_failed(DeadlineError(f"no resource version within {_CHECK_TIMEOUT:g} s"))
        except OpsdkError as error:
            return await self._check_failed(error)
        return await self._next(self._reflector.on_checked(meta, newest, version))

    async def _check_failed(self, error: OpsdkError) -> Action:
        self._on_failure("list", error)
        return await self._next(self._reflector.on_check_error(error, now=monotonic()))

    async def _version_on_server(self, entry: StoreEntry) -> str:
        """Return the object's resource version on the server, or "" if it does not exist. Raises `OpsdkError`."""
        try:
            return decode_head(await self._source.get(entry.key)).metadata.resource_version
        except NotFoundError:
            return ""
        except (ForbiddenError, MethodNotAllowedError):
            return entry.resource_version  # not to be known: the list's resource version has to do

    async def _list(self, page: ListPage) -> Action:
        """Read one page of a list, in slices, so that other tasks run between them."""
        self._counts["list"] += 1
        if not page.continue_token:
            self._start_list()
        try:
            items, meta = await self._source.list_page(continue_token=page.continue_token, limit=page.limit)
            step = await self._read_page(items, meta)
        except OpsdkError as error:
            self._on_failure("list", error)
            step = self._reflector.on_list_error(error, page=page, now=monotonic())
        return await self._next(step)

    async def _read_page(self, items: Sequence[bytes], meta: ListMeta) -> ReflectorStep:
        begin, slicer = 0, Slicer()
        for end, item in enumerate(items, 1):
            if slicer.add(len(item)):
                self._reflector.on_items(items[begin:end])
                begin = end
                await asyncio.sleep(0)
        self._reflector.on_items(items[begin:])
        return self._reflector.on_page(meta)

    async def _watch(self, start: WatchFrom) -> Action:
        """Open one watch and read it to its end, or to the timeout of a streaming list."""
        self._counts["list" if start.initial_events else "watch"] += 1
        if start.initial_events:
            self._start_list()
        self._reflector.on_watch_start()
        limit = asyncio.timeout(_WATCH_LIST_TIMEOUT if start.initial_events else None)
        try:
            async with (
                limit,
                self._source.watch(
                    resource_version=start.resource_version, initial_events=start.initial_events
                ) as events,
            ):
                self._reflector.on_watch_open(monotonic())
                if not start.initial_events:
                    self._watch_for_rollback(limit)
                try:
                    if (action := await self._read(events, limit)) is not None:
                        return action
                finally:
                    self._watching = None
        except TimeoutError:
            if not limit.expired():
                raise
            return await self._next(self._end_by_timeout())
        except OpsdkError as error:
            self._record_watch_lost()
            self._on_failure("watch", error)
            return await self._next(self._reflector.on_watch_error(error, now=monotonic()))
        self._record_watch_lost()
        return await self._next(self._reflector.on_watch_closed(now=monotonic()))

    def _start_list(self) -> None:
        """Tell the reflector that a list is requested: it is newer than all that was received until now."""
        self._rollback_version = ""
        self._reflector.on_list_start()

    def _watch_for_rollback(self, limit: asyncio.Timeout) -> None:
        """Let `on_rollback` end the watch from now on, and at once if it was called before."""
        self._watching = limit
        if self._rollback_version:
            limit.reschedule(monotonic())

    def _end_by_timeout(self) -> ReflectorStep:
        """Return the step after `on_rollback` has ended a watch, or a streaming list has made no progress."""
        if not self._rollback_version or self._reflector.state is not ReflectorState.WATCHING:
            return self._reflector.on_list_timeout(now=monotonic())
        version, self._rollback_version = self._rollback_version, ""
        self._record_watch_lost()
        step = self._reflector.on_rollback(version, now=monotonic())
        self._on_failure("watch", self._reflector.last_error)
        return step

    def _record_watch_lost(self) -> None:
        now = monotonic()
        if self._reflector.connected(now):
            self.watch_lost_at = now

    async def _read(self, events: AsyncIterator[RawEvent], limit: asyncio.Timeout) -> Action | None:
        """Read events until the stream ends. Returns the next action, if an event decides it."""
        slicer, clock, reflector = Slicer(), loop_time(), self._reflector
        extends_at = 0.0
        async for event in events:
            self._counts["event"] += 1
            self.last_contact_at = now = clock()
            if event.type == "ERROR":
                self._record_watch_lost()
            listing = reflector.state is _LISTING
            step = reflector.on_event(event.type, event.data, now=now, head=event.head)
            if listing and now >= extends_at and not step.synced:
                # At most once a second: each time makes a timer.
                limit.reschedule(now + _WATCH_LIST_TIMEOUT)
                extends_at = now + 1
            if step.next is not None:
                self._on_failure("watch", reflector.last_error)
                return await self._next(step)
            if step.synced:
                limit.reschedule(None)
                await self._apply(step)
                self._watch_for_rollback(limit)
            elif step is not CONTINUE:
                self._deliver(step)
            # One chunk of the stream may hold thousands of events.
            if slicer.add(len(event.data)):
                await asyncio.sleep(0)
        return None
