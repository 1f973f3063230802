"""A client that discovers the types of a Norman API.

Upstream: github.com/rancher/norman/clientbase/common.go, ops.go
Deviates: links are followed on the configured host only, so that a token is never sent to another host; a subscription
reconnects automatically.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, Self, TypeVar, cast
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.aio.closing import Closing
from opsdk.errors import CodecError, TransportError, UsageError
from opsdk.norman.client.subscription import SubscribeEvent, frames
from opsdk.norman.errors import NormanError
from opsdk.rest.config import RestConfig
from opsdk.rest.credentials import credentials_for
from opsdk.rest.pages import Pages
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse
from opsdk.rest.transport import Transport, fetch
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["NormanClient", "NormanCollection"]

log = SafeLogger(__name__)

T = TypeVar("T", bound=Mapping[str, Any])

Filters = Mapping[str, str | int | bool | Sequence[str]]
"""Names with modifiers, such as ``{"name_in": ["a", "b"], "sort": "name"}``."""

_RECONNECT = Backoff(base=0.2, factor=2.0, cap=30.0, jitter=0.2)


class SchemaInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A type of the API, as the client discovered it.

    Attributes:
        id: the type.
        plural_name: its name in URLs.
        resource_methods: HTTP methods that this client may use on an object.
        collection_methods: HTTP methods that it may use on the collection.
        resource_fields: name, and the attributes of the field as JSON.
        resource_actions: name, input and output.
        collection_actions: name, input and output.
        links: ``collection`` and ``self``.
    """

    id: str
    plural_name: str = ""
    resource_methods: tuple[str, ...] = ()
    collection_methods: tuple[str, ...] = ()
    resource_fields: Mapping[str, JsonObject] = msgspec.field(default_factory=dict)
    resource_actions: Mapping[str, JsonObject] = msgspec.field(default_factory=dict)
    collection_actions: Mapping[str, JsonObject] = msgspec.field(default_factory=dict)
    links: Mapping[str, str] = msgspec.field(default_factory=dict)


