"""A Norman server without sockets: requests as calls, answers as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import HttpResponse
from opsdk.norman.access import AllAccess
from opsdk.norman.model import ApiContext
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion
from opsdk.norman.server.server import NormanServer
from opsdk.norman.urls import RequestUrls

V3 = ApiVersion(group="example.com", version="v3", path="/v3")
BROWSER = {"user-agent": "Mozilla/5.0", "accept": "text/html,*/*"}


@dataclass(frozen=True)
class Answer:
    """A response, decoded."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def data(self) -> list[dict[str, Any]]:
        """The objects of a collection."""
        items: list[dict[str, Any]] = self.body["data"]
        return items

    @property
    def error(self) -> tuple[int, str, str | None]:
        """Status, code and field of an error body."""
        return self.body["status"], self.body["code"], self.body.get("fieldName")


class NormanKit:
    """Sends requests to a server."""

    def __init__(self, server: NormanServer, *, headers: Mapping[str, str] | None = None) -> None:
        self.server = server
        self.headers = {"host": "example.com", **(headers or {})}

    async def raw(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None, scheme: str = "http"
    ) -> HttpResponse:
        """Return the response as it is."""
        path, _, query = url.partition("?")
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return messages.pop() if messages else {"type": "http.disconnect"}

        request = HttpRequest(
            method=method,
            path=path,
            query=Query(query),
            headers={**self.headers, **(headers or {})},
            receive=receive,
            scheme=scheme,
        )
        return await self.server.handle(request)

    async def call(self, method: str, url: str, body: object = None, **headers: str) -> Answer:
        """Send JSON and decode the answer. Underscores in the names of headers are dashes."""
        raw = b"" if body is None else msgspec.json.encode(body)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.raw(method, url, raw, names)
        decoded = msgspec.json.decode(response.body) if response.body else None
        return Answer(response.status, dict(response.headers), decoded)

    async def get(self, url: str, **headers: str) -> Answer:
        """Send GET."""
        return await self.call("GET", url, **headers)

    async def post(self, url: str, body: object = None, **headers: str) -> Answer:
        """Send POST."""
        return await self.call("POST", url, body, **headers)


def api_context(**changes: Any) -> ApiContext:
    """Return the context of ``GET /v3/books``, for stores, with these attributes."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    request = HttpRequest(
        method="GET", path="/v3/books", query=Query(), headers={"host": "example.com"}, receive=receive
    )
    context = ApiContext(
        request=request,
        schemas=SchemaRegistry(),
        access=AllAccess(),
        urls=RequestUrls(request, V3),
        version=V3,
    )
    return replace(context, **changes)
