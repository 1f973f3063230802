"""``/subscribe``: changes of several types over one WebSocket.

Upstream: github.com/rancher/norman/pkg/subscribe/handler.go
Deviates: a frame has a revision where the store can resume; ``?since=REVISION`` continues after it, and a frame named
``resync`` means that events were lost and the client must list again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from opsdk.http.server.response import HttpResponse
from opsdk.http.server.websocket import WebSocket
from opsdk.norman.access import may_list
from opsdk.norman.codes import ErrorCode
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.model import ApiContext, Schema
from opsdk.norman.query import parse_query
from opsdk.norman.server.handlers import store_of
from opsdk.norman.server.output import resource_of, resource_to_wire
from opsdk.norman.sessions import Session, accept_subscription
from opsdk.norman.store_results import ResourceEvent
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

_PING_SECONDS = 5.0
_PING: JsonObject = {"name": "ping", "data": {}}


async def subscribe_handler(context: ApiContext) -> HttpResponse:
    """Upgrade to a WebSocket that sends the changes of ``?resourceTypes=a,b``, or of all types of the version.

    Raises:
        NormanError: NotFound if no type matches. See `accept_subscription`.
    """
    schemas = await _matching(context)
    if not schemas:
        raise ErrorCode.NOT_FOUND.error("no resources types matched")
    # Behind a proxy, clients use another host name.
    return accept_subscription(context.request, lambda socket: serve(context, schemas, socket), context.urls.host)


async def serve(context: ApiContext, schemas: Sequence[Schema], socket: WebSocket) -> None:
    """Send the changes of types to one subscriber, until it leaves, reads nothing, or a watch ends."""
    session = Session(socket.send, ping=_PING, ping_seconds=_PING_SECONDS, user=context.client)
    connected = True
    try:
        # Clients send no data; reading detects a disconnect, and responds to pings.
        connected = await session.run(socket.receive, *(_stream(context, schema, session) for schema in schemas))
    except* Exception as errors:
        log.exception("a subscription failed: %s", errors.exceptions[0])
    if connected:
        await socket.close()


async def _stream(context: ApiContext, schema: Schema, session: Session) -> None:
    """Send the changes of a type. The session ends with its watch; then the client reconnects."""
    parameters = context.request.query
    query = ObjectQuery(filters=parse_query(schema, parameters).filters, since=parameters.get("since"))
    try:
        async with aclosing(store_of(schema).watch(context, schema, query)) as events:
            async for event in events:
                await session.put(await _frame(context, schema, event))
    except NormanError as error:
        if error.status != ErrorCode.GONE.status:
            raise
        await session.put({"name": "resync", "resourceType": schema.id, "data": {}})
    await session.flush()
    session.end()


async def _frame(context: ApiContext, schema: Schema, event: ResourceEvent) -> JsonObject:
    resource = await resource_of(context, schema, event.data)
    frame: JsonObject = {
        "name": event.type.value,
        "resourceType": resource.type,
        "data": resource_to_wire(context, resource),
    }
    return frame | {"revision": event.revision} if event.revision else frame


async def _matching(context: ApiContext) -> list[Schema]:
    """Return the schemas with a store that the query names and the client may list."""
    if context.version is None:
        return []
    texts = context.request.query.all("resourceTypes")
    names = {name.strip() for text in texts for name in text.split(",")} - {""}
    return [
        schema
        for schema in context.schemas.schemas_for_version(context.version)
        if schema.store is not None and (not names or schema.id in names) and await may_list(context, schema)
    ]