class NormanClient(Closing):
    """Calls a Norman API. An async context manager, which discovers the types.

    ::

        async with NormanClient(RestConfig(host="https://library.example", token=token), "/v3") as client:
            book = await client.create("book", {"name": "dune"})
            await client.action(book, "lend", {"days": 7})
            async for other in client.list("book", {"pages_ne": 0}):
                print(other["name"])

    Args:
        config: address and credentials.
        path: of the version.
    """

    def __init__(self, config: RestConfig, path: str) -> None:
        self._config = config
        self._path = path.rstrip("/")
        self._transport = Transport(config)
        self._credentials = credentials_for(config, fetch)
        self._schemas: dict[str, SchemaInfo] = {}

    @property
    def schemas(self) -> Mapping[str, SchemaInfo]:
        """The types by id; empty before `discover`."""
        return self._schemas

    async def discover(self) -> None:
        """Read the types that this client may use. Raises `NormanError`, or `UsageError` for another API."""
        response = await self._send("GET", self._path)
        url = response.headers.get("x-api-schemas")
        if not url:
            raise UsageError(f"{self._path} is not a Norman API: its response has no header X-API-Schemas")
        data = _decode(await self._send("GET", url))
        schemas = msgspec.convert(data["data"], list[SchemaInfo])
        self._schemas = {schema.id: schema for schema in schemas}

    def collection(self, type_id: str) -> NormanCollection[JsonObject]:
        """Return the verbs of one type. Raises `UsageError` if the API does not show the type to this client."""
        return NormanCollection(self, self._schema(type_id).id)

    # ---------------------------------------------------------------- verbs
    async def list(self, type_id: str, filters: Filters | None = None) -> AsyncIterator[JsonObject]:
        """Yield all objects that match, page by page."""
        query = [pair for name, value in (filters or {}).items() for pair in _pairs(name, value)]
        url = self._link(type_id, "collection")
        page, pages = _decode(await self._send("GET", url, query)), Pages(type_id)
        while True:
            for item in page["data"]:
                yield item
            following = (page.get("pagination") or {}).get("next")
            if not following:
                return
            pages.check(following, progress=bool(page["data"]))
            page = _decode(await self._send("GET", following))

    async def by_id(self, type_id: str, object_id: str) -> JsonObject:
        """Return an object. Raises `NormanError` NotFound."""
        return _decode(await self._send("GET", self._object_url(type_id, object_id)))

    async def create(self, type_id: str, data: Mapping[str, object]) -> JsonObject:
        """Create an object and return it."""
        return _decode(await self._send("POST", self._link(type_id, "collection"), body=data))

    async def update(self, obj: Mapping[str, Any], changes: Mapping[str, object]) -> JsonObject:
        """Change the fields in `changes` and return the object. Raises `UsageError` without the permission."""
        return _decode(await self._send("PUT", _own_link(obj, "update"), body=changes))

    async def replace(self, obj: Mapping[str, Any], data: Mapping[str, object]) -> JsonObject:
        """Replace all fields that an update can set, and return the object."""
        return _decode(await self._send("PUT", _own_link(obj, "update"), [("_replace", "true")], body=data))

    async def delete(self, obj: Mapping[str, Any]) -> JsonObject | None:
        """Delete an object; returns it while its finalizers run."""
        response = await self._send("DELETE", _own_link(obj, "remove"))
        return _decode(response) if response.body else None

    async def reload(self, obj: Mapping[str, Any]) -> JsonObject:
        """Return the newest state of an object."""
        return _decode(await self._send("GET", _own_link(obj, "self")))

    async def action(
        self, obj: Mapping[str, Any], name: str, data: Mapping[str, object] | None = None
    ) -> JsonObject | None:
        """Run an action of an object and return its result. Raises `UsageError` if the object does not offer it."""
        actions = obj.get("actions") or obj.get("actionLinks") or {}
        if name not in actions:
            offered = ", ".join(actions) or "none"
            raise UsageError(f"{obj.get('id')} does not offer the action {name!r}; it offers: {offered}")
        response = await self._send("POST", actions[name], body=data or {})
        return _decode(response) if response.body else None

    async def collection_action(
        self, type_id: str, name: str, data: Mapping[str, object] | None = None
    ) -> JsonObject | None:
        """Run an action of a collection and return its result. Raises `UsageError` if the type has no such action."""
        actions = self._schema(type_id).collection_actions
        if name not in actions:
            offered = ", ".join(actions) or "none"
            raise UsageError(f"the collection of {type_id} has no action {name!r} for this client; it has: {offered}")
        response = await self._send("POST", self._link(type_id, "collection"), [("action", name)], body=data or {})
        return _decode(response) if response.body else None

    async def link(self, obj: Mapping[str, Any], name: str) -> JsonObject:
        """Return the target of a link of an object: an object or a collection."""
        return _decode(await self._send("GET", _own_link(obj, name)))

    async def subscribe(self, *type_ids: str) -> AsyncGenerator[SubscribeEvent]:
        """Yield changes of the given types (none: all types), from now on, without end.

        A broken connection is reopened, and continues after the last event. An event named ``resync`` means that
        events were lost: list again. Needs the extra ``norman``.
        """
        for type_id in type_ids:
            self._schema(type_id)
        since, waits = "", _RECONNECT.start()
        while True:
            query = [("resourceTypes", ",".join(type_ids))] if type_ids else []
            if since:
                query.append(("since", since))
            request = RestRequest("GET", f"{self._path}/subscribe", query)
            try:
                async with aclosing(frames(self._config, request, await self._credentials.headers())) as events:
                    async for event in events:
                        since = "" if event.name == "resync" else event.revision or since
                        waits = _RECONNECT.start()
                        yield event
            except TransportError as error:
                log.info("the subscription to %s ended, reconnecting: %s", self._config.host, error)
            await asyncio.sleep(waits.next(monotonic()))

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        await self.discover()
        return self

    # --------------------------------------------------------------- inside
    def _schema(self, type_id: str) -> SchemaInfo:
        schema = self._schemas.get(type_id)
        if schema is None:
            names = ", ".join(sorted(self._schemas)) or "none; call discover() first"
            raise UsageError(f"this API has no type {type_id!r} for this client; it has: {names}")
        return schema

    def _link(self, type_id: str, name: str) -> str:
        url = self._schema(type_id).links.get(name)
        if url is None:
            raise UsageError(f"the type {type_id!r} has no {name} for this client")
        return url

    def _object_url(self, type_id: str, object_id: str) -> str:
        return f"{self._link(type_id, 'collection')}/{quote(object_id, safe=':@')}"

    async def _send(
        self,
        method: str,
        url: str,
        query: Sequence[tuple[str, str]] = (),
        *,
        body: Mapping[str, object] | None = None,
    ) -> RestResponse:
        """Send a request to the path of a URL, on the configured host."""
        parts = urlsplit(url)
        base = self._config.endpoint.base_path.rstrip("/")
        path = parts.path.removeprefix(base) if base else parts.path
        headers = {"accept": "application/json"}
        if body is not None:
            headers["content-type"] = "application/json"
        request = RestRequest(
            method,
            path or "/",
            [*parse_qsl(parts.query, keep_blank_values=True), *query],
            headers,
            b"" if body is None else msgspec.json.encode(body),
        )
        response = await self._transport.send(request)
        if not response.ok:
            raise _error(response)
        return response

    def __repr__(self) -> str:
        return f"<NormanClient of {self._config.host}{self._path} with {len(self._schemas)} types>"


