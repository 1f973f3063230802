"""An informer: one store, one list and watch loop, and any number of handlers.

Upstream: k8s.io/client-go/tools/cache/shared_informer.go (v1.36)
"""

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
"""Called for every delta, in order, from the event loop. It must not block."""


class HandlerRegistration:
    """The registration of a handler at an informer."""

    def __init__(self, informer: Informer, handler: Handler, *, resync: bool) -> None:
        self._informer = informer
        self.handler = handler
        self.resync = resync
        self.has_synced = False
        """Whether the handler has received every object of the initial list."""

    def remove(self) -> None:
        """Remove the handler. Idempotent."""
        self._informer.remove_handler(self)


class Informer(Closing):
    """Keeps a store up to date and calls handlers with the deltas.

    Args:
        source: lists and watches.
        page_size: objects per page of a list.
        resync: seconds between resyncs for handlers that request them, with 10 % jitter; 0 for never.
        clock: source of time.
        backoff: delays after failures.
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
        """Counters: list, watch, event, error, undecodable, handler_error."""
        self._source = source
        self._clock = clock
        self._resync = resync * random.Random(seed).uniform(0.9, 1.1)  # noqa: S311 - jitter, not a secret
        self._registrations: list[HandlerRegistration] = []
        self._tasks = TaskOwner(f"informer {self.name}", on_error=self._on_crash)
        self._started = False
        self._synced = asyncio.Event()
        self._crash: BaseException | None = None

    # -------------------------------------------------------------- life cycle
    def start(self) -> None:
        """Start to list and watch in the background. Raises `UsageError` on a second call."""
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
        """The error that the informer recovers from, or None."""
        return self.reflector.last_error

    async def wait_synced(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the error says why
        """Return when the initial list is in the store.

        Raises `CacheSyncError` after `timeout` seconds (None: no limit); its cause is the last list or watch error.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            detail = f": {self.last_error}" if self.last_error else f" (state: {self.reflector.state.value})"
            raise CacheSyncError(
                f"timed out after {timeout or 0:g} s waiting for the list of {self.name}{detail}"
            ) from self.last_error
        if self._crash is not None:
            raise CacheError(f"the informer for {self.name} has ended: {self._crash!r}") from self._crash

    async def aclose(self) -> None:
        """Stop watching. Handlers are not called any more. Idempotent."""
        self._registrations.clear()
        await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    # -------------------------------------------------------------- handlers
    def add_handler(self, handler: Handler, *, resync: bool = False) -> HandlerRegistration:
        """Call `handler` for every delta from now on. It first gets the existing objects as ADDED."""
        registration = HandlerRegistration(self, handler, resync=resync)
        self._registrations.append(registration)
        if self.has_synced:
            for entry in self.store.entries():
                self._call_handler(registration, Delta(change=DeltaType.ADDED, new=entry, initial=True))
            registration.has_synced = True
        return registration

    def remove_handler(self, registration: HandlerRegistration) -> None:
        """Remove a handler. Does nothing if it is not registered."""
        if registration in self._registrations:
            self._registrations.remove(registration)

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Add an index. Objects that cannot be indexed are logged, counted, and left out of the index."""
        for key, error in self.store.add_index(name, indexer):
            self._undecodable(str(key), error)

    def _call_handler(self, registration: HandlerRegistration, delta: Delta) -> None:
        try:
            registration.handler(delta)
        except Exception:
            # A failing handler must not stop other handlers or the watch.
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

    async def _watch(self, start: WatchFrom) -> Action:
        self.counts["watch"] += 1
        try:
            async with self._source.watch(resource_version=start.resource_version) as events:
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
        for delta in outcome.deltas:
            for registration in tuple(self._registrations):
                self._call_handler(registration, delta)

    async def _resync_handlers(self) -> None:
        while True:
            await self._clock.sleep(self._resync)
            registrations = [r for r in self._registrations if r.resync]
            for entry in self.store.entries() if registrations else ():
                for registration in registrations:
                    self._call_handler(registration, Delta(change=DeltaType.UPDATED, old=entry, new=entry, resync=True))

    # -------------------------------------------------------------- errors
    def _failed(self, verb: str, error: OpsdkError | None) -> None:
        self.counts["error"] += 1
        # Missing permissions need an administrator; other errors usually recover.
        level = logging.ERROR if isinstance(error, ForbiddenError) else logging.WARNING
        log.log(level, "cannot %s %s: %s", verb, self.name, error)

    def _undecodable(self, key: str, error: OpsdkError) -> None:
        self.counts["undecodable"] += 1
        log.error("an object of %s does not decode and is skipped: %s: %s", self.name, key, error)

    def _on_crash(self, task: str, error: BaseException) -> None:
        """A bug in opsdk or in an indexer ended the loop: report it, and wake `wait_synced`."""
        self._crash = error
        self._synced.set()
        log.critical("%s ended: %r", task, error, exc_info=error)

    def __repr__(self) -> str:
        return f"<Informer {self.name}: {self.reflector!r}, {len(self._registrations)} handlers>"
