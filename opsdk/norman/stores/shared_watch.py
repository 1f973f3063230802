"""One upstream watch for all subscribers of a type.

Upstream: github.com/rancher/norman/store/proxy/share_watch.go
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import aclosing

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.norman.model import ApiContext, QueryOptions, ResourceEvents, ResourceList, Schema, Store
from opsdk.norman.stores.broadcast import Broadcaster
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

LIFETIME_SECONDS = 30 * 60.0
"""Seconds after which an upstream watch is made anew, so that rights that were taken away end too."""

LINGER_SECONDS = 30.0
"""Seconds for which an upstream watch goes on without subscribers, so that one that reconnects can resume."""


class SharedWatchStore(Closing):
    """Passes all verbs to a store, and shares its watches.

    The upstream watch has no conditions and no namespaces. Each subscriber gets what its own query and rights allow,
    because the server filters the events (`opsdk.norman.stores.wrapper`).

    Args:
        store: the store.
        key: subscribers with equal keys share a watch. The default is one watch for all; a store that watches with
            the rights of the client needs the user as the key.
        clock: source of time.
    """

    def __init__(
        self,
        store: Store,
        *,
        key: Callable[[ApiContext], Hashable] = lambda _: None,
        clock: Clock = LOOP_CLOCK,
    ) -> None:
        self.store = store
        self._key = key
        self._clock = clock
        self._watches: dict[Hashable, Broadcaster] = {}
        self._tasks = TaskOwner("shared watch", on_error=lambda name, error: log.error("%s failed: %s", name, error))

    async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject:
        """Return an object of the store."""
        return await self.store.by_id(context, schema, object_id)

    async def list(self, context: ApiContext, schema: Schema, options: QueryOptions) -> ResourceList:
        """Return the objects of the store."""
        return await self.store.list(context, schema, options)

    async def create(self, context: ApiContext, schema: Schema, data: JsonObject) -> JsonObject:
        """Create an object in the store."""
        return await self.store.create(context, schema, data)

    async def update(self, context: ApiContext, schema: Schema, data: JsonObject, object_id: str) -> JsonObject:
        """Update an object in the store."""
        return await self.store.update(context, schema, data, object_id)

    async def delete(self, context: ApiContext, schema: Schema, object_id: str) -> JsonObject | None:
        """Delete an object in the store."""
        return await self.store.delete(context, schema, object_id)

    def watch(self, context: ApiContext, schema: Schema, options: QueryOptions) -> ResourceEvents:
        """Yield the events of the shared watch. Raises `NormanError` Gone for a revision that is too old."""
        key = (schema.full_type, self._key(context))
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = Broadcaster()
            self._tasks.start(self._follow(key, watch, context, schema), name=f"watch of {schema.id}")
        return watch.subscribe(options.since)

    async def aclose(self) -> None:
        """End all watches. Idempotent."""
        await self._tasks.aclose()

    async def _follow(self, key: Hashable, watch: Broadcaster, context: ApiContext, schema: Schema) -> None:
        deadline = self._clock.now() + LIFETIME_SECONDS
        try:
            reading = self._tasks.start(self._read(watch, context, schema), name=f"upstream watch of {schema.id}")
            idle = 0.0
            while idle < LINGER_SECONDS and self._clock.now() < deadline and not reading.done():
                await self._clock.sleep(1)
                idle = 0.0 if watch.subscribers else idle + 1
            reading.cancel()
        finally:
            self._watches.pop(key, None)
            watch.end()

    async def _read(self, watch: Broadcaster, context: ApiContext, schema: Schema) -> None:
        async with aclosing(self.store.watch(context, schema, QueryOptions())) as events:
            async for event in events:
                watch.publish(event)

    def __repr__(self) -> str:
        return f"<SharedWatchStore of {self.store!r}>"
