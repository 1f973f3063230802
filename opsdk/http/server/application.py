"""Turns a request handler into an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from opsdk.http.asgi_types import App, Receive, Scope, Send
from opsdk.http.server.asgi_websocket import serve_websocket, websocket_request
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import (
    CutConnection,
    CutResponse,
    HttpResponse,
    StreamResponse,
    UpgradeResponse,
    send_start,
)
from opsdk.http.server.unread import WHOLE_BYTES, until_stalled

Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Takes a request and returns the response."""


def asgi(handler: Handler) -> App:
    """Return an ASGI application that calls `handler`. The server gets the handler's exceptions."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while True:
                event = (await receive())["type"]
                await send({"type": f"{event}.complete"})
                if event == "lifespan.shutdown":
                    return
        if scope["type"] == "websocket":
            response = await handler(websocket_request(scope, receive))
            await serve_websocket(scope, response, receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"unsupported ASGI scope {scope['type']!r}: write http, websocket or lifespan")
        request = HttpRequest.from_scope(scope, receive)
        await respond(await handler(request), request, send)

    return app


async def respond(response: HttpResponse, request: HttpRequest, send: Send) -> None:
    """Send a response. A large one ends early when the client disconnects."""
    if isinstance(response, CutResponse):
        await _close_connection(request)
        return
    if isinstance(response, UpgradeResponse):
        await _upgrade(response, request)
        return
    if not isinstance(response, StreamResponse) and (len(response.body) <= WHOLE_BYTES or request.method == "HEAD"):
        body = b"" if request.method == "HEAD" else response.body
        await send_start(response, send, length=len(response.body))
        await send({"type": "http.response.body", "body": body, "more_body": False})
        return
    streaming = asyncio.ensure_future(_stream(response, request, send))
    leaving = asyncio.ensure_future(request.disconnected())
    try:
        await asyncio.wait((streaming, leaving), return_when=asyncio.FIRST_COMPLETED)
        if streaming.done():
            streaming.result()
    except CutConnection:
        await _close_connection(request)
    finally:
        for task in (streaming, leaving):
            task.cancel()
        try:
            await asyncio.gather(streaming, leaving, return_exceptions=True)
        finally:  # a server that stops cancels a second time
            if isinstance(response, StreamResponse) and response.release is not None:
                response.release()


async def _upgrade(response: UpgradeResponse, request: HttpRequest) -> None:
    if request.upgrade is None:
        raise RuntimeError("this connection cannot be upgraded: check request.upgrade first")
    headers = [("connection", "Upgrade"), ("upgrade", response.protocol), *response.headers]
    try:
        upgraded = request.upgrade([(n.encode("latin-1"), v.encode("utf-8", "replace")) for n, v in headers])
        try:
            await response.run(upgraded)
        finally:
            upgraded.close()
    finally:
        if response.release is not None:
            response.release()


async def _close_connection(request: HttpRequest) -> None:
    """Close the connection. Returns when it is closed."""
    if request.cut is None:
        raise CutConnection("this ASGI server has no extension to close a connection")
    request.cut()
    await request.disconnected()


async def _stream(response: HttpResponse, request: HttpRequest, send: Send) -> None:
    """Send a body part by part. Each counts for the user until the client has read it: no other place sends one."""
    if isinstance(response, StreamResponse):
        cut = None if response.is_patient else request.cut
        ends_when_full = response.ends_when_full
        chunks = until_stalled(response.chunks, cut, response.user, ends_when_full=ends_when_full)
        length = None
    else:
        chunks = until_stalled(_one(response.body), request.cut, response.user)
        length = len(response.body)
    async with aclosing(chunks):
        await send_start(response, send, length=length)
        async for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _one(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
