"""One HTTP request, as handlers receive it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from opsdk.apimachinery.integers import parse_int
from opsdk.base.limits import KIB
from opsdk.errors import BadRequestError, TooLargeError
from opsdk.http.asgi_types import CUT, PEER_CERTIFICATE, PEER_INTERMEDIATES, UPGRADE, Receive, Scope
from opsdk.http.body_stream import Body, BodyStream
from opsdk.http.server.request_rules import query_pairs
from opsdk.http.server.upgrade import Upgrade
from opsdk.structured_merge.value import JsonObject


class Query:
    """Query parameters. If a name occurs twice, `get` returns the first value."""

    def __init__(self, raw: str = "") -> None:
        self.raw = raw
        self._values: dict[str, list[str]] = {}
        if raw:
            for name, value in query_pairs(raw):
                self._values.setdefault(name, []).append(value)

    def get(self, name: str, default: str = "") -> str:
        """Return the first value, or `default`."""
        values = self._values.get(name)
        return values[0] if values else default

    def names(self) -> list[str]:
        """Return the names in the order of their first values."""
        return list(self._values)

    def all(self, name: str) -> list[str]:
        """Return every value in order."""
        return list(self._values.get(name, ()))

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __repr__(self) -> str:
        return f"Query({self.raw!r})"


_COMMON_NAMES: Final = {
    name.encode(): name
    for name in (
        "accept", "accept-encoding", "audit-id", "authorization", "connection", "content-length", "content-type",
        "host", "user-agent",
    )
}  # fmt: skip
"""The headers of most requests, decoded."""


DECODED_HEADERS: Final = "opsdk.decoded_headers"
"""Key of the scope for the result of `decode_headers`, where the server has it already."""

_SHORT_BODY: Final = 64 * KIB
"""Bytes of a request body that a proxy reads whole."""

_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})

DecodedHeaders = tuple[Mapping[str, str], Mapping[str, list[str]]]


def decode_headers(raw: Iterable[tuple[bytes, bytes]]) -> DecodedHeaders:
    """Return headers by lower-case name, and the values of those that are repeated.

    >>> decode_headers([(b"Host", b"x"), (b"a", b"1"), (b"a", b"2")])
    ({'host': 'x', 'a': '1, 2'}, {'a': ['1', '2']})
    """
    pairs = list(raw)
    names = [_COMMON_NAMES.get(name) or name.decode("latin-1").lower() for name, _ in pairs]
    # The server refuses values with line breaks, so all values are decoded at once, joined by line breaks.
    values = b"\n".join([value for _, value in pairs]).decode("latin-1").split("\n")
    if len(values) != len(pairs):
        values = [value.decode("latin-1") for _, value in pairs]
    headers = dict(zip(names, values, strict=True))
    repeated: dict[str, list[str]] = {}
    if len(headers) < len(pairs):
        for name, value in zip(names, values, strict=True):
            repeated.setdefault(name, []).append(value)
        repeated = {name: several for name, several in repeated.items() if len(several) > 1}
        headers |= {name: ", ".join(several) for name, several in repeated.items()}
    return headers, repeated


@dataclass(slots=True)
class HttpRequest:
    """Method, path, query and headers. The body is read on demand.

    Attributes:
        method: the HTTP method.
        path: the unescaped path.
        query: the query parameters.
        headers: lower-case names; repeated headers are joined with a comma, see `values`.
        receive: the ASGI function.
        scheme: ``http`` or ``https``.
        client: the client's address, or empty.
        peer_certificate: the client's certificate in DER, or None.
        peer_intermediates: the other certificates that the client sent, in DER, not verified.
        repeated: the values of repeated headers.
        cut: closes the connection, or None if the server cannot.
        upgrade: switches to another protocol, or None (respond with an `UpgradeResponse`).
        state: values that handlers share.
        document: the tree that the body encodes, of a client in this process, which may get a tree as the response.
    """

    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    receive: Receive
    scheme: str = "http"
    client: str = ""
    peer_certificate: bytes | None = None
    peer_intermediates: Sequence[bytes] = ()
    repeated: Mapping[str, list[str]] = field(default_factory=dict)
    cut: Callable[[], None] | None = None
    upgrade: Upgrade | None = None
    state: JsonObject = field(default_factory=dict)
    document: JsonObject | None = field(default=None, repr=False)
    _body: bytes | None = field(default=None, repr=False)

    @classmethod
    def from_scope(cls, scope: Scope, receive: Receive) -> HttpRequest:
        """Return the request of an ASGI scope."""
        headers, repeated = scope.get(DECODED_HEADERS) or decode_headers(scope.get("headers", ()))
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
            peer_intermediates=extensions.get(PEER_INTERMEDIATES, ()),
            repeated=repeated,
            cut=extensions.get(CUT),
            upgrade=extensions.get(UPGRADE),
        )

    def header(self, name: str, default: str = "") -> str:
        """Return the value of a header, or `default`."""
        return self.headers.get(name, default)

    def values(self, name: str) -> list[str]:
        """Return every value of a header."""
        values = self.repeated.get(name)
        return list(values) if values is not None else [self.headers[name]] if name in self.headers else []

    def texts(self, name: str) -> list[str]:
        """Return every value of a header, decoded as UTF-8."""
        return [value.encode("latin-1", "replace").decode("utf-8", "replace") for value in self.values(name)]

    async def body(self, limit: int) -> bytes:
        """Return the whole body. A second call returns the same bytes.

        Raises:
            TooLargeError: the body exceeds `limit` bytes.
            BadRequestError: the client disconnected.
        """
        if self._body is not None:
            return self._body
        if (parse_int(self.header("content-length")) or 0) > limit:
            raise TooLargeError(f"Request entity too large: limit is {limit}")
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise TooLargeError(f"Request entity too large: limit is {limit}")
            parts.append(chunk)
        self._body = b"".join(parts)
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, once. Raises `BadRequestError` if the client disconnects."""
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise BadRequestError("the client disconnected before the request was complete")
            yield message.get("body", b"")
            more = message.get("more_body", False)

    async def body_to_forward(self) -> Body:
        """Return the body for a request to another server.

        A short body is read whole, so that it can be sent on a connection of a pool. Another one is sent as it arrives.
        Raises as `body` and `chunks`.
        """
        length = parse_int(self.header("content-length"))
        if "transfer-encoding" in self.headers:
            length = None
        elif length is None and self.method not in _WITH_BODY:
            length = 0  # of the others, HTTP/2 sends bodies without a length
        if length is None or length > _SHORT_BODY:
            return BodyStream(self.chunks(), length=length)
        return await self.body(_SHORT_BODY)

    async def disconnected(self) -> None:
        """Return when the client has disconnected. Unread parts of the body are discarded."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
