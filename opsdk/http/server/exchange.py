"""One request and its response, between a connection and an ASGI application."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, Protocol

from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import USER, App, Message, Scope
from opsdk.http.server.unread import UNREAD
from opsdk.http.server.upgrade import SENDS_AT_ONCE, UpgradePort

_HIGH_WATER = 64 * 1024
"""Unread bytes of a request body above which the connection stops reading."""
DISCARD_LIMIT = 256 * 1024
"""Bytes of an unread request body to discard before the next request. With more, the connection closes.

Upstream: net/http/transfer.go (maxPostHandlerReadBytes)."""
_PART: Final = 64 * 1024
"""Bytes of a body that are written at once: the write buffer copies what the client does not read."""

_LEFT: Final = "the client has disconnected, so nothing more can be sent"
_PHRASES = {int(status): status.phrase.encode() for status in HTTPStatus}
_breaks_lines = re.compile(rb"[\r\n]").search


class ServerConnectionPort(UpgradePort, Protocol):
    """The methods of a connection that an exchange uses."""

    @property
    def full(self) -> bool:
        """Whether the write buffer is full."""
        ...

    def write(self, data: bytes | memoryview) -> None:
        """Send or buffer `data`."""
        ...

    def date(self) -> bytes:
        """Return the value of the Date header."""
        ...

    def response_complete(self) -> None:
        """The response is complete."""
        ...


class ServerExchange:
    """Receives the request body and sends the response.

    Attributes:
        scope: the ASGI scope.
        app: the application that responds.
        keep_alive: whether another request may follow on the connection.
        more_body: whether the request body is incomplete.
        disconnected: the client has disconnected.
        started: the response head is sent.
        complete: the response is sent.
        user: whose budget of unread bytes the response counts for; empty before it has started.
    """

    def __init__(
        self,
        connection: ServerConnectionPort,
        scope: Scope,
        app: App,
        *,
        keep_alive: bool,
        expects: bool,
        length: int | None,
    ) -> None:
        self.scope = scope
        self.app = app
        self.keep_alive = keep_alive
        self.more_body = True
        self.disconnected = False
        self.complete = False
        self.started = False
        self._connection = connection
        self._expects_continue = expects
        self._length = length
        self._received = self._sends = 0
        self._end_delivered = False
        self._read_closed = False
        self._body = bytearray()
        self._event = asyncio.Event()
        self.user = ""
        self._chunked = self._streams = False
        self._remaining = 0
        self._no_body = False
        self._head = b""

    def __repr__(self) -> str:
        return f"<ServerExchange {self.scope['method']} {self.scope['path']}>"

    # -------------------------------------------------------------- the request
    def take(self, data: bytes) -> None:
        """Add bytes of the request body."""
        self._received += len(data)
        if self.complete or self.disconnected:
            return
        self._body += data
        if len(self._body) > _HIGH_WATER:
            self._connection.hold(reading=False)
        self._event.set()

    def end_body(self) -> None:
        """The request body is complete."""
        self.more_body = False
        self._event.set()

    @property
    def awaits_continue(self) -> bool:
        """Whether the client waits for ``100 Continue`` before it sends the body."""
        return self._expects_continue and not self.started

    def disconnect(self) -> None:
        """The client has disconnected."""
        self.disconnected = True
        self._event.set()

    def close_read(self) -> None:
        """No more valid bytes come from the client. It may still read the response."""
        self._read_closed = True
        self.keep_alive = False
        self._event.set()

    async def receive(self) -> Message:
        if self._expects_continue and not self.started and not self._connection.closing:
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._expects_continue = False
        while not self._has_message():
            self._connection.hold(reading=True)
            self._event.clear()
            await self._event.wait()
        if not self._body and (self._end_delivered or self.more_body):
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        self._end_delivered = not self.more_body
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def _has_message(self) -> bool:
        if self._body or self.disconnected or self.complete or self._read_closed:
            return True
        return not self.more_body and not self._end_delivered

    # -------------------------------------------------------------- the answer
    async def send(self, message: Message) -> None:
        """See ASGI. Waits while the client does not read, and gives the loop a turn after each `SENDS_AT_ONCE`.

        Raises:
            ConnectionLostError: the client has disconnected.
        """
        if not self.started:
            if self.disconnected:
                raise ConnectionLostError(_LEFT)
            self._start_response(message)
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._connection.full:
            await self._drained(body)
        if self.disconnected:
            raise ConnectionLostError(_LEFT)
        if self.complete:
            raise RuntimeError("http.response.body after the end of the response")
        if len(body) > _PART and not self._no_body:
            await self._send_large(body, more=more)
        else:
            self._send_body(body, more=more)
        self._sends += 1
        if self._sends % SENDS_AT_ONCE == 0:
            # The connection learns in the event loop that the client has left, or has read: an application that only
            # sends would never learn it.
            await asyncio.sleep(0)

    @property
    def is_streaming(self) -> bool:
        """Whether a response without a length is being sent. Its application decides how long the client may pause."""
        return self.started and not self.complete and self._streams

    async def _drained(self, body: bytes) -> None:
        """Wait until the client reads. The parts of streams are counted already."""
        held = UNREAD.hold(self.user, body) if self.user and not self._streams else None
        try:
            await self._connection.drained()
        finally:
            if held is not None:
                UNREAD.release(held)

    async def _send_large(self, body: bytes, *, more: bool) -> None:
        """Write a large part of the body piece by piece: one chunk, if the response has chunks."""
        if self._chunked:
            self._remaining = len(body)  # so that a cancelled response does not end within a chunk
        self._write_head(b"%x\r\n" % len(body) if self._chunked else b"")
        view = memoryview(body)
        for start in range(0, len(body), _PART):
            self._connection.write(view[start : start + _PART])
            self._sends += 1
            if self._sends % SENDS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if self._connection.full:
                await self._drained(body)
            if self.disconnected:
                raise ConnectionLostError(_LEFT)
        if self._chunked:
            self._connection.write(b"\r\n" if more else b"\r\n0\r\n\r\n")
        self._remaining -= len(body)
        if not more:
            self._complete()

    def _write_head(self, rest: bytes) -> None:
        """Write a head that was kept, and `rest`."""
        head, self._head = self._head, b""
        if head or rest:
            self._connection.write(head + rest)

    def _start_response(self, message: Message) -> None:
        """Write the response's head, or keep it for the first part of the body."""
        status, headers = message["status"], list(message.get("headers", ()))
        self.started = True
        self.user = message.get(USER, "")
        length, closes, dated = _framing(headers)
        self._no_body = self.scope["method"] == "HEAD" or status in (204, 304) or status < 200
        modern = self.scope["http_version"] != "1.0"
        self._streams = length is None
        self._chunked = length is None and modern and not self._no_body
        self._remaining = length or 0
        # Without a length, an HTTP/1.0 response ends with the connection.
        ends = length is None and not modern and not self._no_body
        # A connection whose request body is mostly unread is not kept.
        unread = self.more_body and (
            self._expects_continue or self._length is None or self._length - self._received >= DISCARD_LIMIT
        )
        self.keep_alive = self.keep_alive and not closes and not ends and not unread
        phrase = _PHRASES.get(status) or b"status code %d" % status
        lines = [b"HTTP/%b %d %b" % (b"1.1" if modern else b"1.0", status, phrase)]
        lines += [b"%b: %b" % header for header in headers]
        if any(map(_breaks_lines, lines)):
            lines[1:] = [b"%b: %b" % (name, _without_line_breaks(value)) for name, value in headers]
        if not dated:
            lines.append(b"date: " + self._connection.date())
        if self._chunked:
            lines.append(b"transfer-encoding: chunked")
        if not self.keep_alive and not closes:
            lines.append(b"connection: close")
        elif not modern and self.keep_alive:
            lines.append(b"connection: keep-alive")
        head = b"\r\n".join((*lines, b"", b""))
        if length is None:
            self._connection.write(head)
        else:
            self._head = head  # sent with the body: one system call and one TLS record

    def _send_body(self, body: bytes, *, more: bool) -> None:
        """Write a part of the body. Raises `RuntimeError` if it does not fit the length of the head."""
        if self._no_body:
            self._remaining = 0
            self._write_head(b"")
        elif self._chunked:
            ended = b"" if more else b"0\r\n\r\n"
            if body or ended:
                self._connection.write(b"%x\r\n%b\r\n%b" % (len(body), body, ended) if body else ended)
        else:
            self._remaining -= len(body)
            self._write_head(body)
        if not more:
            self._complete()

    def _complete(self) -> None:
        """The response is written. Raises `RuntimeError` if it does not fit the length of the head."""
        if self._remaining:
            raise RuntimeError("the response is shorter or longer than its Content-Length")
        self.complete = True
        self._event.set()
        self._connection.response_complete()

    def finish(self) -> bool:
        """End the response here, if its framing allows that. Returns whether it did."""
        if not self.started or self.complete or (self._remaining and not self._no_body):
            return False
        self._send_body(b"", more=False)
        return True


def _framing(headers: Iterable[tuple[bytes, bytes]]) -> tuple[int | None, bool, bool]:
    """Return the first Content-Length, whether the connection closes, and whether there is a date."""
    length: int | None = None
    closes = dated = False
    for name, value in headers:
        if name == b"content-length" and length is None:
            length = int(value)
        elif name == b"connection":
            closes = closes or b"close" in value.lower()
        elif name == b"date":
            dated = True
    return length, closes, dated


def _without_line_breaks(value: bytes) -> bytes:
    """Return a header value without line breaks, so that it cannot start another header."""
    return value.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in value or b"\r" in value else value
