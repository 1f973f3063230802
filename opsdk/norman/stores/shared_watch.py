"""One upstream watch for all subscribers of a type.

Upstream: github.com/rancher/norman/store/proxy/share_watch.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import aclosing

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.norman.model import ApiContext, QueryOptions, ResourceEvents, Schema, Store
from opsdk.norman.stores.broadcast import Broadcaster
from opsdk.norman.stores.delegating import DelegatingStore
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

LIFETIME_SECONDS = 30 * 60.0
"""Seconds after which an upstream watch is reopened, so that revoked permissions take effect."""

LINGER_SECONDS = 30.0
"""Seconds for which an upstream watch continues without subscribers, so that a reconnecting one can resume."""


class SharedWatchStore(DelegatingStore, Closing):
    """Delegates all methods to a store, and shares its watches.

    The upstream watch has no conditions; subscribers with equal namespaces share one. Each subscriber gets
    only events of its query and permissions, because the server filters the events (`opsdk.norman.stores.wrapper`).

    Args:
        store: the store.
        key: subscribers with equal keys share a watch. The default is one watch for all; a store that watches with
            the permissions of the client needs the user as the key.
    """

    def __init__(self, store: Store, *, key: Callable[[ApiContext], Hashable] = lambda _: None) -> None:
        super().__init__(store)
        self._key = key
        self._watches: dict[Hashable, _SharedWatch] = {}
        self._tasks = TaskOwner("shared watch", on_error=lambda name, error: log.error("%s failed: %s", name, error))

    def watch(self, context: ApiContext, schema: Schema, options: QueryOptions) -> ResourceEvents:
        """Yield the events of the shared watch. Raises `NormanError` Gone for a revision that is too old."""
        namespaces = None if options.namespaces is None else tuple(sorted(options.namespaces))
        key = (schema.full_type, self._key(context), namespaces)
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = _SharedWatch(lambda: self._watches.pop(key, None))
            reading = self._read(watch, context, schema, QueryOptions(namespaces=namespaces))
            watch.reading = self._tasks.start(reading, name=f"upstream watch of {schema.id}")
        return watch.subscribe(options.since)

    async def aclose(self) -> None:
        """End all watches. Idempotent."""
        for watch in list(self._watches.values()):
            watch.end()
        await self._tasks.aclose()

    async def _read(self, watch: _SharedWatch, context: ApiContext, schema: Schema, options: QueryOptions) -> None:
        try:
            async with aclosing(self.store.watch(context, schema, options)) as events:
                async for event in events:
                    watch.broadcaster.publish(event)
        finally:
            watch.end()


class _SharedWatch:
    """An upstream watch and its subscribers. It ends after its lifetime, or a while after its last subscriber left."""

    def __init__(self, forget: Callable[[], object]) -> None:
        self.broadcaster = Broadcaster(self._on_idle)
        self.reading: asyncio.Task[None] | None = None
        self._forget = forget
        self._lifetime = asyncio.get_running_loop().call_later(LIFETIME_SECONDS, self.end)
        self._linger = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.end)

    def subscribe(self, since: str) -> ResourceEvents:
        events = self.broadcaster.subscribe(since)
        self._linger.cancel()
        return events

    def end(self) -> None:
        self._lifetime.cancel()
        self._linger.cancel()
        self._forget()
        self.broadcaster.end()
        if self.reading is not None:
            self.reading.cancel()

    def _on_idle(self) -> None:
        self._linger.cancel()
        self._linger = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.end)
