"""The httpx client of one API server, over the connection pool of its `Transport`.

The only module that imports httpx. `opsdk.cluster.cluster.Cluster.http` imports it on first use: httpx takes longer to
import than the rest of the client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx

from opsdk.apimachinery.integers import parse_int
from opsdk.errors import UsageError
from opsdk.http.body_stream import Body, BodyStream
from opsdk.http.client.request import ResponseStream
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

# Headers that the transport or the connection sets.
_TRANSPORT_HEADERS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "user-agent", "accept-encoding"}
)


def httpx_client(transport: Transport) -> httpx.AsyncClient:
    """Return an httpx client with the address, the credentials and the connection pool of `transport`.

    Closing it leaves the pool open. Connection errors are opsdk's (`opsdk.errors.TransportError`), not httpx's.
    """
    return httpx.AsyncClient(transport=HttpxTransport(transport), base_url=str(transport.endpoint))


class HttpxTransport(httpx.AsyncBaseTransport):
    """Lets an ``httpx.AsyncClient`` use a `Transport`. Only for URLs of its server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Make one exchange, without retries."""
        ours, url = self._transport.endpoint, request.url
        port = url.port or {"http": 80, "https": 443}.get(url.scheme)
        if (url.scheme, url.host, port) != (ours.scheme, ours.host, ours.port):
            raise UsageError(
                f"{url.scheme}://{url.host}:{port} is not {ours}: this client sends requests to that server only"
            )
        raw = request.url.raw_path.decode("ascii")
        if not raw.startswith(ours.base_path):
            raise UsageError(f"{raw.partition('?')[0]} is outside {ours}")
        plain = RestRequest(
            request.method,
            raw.removeprefix(ours.base_path),
            headers={name: value for name, value in request.headers.items() if name.lower() not in _TRANSPORT_HEADERS},
            body=_body(request),
        )
        exchange = await self._transport.exchange(plain)
        return httpx.Response(exchange.status, headers=exchange.headers, stream=_ExchangeStream(exchange))


def _body(request: httpx.Request) -> Body:
    stream = request.stream
    if isinstance(stream, httpx.ByteStream):
        return b"".join(stream)
    assert isinstance(stream, httpx.AsyncByteStream), "an AsyncClient has asynchronous streams only"
    return BodyStream(stream, length=parse_int(request.headers.get("Content-Length", "")))


class _ExchangeStream(httpx.AsyncByteStream):
    def __init__(self, exchange: ResponseStream) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self._exchange.read():
            yield data

    async def aclose(self) -> None:
        await self._exchange.aclose()
