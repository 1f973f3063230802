"""``/subscribe``: changes of several types over one WebSocket.

Upstream: github.com/rancher/norman/pkg/subscribe/handler.go
Deviates: a frame has a revision where the store can resume; ``?since=REVISION`` continues after it, and a frame named
``resync`` means that events were lost and the client must list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from urllib.parse import urlsplit

import msgspec

from opsdk.aio.waiting import wait_ended
from opsdk.errors import ConnectionLostError, NormanError
from opsdk.http.server.response import HttpResponse
from opsdk.http.server.websocket import WebSocket, accept_websocket, wants_websocket
from opsdk.norman.access import is_allowed
from opsdk.norman.codes import ErrorCode
from opsdk.norman.model import ApiContext, QueryOptions, ResourceEvent, Schema
from opsdk.norman.origin import check_origin
from opsdk.norman.query import parse_query
from opsdk.norman.server.handlers import store_of
from opsdk.norman.server.output import resource_of, resource_to_wire
from opsdk.norman.sessions import SEND_SECONDS
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

PING_SECONDS = 5.0
"""Seconds between two pings. Both sides detect a broken connection by them."""


async def subscribe_handler(context: ApiContext) -> HttpResponse:
    """Upgrade to a WebSocket that sends the changes of ``?resourceTypes=a,b``, or of all types of the version.

    Raises:
        NormanError: NotFound if no type matches, or the request is not a WebSocket handshake; PermissionDenied for a
            page of another origin.
    """
    schemas = await _matching(context)
    if not schemas:
        raise ErrorCode.NOT_FOUND.error("no resources types matched")
    if not wants_websocket(context.request):
        raise ErrorCode.NOT_FOUND.error("subscribe needs a WebSocket: send Connection: Upgrade and Upgrade: websocket")

    # Behind a proxy, clients use another host name.
    check_origin(context.request, urlsplit(context.urls.current()).netloc)

    async def run(socket: WebSocket, _: str) -> None:
        await _Session(context, schemas, socket).run()

    return accept_websocket(context.request, [""], run)


class _Session:
    """One subscriber. It ends when the client disconnects, or when a watch ends; then the client reconnects."""

    def __init__(self, context: ApiContext, schemas: Sequence[Schema], socket: WebSocket) -> None:
        self._context = context
        self._schemas = schemas
        self._socket = socket
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Send changes until one side ends."""
        work = [self._read(), self._ping(), *(self._stream(schema) for schema in self._schemas)]
        tasks = [asyncio.create_task(part, name="subscribe") for part in work]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await wait_ended(tasks, None)
            errors = [task.exception() for task in tasks if not task.cancelled()]
            for error in errors:
                if error is not None and not isinstance(error, ConnectionLostError):
                    log.error("a subscription failed: %s", error, exc_info=error)
            if not any(isinstance(error, ConnectionLostError) for error in errors):
                await self._socket.close()

    async def _read(self) -> None:
        # Clients send no data; reading detects a disconnect, and responds to pings.
        while await self._socket.receive() is not None:
            pass

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            await self._send({"name": "ping", "data": {}})

    async def _stream(self, schema: Schema) -> None:
        query = parse_query(schema, self._context.request.query)
        since = self._context.request.query.get("since")
        options = QueryOptions(conditions=query.conditions, since=since)
        try:
            async with aclosing(store_of(schema).watch(self._context, schema, options)) as events:
                async for event in events:
                    await self._send(await self._frame(schema, event))
        except NormanError as error:
            if error.status != ErrorCode.GONE.status:
                raise
            await self._send({"name": "resync", "resourceType": schema.id, "data": {}})

    async def _frame(self, schema: Schema, event: ResourceEvent) -> JsonObject:
        resource = await resource_of(self._context, schema, event.data)
        frame: JsonObject = {
            "name": event.type.value,
            "resourceType": resource.type,
            "data": resource_to_wire(self._context, resource),
        }
        return frame | {"revision": event.revision} if event.revision else frame

    async def _send(self, frame: JsonObject) -> None:
        async with self._sending:
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self._socket.send(msgspec.json.encode(frame).decode())
            except TimeoutError as error:
                raise ConnectionLostError(f"the client has read nothing for {SEND_SECONDS:.0f} s") from error


async def _matching(context: ApiContext) -> list[Schema]:
    """Return the schemas with a store that the query names and the client may list."""
    if context.version is None:
        return []
    texts = context.request.query.all("resourceTypes")
    names = {name.strip() for text in texts for name in text.split(",")} - {""}
    return [
        schema
        for schema in context.schemas.schemas_for_version(context.version)
        if schema.store is not None
        and (not names or schema.id in names)
        and await is_allowed(context.access.can_list(context, schema))
    ]
