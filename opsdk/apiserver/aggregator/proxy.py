"""Forwards requests to other servers with the user's identity in headers.

Upstream: k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from opsdk.apiserver.aggregator.api_services import RemoteService
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.webhook_client.client import Resolve, WebhookCallError
from opsdk.apiserver.webhook_client.connection_pools import ConnectionPools, Endpoint
from opsdk.apiserver.webhook_client.endpoint import ClientConfigError
from opsdk.apiserver.webhook_client.go_errors import failure
from opsdk.apiserver.webhook_client.in_process_upgrade import BidirectionalStream
from opsdk.errors import ApiError, OpsdkError
from opsdk.http.body_stream import Body
from opsdk.http.client.request import ResponseStream
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import CutConnection, HttpResponse, StreamResponse, UpgradeResponse, text_response
from opsdk.http.server.unread import UNREAD
from opsdk.http.server.upgrade import UpgradedStream

SWITCHING = 101
_SAFE = "/:@!$&'()*+,;=~-._"
_PLAIN = "!#$&'*+^`|"
_HOPS = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding"}
)
_OURS = frozenset({"host", "content-length", "authorization", "upgrade", "x-forwarded-for", *_HOPS})
_NOT_BACK = frozenset({"content-length", "audit-id", "date", "upgrade", *_HOPS})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


Responding = TypeVar("Responding", bound=ResponseStream)


class UnreachableError(Exception):
    """The aggregated server sent no response; the message is Go's."""


class AggregatorProxy:
    """Proxies requests to aggregated servers.

    Args:
        resolve: resolves a Service to an address.
        on_unreachable: called for a server that sent no response.
    """

    def __init__(
        self, connection_pools: ConnectionPools, resolve: Resolve, on_unreachable: Callable[[RemoteService], None]
    ) -> None:
        self._lines = connection_pools
        self._resolve = resolve
        self._lost = on_unreachable

    def __repr__(self) -> str:
        return f"<AggregatorProxy by {self._lines!r}>"

    def resolve_endpoint(self, remote: RemoteService) -> Endpoint:
        """Return the server's endpoint. Raises `WebhookCallError` if its Service cannot be resolved."""
        authority = f"{remote.host}:{remote.port}"
        address, port = remote.host, remote.port
        if not self._lines.inside(authority):
            address, port = self._resolve(remote.namespace, remote.service, remote.port)
        ca = b"" if remote.insecure else remote.ca
        return Endpoint(
            authority=authority, host=remote.host, address=address, port=port, ca=ca, insecure=remote.insecure
        )

    async def request(
        self, endpoint: Endpoint, method: str, target: str, headers: list[tuple[str, str]], body: Body = b""
    ) -> ResponseStream:
        """Send one request. Raises `UnreachableError` without a response, `ClientConfigError` for an invalid CA."""
        pairs = [("Host", endpoint.joined), *headers]
        retry_if_closed = method in _SAFE_METHODS
        return await _reached(
            endpoint, self._lines.exchange(endpoint, method, target, pairs, body, retry_if_closed=retry_if_closed)
        )

    async def pass_on(self, call: Call, remote: RemoteService) -> HttpResponse:
        """Forward a request and return the response."""
        if not remote.available:
            return unavailable()
        UNREAD.check(call.user.name)
        try:
            place = self.resolve_endpoint(remote)
        except WebhookCallError:
            return unavailable()
        target = quote(call.http.path, safe=_SAFE)
        if call.http.query.raw:
            target += f"?{call.http.query.raw}"
        headers = [*_forwarded(call.http, place), ("Audit-Id", call.audit_id), *user_headers(call.user)]
        try:
            if call.http.upgrade is not None:
                request = call.http
                upgrade_header = request.header("upgrade")
                pairs = [("Host", place.joined), *headers, ("Connection", "Upgrade"), ("Upgrade", upgrade_header)]
                far = await _reached(place, self._lines.upgrade(place, request.method, target, pairs))
                if far.status != SWITCHING:
                    return await _response(far, request.method)
                back = [(name, value) for name, value in far.headers.items() if name not in _NOT_BACK]
                protocol = far.headers.get("upgrade", upgrade_header)
                return UpgradeResponse(
                    SWITCHING, back, protocol=protocol, run=partial(_proxy_bytes, far), release=far.abort
                )
            body = await call.http.body_to_forward()
            exchange = await self.request(place, call.http.method, target, headers, body)
        except ClientConfigError as error:
            return text_response(f"{error}\n", status=500)
        except UnreachableError as error:
            self._lost(remote)
            return _plain(f"error trying to reach service: {error}")
        return await _response(exchange, call.http.method)


