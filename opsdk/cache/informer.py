"""An informer: one store, one list+watch loop that keeps it current, and any number of handlers."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import Self

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.cache.list_watch import ListerWatcher
from opsdk.cache.reflector import Action, ListPage, Reflector, ReflectorStep, Wait, WatchFrom
from opsdk.cache.store import Delta, DeltaType, Indexer, InformerStore
from opsdk.errors import CacheError, CacheSyncError, ForbiddenError, OpsdkError, UsageError

log = logging.getLogger(__name__)

Handler = Callable[[Delta], None]
"""Called for every difference, in order, in the loop's thread. It must not block: it queues work, and returns."""


class HandlerRegistration:
    """A handler's place at an informer; `remove` takes it away."""

    def __init__(self, informer: Informer, handler: Handler, *, resync: bool) -> None:
        self._informer = informer
        self.handler = handler
        self.resync = resync
        self.has_synced = False
        """Whether the handler was given every object of the initial list."""

    def remove(self) -> None:
        """The handler is called no more, from now on. Idempotent."""
        self._informer.remove_handler(self)


class Informer(Closing):
    """Keeps a store current and tells handlers what changed.

    Args:
        source: lists and watches.
        resync: seconds between reminders to handlers that asked for them, jittered by a tenth; 0 for never.
        backoff: how failures wait.
        seed: makes jitter repeatable.
    """

    def __init__(
        self,
        source: ListerWatcher,
        *,
        page_size: int = 500,
        resync: float = 0.0,
        clock: Clock = LOOP_CLOCK,
        backoff: Backoff | None = None,
        seed: int | None = None,
    ) -> None:
        self.name = source.describe()
        self.store = InformerStore()
        self.reflector = Reflector(self.store, page_size=page_size, backoff=backoff, seed=seed)
        self.counts: Counter[str] = Counter()
        """How often: list, watch, event, error, undecodable, handler_error."""
        self._source = source
        self._clock = clock
        self._resync = resync * random.Random(seed).uniform(0.9, 1.1)  # noqa: S311 - jitter, not a secret
        self._registrations: list[HandlerRegistration] = []
        self._tasks = TaskOwner(f"informer {self.name}", on_error=self._on_crash)
        self._started = False
        self._synced = asyncio.Event()
        self._crash: BaseException | None = None

    # -------------------------------------------------------------- life
    def start(self) -> None:
        """Begin to list and watch in the background; once."""
        if self._started:
            raise UsageError(f"the informer for {self.name} is started already")
        self._started = True
        self._tasks.start(self._run(), name="reflect")
        if self._resync:
            self._tasks.start(self._resync_handlers(), name="resync")

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._started

    @property
    def has_synced(self) -> bool:
        """Whether the initial list is in the store."""
        return self._synced.is_set()

    @property
    def last_error(self) -> OpsdkError | None:
        """The failure that the informer is recovering from, or None when all is well."""
        return self.reflector.last_error

    async def wait_synced(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the error says why
        """Return when the initial list is in the store.

        Raises `CacheSyncError` after `timeout` seconds, with the last list or watch error as its cause.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            raise self._sync_error(timeout or 0) from self.last_error
        if self._crash is not None:
            raise CacheError(f"the informer for {self.name} has ended: {self._crash!r}") from self._crash

    def _sync_error(self, seconds: float) -> CacheSyncError:
        detail = f": {self.last_error}" if self.last_error else f" (state: {self.reflector.state.value})"
        return CacheSyncError(f"timed out after {seconds:g} s waiting for the list of {self.name}{detail}")

    async def aclose(self) -> None:
        """Stop watching; handlers are called no more. Idempotent."""
        self._registrations.clear()
        await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    # -------------------------------------------------------------- handlers
    def add_handler(self, handler: Handler, *, resync: bool = False) -> HandlerRegistration:
        """Call `handler` for every difference from now on, beginning with an initial ADDED for what is there."""
        registration = HandlerRegistration(self, handler, resync=resync)
        self._registrations.append(registration)
        if self.has_synced:
            for entry in self.store.entries():
                self._call_handler(registration, Delta(change=DeltaType.ADDED, new=entry, initial=True))
            registration.has_synced = True
        return registration

    def remove_handler(self, registration: HandlerRegistration) -> None:
        """Forget a handler; harmless if it is forgotten already."""
        if registration in self._registrations:
            self._registrations.remove(registration)

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Add an index; objects that cannot be indexed are logged, counted, and left out of it."""
        for key, error in self.store.add_index(name, indexer):
            self._undecodable(str(key), error)

    def _tell(self, deltas: ReflectorStep) -> None:
        for delta in deltas.deltas:
            for registration in tuple(self._registrations):
                self._call_handler(registration, delta)

    def _call_handler(self, registration: HandlerRegistration, delta: Delta) -> None:
        try:
            registration.handler(delta)
        except Exception:
            # A handler's mistake must not stop the others, nor the watch.
            self.counts["handler_error"] += 1
            log.exception("a handler for %s raised at %s of %s", self.name, delta.change.value, delta.entry.key)

    # -------------------------------------------------------------- the loop
    async def _run(self) -> None:
        action: Action = self.reflector.start()
        while True:
            match action:
                case Wait():
                    await self._clock.sleep(action.seconds)
                    action = self.reflector.after_wait(action.then)
                case ListPage():
                    action = await self._list(action)
                case WatchFrom():
                    action = await self._watch(action)

    async def _list(self, page: ListPage) -> Action:
        self.counts["list"] += 1
        try:
            items, meta = await self._source.list_page(
                resource_version=page.resource_version, continue_token=page.continue_token, limit=page.limit
            )
        except OpsdkError as error:
            self._failed("list", error)
            return self._next(self.reflector.on_list_error(error, page=page, now=self._clock.now()))
        outcome = self.reflector.on_page(items, meta)
        action = self._next(outcome)
        if outcome.synced and not self._synced.is_set():
            for registration in self._registrations:
                registration.has_synced = True
            self._synced.set()
        return action

    async def _watch(self, wanted: WatchFrom) -> Action:
        self.counts["watch"] += 1
        try:
            async with self._source.watch(resource_version=wanted.resource_version) as events:
                self.reflector.on_watch_open(self._clock.now())
                async for event in events:
                    self.counts["event"] += 1
                    outcome = self.reflector.on_event(event.type, event.data, now=self._clock.now())
                    if outcome.next is not None:
                        self._failed("watch", self.reflector.last_error)
                    self._take(outcome)
                    if outcome.next is not None:
                        return outcome.next
        except OpsdkError as error:
            self._failed("watch", error)
            return self._next(self.reflector.on_watch_error(error, now=self._clock.now()))
        return self._next(self.reflector.on_watch_closed(now=self._clock.now()))

    def _next(self, outcome: ReflectorStep) -> Action:
        self._take(outcome)
        assert outcome.next is not None
        return outcome.next

    def _take(self, outcome: ReflectorStep) -> None:
        for problem in outcome.problems:
            self._undecodable(str(problem.key), problem.error)
        self._tell(outcome)

    async def _resync_handlers(self) -> None:
        while True:
            await self._clock.sleep(self._resync)
            registrations = [r for r in self._registrations if r.resync]
            for entry in self.store.entries() if registrations else ():
                for registration in registrations:
                    self._call_handler(registration, Delta(change=DeltaType.UPDATED, old=entry, new=entry, resync=True))

    # -------------------------------------------------------------- telling
    def _failed(self, verb: str, error: OpsdkError | None) -> None:
        self.counts["error"] += 1
        # A denial needs a person; anything else heals by itself as a rule.
        level = logging.ERROR if isinstance(error, ForbiddenError) else logging.WARNING
        log.log(level, "cannot %s %s: %s", verb, self.name, error)

    def _undecodable(self, key: str, error: OpsdkError) -> None:
        self.counts["undecodable"] += 1
        log.error("an object of %s is set aside: %s: %s", self.name, key, error)

    def _on_crash(self, task: str, error: BaseException) -> None:
        """A bug, ours or an indexer's: never a silent stall."""
        self._crash = error
        self._synced.set()
        log.critical("%s ended: %r", task, error, exc_info=error)

    def __repr__(self) -> str:
        return f"<Informer {self.name}: {self.reflector!r}, {len(self._registrations)} handlers>"