class NormanCollection(Generic[T]):
    """The verbs of one type; `opsdk generate norman-client` generates a type for its objects."""

    def __init__(self, client: NormanClient, type_id: str) -> None:
        self._client = client
        self._type = type_id

    async def list(self, filters: Filters | None = None) -> AsyncIterator[T]:
        """Yield all objects that match, page by page."""
        async for item in self._client.list(self._type, filters):
            yield cast("T", item)

    async def by_id(self, object_id: str) -> T:
        """Return an object. Raises `NormanError` NotFound."""
        return cast("T", await self._client.by_id(self._type, object_id))

    async def create(self, data: T) -> T:
        """Create an object and return it."""
        return cast("T", await self._client.create(self._type, data))

    async def update(self, obj: T, changes: T) -> T:
        """Change the fields in `changes` and return the object."""
        return cast("T", await self._client.update(obj, changes))

    async def delete(self, obj: T) -> None:
        """Delete an object."""
        await self._client.delete(obj)

    async def action(self, obj: T, name: str, data: Mapping[str, object] | None = None) -> JsonObject | None:
        """Run an action of an object; see `NormanClient.action`."""
        return await self._client.action(obj, name, data)

    async def collection_action(self, name: str, data: Mapping[str, object] | None = None) -> JsonObject | None:
        """Run an action of the collection; see `NormanClient.collection_action`."""
        return await self._client.collection_action(self._type, name, data)

    def __repr__(self) -> str:
        return f"<NormanCollection of {self._type}>"


def expect_result(name: str, result: JsonObject | None) -> JsonObject:
    """Return the result of an action that declares one. Raises `CodecError` if the API sent none.

    >>> expect_result("lend", {"id": "loan-1"})
    {'id': 'loan-1'}
    """
    if result is None:
        raise CodecError(f"the action {name!r} returned nothing, although its schema has an output")
    return result


def _pairs(name: str, value: str | int | bool | Sequence[str]) -> list[tuple[str, str]]:
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    if isinstance(value, str | int):
        return [(name, str(value))]
    return [(name, ",".join(value))]


def _own_link(obj: Mapping[str, Any], name: str) -> str:
    links = obj.get("links") or {}
    url = links.get(name)
    if url is None:
        raise UsageError(f"{obj.get('id')} has no link {name!r} for this client; it has: {', '.join(links) or 'none'}")
    return str(url)


def _decode(response: RestResponse) -> JsonObject:
    try:
        data = msgspec.json.decode(response.body)
    except msgspec.DecodeError as error:
        raise CodecError(f"the response is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise CodecError("the response is not a JSON object")
    return data


def _error(response: RestResponse) -> NormanError:
    try:
        data = msgspec.json.decode(response.body)
    except msgspec.DecodeError:
        data = None
    if not isinstance(data, dict):
        data = {}
    return NormanError(
        str(data.get("message") or response.body[:200].decode("utf-8", "replace")),
        status=response.status,
        code=str(data.get("code") or "Unknown"),
        field_name=str(data.get("fieldName") or ""),
    )
