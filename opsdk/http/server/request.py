"""One HTTP request, as handlers see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from opsdk.errors import BadRequestError, TooLargeError
from opsdk.http.asgi_types import CUT, PEER_CERTIFICATE, UPGRADE, Receive, Scope
from opsdk.http.server.request_rules import query_pairs
from opsdk.http.server.upgrade import Upgrade
from opsdk.structured_merge.value import JsonObject


class Query:
    """Query parameters; where a name occurs twice, the first one counts."""

    def __init__(self, raw: str = "") -> None:
        self.raw = raw
        self._values: dict[str, list[str]] = {}
        for name, value in query_pairs(raw):
            self._values.setdefault(name, []).append(value)

    def get(self, name: str, default: str = "") -> str:
        """The first value, or `default` where the name is absent."""
        values = self._values.get(name)
        return values[0] if values else default

    def all(self, name: str) -> list[str]:
        """Every value in order."""
        return list(self._values.get(name, ()))

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __repr__(self) -> str:
        return f"Query({self.raw!r})"


@dataclass(slots=True)
class HttpRequest:
    """Method, path, query and headers; the body is read on demand, once.

    ``headers`` has lower-case names; repeated ones are joined with a comma (see `values` for each). ``cut`` ends the
    connection, where the server underneath can do that; ``upgrade`` goes over to another protocol, where the client
    asks for one (answer with an `UpgradeResponse`). ``state`` is for those who handle the request one after another.
    """

    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    receive: Receive
    scheme: str = "http"
    client: str = ""
    peer_certificate: bytes | None = None
    repeated: Mapping[str, list[str]] = field(default_factory=dict)
    cut: Callable[[], None] | None = None
    upgrade: Upgrade | None = None
    state: JsonObject = field(default_factory=dict)
    _body: bytes | None = field(default=None, repr=False)

    @classmethod
    def from_scope(cls, scope: Scope, receive: Receive) -> HttpRequest:
        """Read what an ASGI scope says."""
        headers: dict[str, str] = {}
        repeated: dict[str, list[str]] = {}
        for raw_name, raw_value in scope.get("headers", ()):
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            if name in headers:
                repeated.setdefault(name, [headers[name]]).append(value)
                value = f"{headers[name]}, {value}"
            headers[name] = value
        client = scope.get("client")
        extensions = scope.get("extensions") or {}
        return cls(
            method=scope["method"],
            path=scope["path"],
            query=Query(scope.get("query_string", b"").decode("latin-1")),
            headers=headers,
            receive=receive,
            scheme=scope.get("scheme", "http"),
            client=client[0] if client else "",
            peer_certificate=extensions.get(PEER_CERTIFICATE),
            repeated=repeated,
            cut=extensions.get(CUT),
            upgrade=extensions.get(UPGRADE),
        )

    def header(self, name: str, default: str = "") -> str:
        """A header's value."""
        return self.headers.get(name, default)

    def values(self, name: str) -> list[str]:
        """A header's values, one for each time that it was sent."""
        values = self.repeated.get(name)
        return list(values) if values is not None else [self.headers[name]] if name in self.headers else []

    def texts(self, name: str) -> list[str]:
        """The same, read as UTF-8: names of people."""
        return [value.encode("latin-1", "replace").decode("utf-8", "replace") for value in self.values(name)]

    async def body(self, limit: int) -> bytes:
        """The whole body; more than `limit` bytes is a `TooLargeError`. A second call returns the same bytes."""
        if self._body is None:
            self._body = await self._read(limit)
        return self._body

    async def _read(self, limit: int) -> bytes:
        declared = self.header("content-length")
        if declared.isdigit() and int(declared) > limit:
            raise TooLargeError(f"Request entity too large: limit is {limit}")
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise BadRequestError("the client went away before its request was complete")
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise TooLargeError(f"Request entity too large: limit is {limit}")
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def disconnected(self) -> None:
        """Return when the client has gone away; the body must have been read or be unwanted."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
