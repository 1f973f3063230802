"""The watches of one user: objects of types, counts and schemas.

Upstream: github.com/rancher/steve/pkg/resources/counts/counts.go, buffer.go, pkg/stores/proxy/watch_refresh.go,
pkg/schema/collection.go (OnChange)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

import msgspec

from opsdk.apimachinery.selectors import Selector
from opsdk.apiserver.auth.user import User
from opsdk.errors import UsageError
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.filter import query_error
from opsdk.norman.collections.kind_list import KindEvent, KindList, WatchScope
from opsdk.norman.steve.api import SteveApi
from opsdk.norman.steve.cluster_schemas import SteveSchema
from opsdk.norman.steve.resources import SteveUrls, count_resource
from opsdk.norman.steve.store import Target
from opsdk.structured_merge.value import JsonObject

NOTIFICATIONS = "resource.changes"
"""The mode that sends the revision of changes without objects."""

_COUNTS = ("count", "counts")
_SCHEMAS = ("schema", "schemas")
# Seconds between two messages with counts, as steve's.
_COUNT_SECONDS = 5.0
_CHANGE = "resource.change"


class SubscribeFrame(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message of the client. All fields but `stop` identify the watch.

    Attributes:
        resource_type: id or plural name of a type.
        namespace: only objects of this one.
        id: only the object with this id.
        selector: only objects with these labels.
        resource_version: resume after this revision; empty begins now.
        mode: empty for objects, ``resource.changes`` for notifications.
        debounce_ms: least milliseconds between notifications; 0 for 5000.
        stop: end the watch.
    """

    resource_type: str = ""
    namespace: str = ""
    id: str = ""
    selector: str = ""
    resource_version: str = ""
    mode: str = ""
    debounce_ms: int = 0
    stop: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the watch."""
        return (self.resource_type, self.namespace, self.id, self.selector, self.mode, str(self.debounce_ms))

    def message(
        self, name: str, *, revision: int | None = None, data: JsonObject | msgspec.Raw | None = None
    ) -> JsonObject:
        """Return a message of the server about this watch.

        >>> SubscribeFrame(resource_type="pod").message("resource.start")
        {'name': 'resource.start', 'resourceType': 'pod'}
        """
        fields = {"resourceType": self.resource_type, "namespace": self.namespace, "id": self.id}
        fields |= {"selector": self.selector, "mode": self.mode}
        message: JsonObject = {"name": name, **{key: value for key, value in fields.items() if value}}
        if revision is not None:
            message["revision"] = str(revision)
        return message if data is None else {**message, "data": data}


class UserWatches:
    """Opens the watches of one user.

    Args:
        api: a started API.
        user: the user.
        urls: for the links.
    """

    def __init__(self, api: SteveApi, user: User, urls: SteveUrls) -> None:
        self._api = api
        self._user = user
        self._urls = urls

    def on_access_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a listener when the permissions of the user change. Returns the function that removes it."""
        return self._api.access.listen(self._user, lambda _: listener())

    async def watch(self, frame: SubscribeFrame) -> AsyncGenerator[JsonObject, None]:
        """Open a watch, and return its messages.

        Raises:
            NormanError: the type does not exist, the user may not watch it, or the frame is not valid.
            CacheError: the cluster denies the type.
        """
        kind = frame.resource_type.lower()
        if kind in _COUNTS:
            return await self._counts(frame)
        if kind in _SCHEMAS:
            return self._schemas(frame)
        schema = self._api.schema_for(self._user, frame.resource_type)
        if "watch" not in schema.access:
            raise ErrorCode.PERMISSION_DENIED.error(f"watch not allowed: {self._user.name} may not watch {schema.id}")
        opened = await self._api.list_of(schema)
        scope, since = self._scope(frame, schema), opened.changes.parse_revision(frame.resource_version)
        revision = opened.changes.revision if since is None else since
        opened.changes.events_after(revision)
        return self._objects(frame, opened, schema, opened.watch(scope, revision=revision))

    def _scope(self, frame: SubscribeFrame, schema: SteveSchema) -> WatchScope:
        namespace, _, name = frame.id.rpartition("/")
        try:
            selector = Selector.parse(frame.selector)
        except UsageError as error:
            raise query_error("selector", 0, str(error)) from error
        return WatchScope(
            visible=self._api.visible(self._user, schema, "watch"),
            namespace=namespace or frame.namespace,
            name=name,
            selector=selector,
        )

    async def _objects(
        self, frame: SubscribeFrame, opened: KindList, schema: SteveSchema, events: AsyncGenerator[KindEvent, None]
    ) -> AsyncGenerator[JsonObject, None]:
        # Uses the current permissions: the watch ends when they change.
        encode = self._api.encoder(opened.rows, Target(user=self._user, schema=schema), self._urls)
        async for event in events:
            if frame.mode == NOTIFICATIONS:
                yield frame.message(NOTIFICATIONS, revision=event.revision)
            else:
                data = msgspec.Raw(await encode(event.entry))
                yield frame.message(event.type.value, revision=event.revision, data=data)

    # -------------------------------------------------------------- counts and schemas
    async def _counts(self, frame: SubscribeFrame) -> AsyncGenerator[JsonObject, None]:
        """Send the counts of types when objects are created or deleted, at most every five seconds.

        A change of the schemas ends the watch, so that it begins again with all types.
        """
        changed: dict[str, None] = {}
        wake = asyncio.Event()
        last = await self._api.counts(self._user)

        def mark(identity: str, *_: object) -> None:
            changed[identity] = None
            wake.set()

        schemas = self._api.schemas_for(self._user)
        removals = [self._api.catalog.changes.listen(lambda *_: wake.set())]
        for identity in last:
            opened = await self._api.list_of(schemas[identity])
            removals.append(opened.changes.listen(partial(mark, identity)))

        async def messages() -> AsyncGenerator[JsonObject, None]:
            try:
                while self._api.schemas_for(self._user) == schemas:
                    counted = await self._api.counts(self._user, of=tuple(changed))
                    changed.clear()
                    news = {identity: counts for identity, counts in counted.items() if last.get(identity) != counts}
                    last.update(news)
                    if news:
                        yield frame.message(_CHANGE, revision=0, data=count_resource(news, self._urls))
                        await asyncio.sleep(_COUNT_SECONDS)
                    await wake.wait()
                    wake.clear()
            finally:
                for remove in removals:
                    remove()

        return messages()

    async def _schemas(self, frame: SubscribeFrame) -> AsyncGenerator[JsonObject, None]:
        """Send created, changed and removed schemas."""
        previous = self._api.schemas_for(self._user)
        async with aclosing(self._api.catalog.changes.subscribe()) as changes:
            async for _ in changes:
                current = self._api.schemas_for(self._user)
                for identity in sorted(previous.keys() | current.keys()):
                    before, after = previous.get(identity), current.get(identity)
                    if before == after:
                        continue
                    name = "resource.create" if before is None else "resource.remove" if after is None else _CHANGE
                    schema = after or before
                    assert schema is not None
                    yield frame.message(name, revision=0, data=schema.as_json(self._urls.base))
                previous = current

    def __repr__(self) -> str:
        return f"<UserWatches of {self._user.name}>"
