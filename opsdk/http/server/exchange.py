"""One request and its answer, between a connection and an ASGI application."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Protocol

from opsdk.http.asgi_types import App, Message, Scope

_HIGH = 64 * 1024
"""Bytes of a body that wait to be read before the client is slowed down."""
DISCARD_LIMIT = 256 * 1024
"""Bytes of a body that nobody reads are taken in for the sake of the next request; with more, the connection ends."""


class ServerConnectionPort(Protocol):
    """What an exchange asks of its connection."""

    @property
    def closing(self) -> bool:
        """Whether nothing more can be sent."""
        ...

    @property
    def full(self) -> bool:
        """Whether so much is kept that it is time to wait."""
        ...

    def write(self, data: bytes) -> None:
        """Send, or keep until it can be sent."""
        ...

    async def drained(self) -> None:
        """Return when what is kept is little, or the client gone."""
        ...

    def date(self) -> bytes:
        """The time of day, as headers have it."""
        ...

    def hold(self, *, reading: bool) -> None:
        """Stop reading, or go on."""
        ...

    def answered(self) -> None:
        """The answer is complete."""
        ...


class ServerExchange:
    """Takes the body in, gives the answer out.

    Attributes:
        app: what answers it.
        keep_alive: whether another request may follow on the connection.
        more_body: whether the request is still coming in.
        disconnected: the client has gone, or will not be heard any more.
        complete: the answer is sent.
    """

    def __init__(
        self, line: ServerConnectionPort, scope: Scope, app: App, *, keep_alive: bool, expects: bool, length: int | None
    ) -> None:
        self.scope = scope
        self.app = app
        self.keep_alive = keep_alive
        self.more_body = True
        self.disconnected = False
        self.complete = False
        self.started = False
        self._connection = line
        self._expects = expects
        self._length = length
        self._received = 0
        self._end_delivered = False
        self._read_closed = False
        self._body = bytearray()
        self._event = asyncio.Event()
        self._chunked = False
        self._remaining = 0
        self._no_body = False

    def __repr__(self) -> str:
        return f"<Exchange {self.scope['method']} {self.scope['path']}>"

    # -------------------------------------------------------------- the request
    def take(self, data: bytes) -> None:
        """Some body."""
        self._received += len(data)
        if self.complete or self.disconnected:
            return
        self._body += data
        if len(self._body) > _HIGH:
            self._connection.hold(reading=False)
        self._event.set()

    def end_body(self) -> None:
        """The request is complete."""
        self.more_body = False
        self._event.set()

    def disconnect(self) -> None:
        """The client has gone."""
        self.disconnected = True
        self._event.set()

    def close_read(self) -> None:
        """The client says nothing more that can be understood, and may listen still."""
        self._read_closed = True
        self.keep_alive = False
        self._event.set()

    async def receive(self) -> Message:
        """See ASGI."""
        if self._expects and not self.started and not self._connection.closing:
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._expects = False
        while not self._ready():
            self._connection.hold(reading=True)
            self._event.clear()
            await self._event.wait()
        if not self._body and (self._end_delivered or self.more_body):
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        self._end_delivered = not self.more_body
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def _ready(self) -> bool:
        if self._body or self.disconnected or self.complete or self._read_closed:
            return True
        return not self.more_body and not self._end_delivered

    # -------------------------------------------------------------- the answer
    async def send(self, message: Message) -> None:
        """See ASGI."""
        if self._connection.full:
            await self._connection.drained()
        if self.disconnected:
            # Whoever sends without end gets to hear of it only if others run meanwhile.
            await asyncio.sleep(0)
            return
        if not self.started:
            self._start(message)
        elif self.complete:
            raise RuntimeError("the answer is complete, and more of it came")
        else:
            self._part(message.get("body", b""), more=message.get("more_body", False))

    def _start(self, message: Message) -> None:
        status, headers = message["status"], list(message.get("headers", ()))
        self.started = True
        length = next((int(value) for name, value in headers if name == b"content-length"), None)
        self._no_body = self.scope["method"] == "HEAD" or status in (204, 304) or status < 200
        modern = self.scope["http_version"] != "1.0"
        self._chunked = length is None and modern and not self._no_body
        self._remaining = length or 0
        closes = any(name == b"connection" and b"close" in value.lower() for name, value in headers)
        # Without a length, only the end of the connection ends an answer to an old client.
        ends = length is None and not modern and not self._no_body
        self.keep_alive = self.keep_alive and not closes and not ends and not self._unread()
        lines = [b"HTTP/%b %d %b" % (b"1.1" if modern else b"1.0", status, _phrase(status))]
        lines += [b"%b: %b" % (name, _one_line(value)) for name, value in headers]
        if not any(name == b"date" for name, _ in headers):
            lines.append(b"date: " + self._connection.date())
        if self._chunked:
            lines.append(b"transfer-encoding: chunked")
        if not self.keep_alive and not closes:
            lines.append(b"connection: close")
        elif not modern and self.keep_alive:
            lines.append(b"connection: keep-alive")
        self._connection.write(b"\r\n".join((*lines, b"", b"")))

    def _unread(self) -> bool:
        """Whether so much of the body is still to come that the connection had better end."""
        if not self.more_body:
            return False
        return self._expects or self._length is None or self._length - self._received >= DISCARD_LIMIT

    def _part(self, body: bytes, *, more: bool) -> None:
        if self._no_body:
            self._remaining = 0
        elif self._chunked:
            ended = b"" if more else b"0\r\n\r\n"
            if body or ended:
                self._connection.write(b"%x\r\n%b\r\n%b" % (len(body), body, ended) if body else ended)
        else:
            self._remaining -= len(body)
            if body:
                self._connection.write(body)
        if not more:
            self._finish()

    def finish(self) -> bool:
        """End an answer where it stands, if it has a form in which it can end there."""
        if not self.started or self.complete or (self._remaining and not self._no_body):
            return False
        self._part(b"", more=False)
        return True

    def _finish(self) -> None:
        if self._remaining:
            raise RuntimeError("the answer is not as long as it said")
        self.complete = True
        self._event.set()
        self._connection.answered()


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"status code %d" % status


def _one_line(value: bytes) -> bytes:
    """A header's value cannot begin another header."""
    return value.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in value or b"\r" in value else value