async def _reached(endpoint: Endpoint, exchange: Awaitable[Responding]) -> Responding:
    """Return the response. Raises `UnreachableError` if the connection fails; errors of the client are unchanged."""
    try:
        return await exchange
    except ApiError:
        raise
    except OpsdkError as error:
        raise UnreachableError(failure(error.__cause__ or error, endpoint.joined, endpoint.host)) from error


def unavailable() -> HttpResponse:
    """Return the 503 for an unavailable server."""
    return _plain("service unavailable")


def _plain(text: str) -> HttpResponse:
    response = text_response(f"{text}\n", status=503)
    response.add_header("x-content-type-options", "nosniff")
    return response


def user_headers(user: User) -> Iterator[tuple[str, str]]:
    """Yield the ``X-Remote-*`` headers that name the user to an aggregated server."""
    yield "X-Remote-User", _one_line(user.name)
    if user.uid:
        yield "X-Remote-Uid", _one_line(user.uid)
    for group in user.groups:
        yield "X-Remote-Group", _one_line(group)
    for key, values in user.extra.items():
        for value in values:
            yield f"X-Remote-Extra-{quote(key, safe=_PLAIN)}", _one_line(value)


def _one_line(text: str) -> str:
    return "".join(" " if c in "\r\n\0" else c for c in text)


def _forwarded(request: HttpRequest, endpoint: Endpoint) -> Iterator[tuple[str, str]]:
    hop_headers = {name.strip().lower() for name in request.header("connection").split(",")}
    for name in request.headers:
        dropped = name in _OURS or name in hop_headers or name.startswith(("x-remote-", "impersonate-", "audit-id"))
        for value in () if dropped else request.texts(name):
            yield name, value
    before = request.header("x-forwarded-for")
    if request.client:
        yield "X-Forwarded-For", f"{before}, {request.client}" if before else request.client
    yield "X-Forwarded-Host", endpoint.joined
    yield "X-Forwarded-Proto", "https"
    yield "X-Forwarded-Uri", quote(request.path, safe=_SAFE)


async def _proxy_bytes(far: BidirectionalStream, near: UpgradedStream) -> None:
    """Copy bytes in both directions until one side ends."""

    async def there() -> None:
        while data := await near.read():
            await far.write(data)

    async def back() -> None:
        while data := await far.read():
            await near.write(data)

    passing = [asyncio.ensure_future(direction()) for direction in (there, back)]
    try:
        await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in passing:
            task.cancel()
        # If one side ends, the connection of the other side is closed too. An error has no recipient then.
        await asyncio.gather(*passing, return_exceptions=True)
        await far.aclose()


async def _response(exchange: ResponseStream, method: str) -> HttpResponse:
    headers = [(name, value) for name, value in exchange.headers.items() if name not in _NOT_BACK]
    if method == "HEAD" or exchange.status in (204, 304):
        await exchange.aclose()
        return HttpResponse(exchange.status, headers)
    return StreamResponse(exchange.status, headers, chunks=_Body(exchange), is_patient=True)


class _Body(AsyncGenerator[bytes, None]):
    """The response body; closes the exchange, also without a read."""

    def __init__(self, exchange: ResponseStream) -> None:
        self._exchange = exchange

    async def asend(self, _: None) -> bytes:
        """Return the next chunk."""
        try:
            piece = await self._exchange.read()
        except OpsdkError as error:
            raise CutConnection("the other server broke off") from error
        if not piece:
            await self._exchange.aclose()
            raise StopAsyncIteration
        return piece

    async def athrow(self, *error: Any) -> bytes:
        """Close the exchange."""
        await self._exchange.aclose()
        raise error[0]

    async def aclose(self) -> None:
        """Close the exchange; idempotent."""
        await self._exchange.aclose()
