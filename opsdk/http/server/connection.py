"""One server connection: parses requests, with the checks and error responses of Go's HTTP server.

Requests are processed one after another. Pipelined requests wait: the connection is not read while more than one
request is queued.

Upstream: net/http/server.go (Go 1.25)
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, cast

import httptools

from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import CUT, PEER_CERTIFICATE, PEER_INTERMEDIATES, UPGRADE, App, Receive, Scope, Send
from opsdk.http.receive_buffer import SharedBufferProtocol
from opsdk.http.server import request_rules
from opsdk.http.server.exchange import ServerExchange
from opsdk.http.server.peer import peer_of
from opsdk.http.server.request import DECODED_HEADERS
from opsdk.http.server.request_rules import MALFORMED, Refusal
from opsdk.http.server.service import Service
from opsdk.http.server.upgrade import UpgradedStream
from opsdk.structured_merge.value import JsonObject

_LOG = logging.getLogger("opsdk.http.server")
_WRITE_BUFFER: Final = 64 * 1024
"""Bytes of responses to buffer for a client that does not read."""
_LINGER_SECONDS: Final = 0.5
"""Seconds for a client to read the response to a request that it is still sending."""
_FLUSH_SECONDS: Final = 30.0
"""Seconds for a client to read the end of the last response."""


class _RefusedError(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


@dataclass(slots=True)
class _RequestHead:
    """The head that is read. If the blanks of its line are still to be checked, `raw` has its bytes, among others."""

    target: bytearray = field(default_factory=bytearray)
    is_unchecked: bool = False
    raw: bytearray = field(default_factory=bytearray)
    method: bytes = b""
    fed: int = 0
    size: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class ServerConnection(SharedBufferProtocol):
    """Parses requests and writes responses; see the module docstring."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._scope: JsonObject = {}
        self._parser = httptools.HttpRequestParser(self)
        # Content-Length beside Transfer-Encoding is accepted, as by Go, but ends the connection. Header lines are read
        # strictly: no blank before the colon or at the start of a line, or two servers disagree about the framing.
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True,
            lenient_transfer_encoding=True,
            lenient_version=True,
            lenient_data_after_close=True,
        )
        self._partial_method = b""
        self._first_bytes = b""
        self._parsed_bytes = b""
        self._head: _RequestHead | None = None
        self._incoming: ServerExchange | None = None
        self._queue: deque[ServerExchange | Refusal] = deque()
        self._read_closed = False
        self._upgraded: UpgradedStream | None = None
        self._reading_paused = False
        self._writable: asyncio.Event | None = None
        self._limits = service.limits
        self._body_gap = 0
        self._trailer_bytes = 0
        self._certificate_end = math.inf
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<ServerConnection of {self._scope.get('client')}: {len(self._queue)} requests>"

    # -------------------------------------------------------------- asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        # Not an assertion: transports of uvloop have no base class.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        # The default for TLS is eight times as much, for each client that does not read.
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        self._service.connections[self] = None
        tls = transport.get_extra_info("ssl_object")
        extensions: JsonObject = {CUT: transport.abort}
        peer = None if tls is None else peer_of(tls)
        if peer is not None:
            if peer.resumed:  # TLS did not verify the certificate again
                transport.abort()
                return
            self._certificate_end = peer.certificate_end
            extensions[PEER_CERTIFICATE] = peer.certificate
            extensions[PEER_INTERMEDIATES] = peer.intermediates
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "server": _address(transport.get_extra_info("sockname")),
            "client": _address(transport.get_extra_info("peername")),
            "scheme": "https" if tls is not None else "http",
            "root_path": "",
            "extensions": extensions,
        }
        self._set_timeout(self._limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._upgraded is not None:
            self._upgraded.feed(data)
            return
        if self._read_closed:
            return
        if self._head is None and self._incoming is None:
            if time.time() > self._certificate_end:
                self._close_after_queue()
                if not self._queue:
                    self._close()
                return
            if not self._partial_method:
                if self._accept_known(data):
                    return
                self._first_bytes = data
            data = self._read_method(data)
            if not data:
                return
        self._parse(data)
        self._first_bytes = self._parsed_bytes = b""
        if self._incoming is not None:
            self._set_timeout(self._limits.body_idle_seconds)

    def _accept_known(self, data: bytes) -> bool:
        """Accept a whole request whose header block was parsed before. False: the parser has to read it."""
        request = self._service.heads.find(data)
        if request is None:
            return False
        method, path, raw_path, query, head, body = request
        scope: Scope = {
            **self._scope,
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": head.headers,
            DECODED_HEADERS: head.decoded,
        }
        keep_alive = not self._service.draining
        app = self._service.app
        exchange = ServerExchange(self, scope, app, keep_alive=keep_alive, expects=False, length=head.length)
        if body:
            exchange.take(body)
        exchange.end_body()
        self._enqueue(exchange)
        return True

    def _feed_parser(self, data: bytes) -> None:
        self._parsed_bytes = data
        if self._head is not None and self._head.is_unchecked:
            self._head.raw += data
        self._parser.feed_data(data)

    def _parse(self, data: bytes) -> None:
        self._body_gap += len(data)
        try:
            self._feed_parser(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The bytes that follow belong to another protocol. They are dropped unless the application upgrades.
            self._read_closed = True
            self._close_after_queue()
            self._upgraded = UpgradedStream(self, self._close_tunnel)
            rest = data[upgrade.args[0] :]
            if rest:
                self._upgraded.feed(rest)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            if not isinstance(cause, _RefusedError):
                raise
            self._refuse(cause.refusal)
        except httptools.HttpParserError:
            self._refuse(request_rules.malformed_version(data) if self._incoming is None else MALFORMED)
        else:
            if self._head is not None:
                self._head.fed += len(data)
                if self._head.fed > self._limits.head_bytes:
                    self._refuse(request_rules.TOO_LARGE)
            elif self._incoming is not None and self._body_gap > self._limits.body_gap_bytes:
                self._refuse(MALFORMED)  # the parser keeps a trailer until it is complete

    def eof_received(self) -> bool:
        """EOF from the peer: finish queued requests, and cancel streaming responses (watches)."""
        self._read_closed = True
        if self._upgraded is not None:
            self._upgraded.end()
        if self._head is not None or self._partial_method:
            self._refuse(MALFORMED)
        for exchange in self._queue:
            if isinstance(exchange, ServerExchange):
                exchange.close_read()
        # TLS connections cannot be half-closed.
        return bool(self._queue) and self._scope["scheme"] == "http"

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """See asyncio."""
        self._service.discard(self)
        self._read_closed = True
        if self._upgraded is not None:
            self._upgraded.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for exchange in self._queue:
            if isinstance(exchange, ServerExchange):
                exchange.disconnect()
        self._queue.clear()
        self.resume_writing()

    def pause_writing(self) -> None:
        """See asyncio."""
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        """See asyncio."""
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    # -------------------------------------------------------------- time
    def _set_timeout(self, seconds: float) -> None:
        """Close the connection after `seconds` without progress. One timer at a time."""
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._on_timeout)

    def _on_timeout(self) -> None:
        self._timer = None
        if self._queue and not self._waits_for_body():
            return  # a request is being processed: the connection does not limit its time
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._on_timeout)
        elif self._queue:
            self._refuse_slow_body()
        else:
            self._close()

    def _waits_for_body(self) -> bool:
        """Whether the client has to send the rest of a body. One that waits for ``100 Continue`` has not to."""
        body = self._incoming
        return body is not None and not self._reading_paused and not body.awaits_continue

    def _refuse_slow_body(self) -> None:
        exchange, self._incoming = self._incoming, None
        self._read_closed = True
        assert exchange is not None
        exchange.close_read()
        if not exchange.started and self._queue[0] is exchange:
            exchange.disconnect()
            self._queue.clear()
            self.write(request_rules.TOO_SLOW.encode())
            self._end(linger=True)

    # -------------------------------------------------------------- heads
    def _read_method(self, data: bytes) -> bytes:
        """Return the first bytes of a request for the parser, which only knows some methods."""
        if not self._partial_method:
            self._set_timeout(self._limits.head_seconds)
        self._partial_method += data
        method_match = request_rules.METHOD.match(self._partial_method)
        if method_match is None:
            if request_rules.METHOD_BEGIN.fullmatch(self._partial_method):
                return b""
            data, self._partial_method = self._partial_method, b""
            return data
        method, data = method_match[1], self._partial_method
        self._partial_method = b""
        # The parser skips repeated blanks. A line that is not complete yet is checked when its head is complete.
        line_end = data.find(b"\n")
        if data.startswith(b" ", method_match.end()) or (line_end > 0 and data.count(b" ", 0, line_end) > 2):
            self._refuse(MALFORMED)
            return b""
        self._head = _RequestHead(is_unchecked=line_end < 0)
        if method not in request_rules.METHODS:
            self._head.method = method
            data = b"GET" + data[len(method) :]
        return data

    def on_message_begin(self) -> None:
        """See httptools."""
        if self._head is None:  # the request follows another one in the same bytes
            self._head = _RequestHead(is_unchecked=True, raw=bytearray(self._parsed_bytes))

    def on_url(self, url: bytes) -> None:
        """See httptools."""
        assert self._head is not None
        self._head.target += url
        self._head.size += len(url)
        if self._head.size > self._limits.head_bytes:
            raise _RefusedError(request_rules.TOO_LARGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        head = self._head
        if head is None:
            self._trailer_bytes += len(name) + len(value) + 4
            if self._trailer_bytes > self._limits.trailer_bytes:
                raise _RefusedError(MALFORMED)
            return
        head.headers.append((name.lower(), value))
        head.size += len(name) + len(value) + 4
        if head.size > self._limits.head_bytes or len(head.headers) > self._limits.head_fields:
            raise _RefusedError(request_rules.TOO_LARGE)

    def on_headers_complete(self) -> None:
        """See httptools."""
        head, self._head = self._head, None
        assert head is not None
        version = self._parser.get_http_version()
        method = head.method or self._parser.get_method()
        refusal = request_rules.check_head(method, version, head.headers)
        if head.is_unchecked and b"%b %b HTTP/" % (self._parser.get_method(), bytes(head.target)) not in bytes(
            head.raw
        ):
            refusal = refusal or MALFORMED
        if refusal is not None:
            raise _RefusedError(refusal)
        target = request_rules.read_target(method, bytes(head.target))
        if target is None:
            raise _RefusedError(MALFORMED)
        path, raw_path, query = target
        if query.count(b"&") >= self._limits.query_parameters:
            raise _RefusedError(request_rules.TOO_LARGE)
        scope: Scope = {
            **self._scope,
            "http_version": version,
            "method": method.decode("ascii"),
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": head.headers,
        }
        if self._parser.should_upgrade():
            scope["extensions"] = {**self._scope["extensions"], UPGRADE: self._upgrade}
        self._accept(head, scope)

    def _accept(self, head: _RequestHead, scope: Scope) -> None:
        lengths = request_rules.values(head.headers, b"content-length")
        keep_alive = self._parser.should_keep_alive() and not self._service.draining
        if request_rules.values(head.headers, b"transfer-encoding"):
            # RFC 9112, 6.1: no further request after a message whose framing another server may read otherwise.
            keep_alive = keep_alive and not lengths and scope["http_version"] != "1.0"
            lengths = []
            scope["headers"] = head.headers = [pair for pair in head.headers if pair[0] != b"content-length"]
        self._body_gap = self._trailer_bytes = 0
        expectations = request_rules.tokens(head.headers, b"expect")
        expects = b"100-continue" in expectations
        app = self._service.app
        if any(expectations) and not expects:
            app = _fixed_response(417, (b"connection", b"close"))
        elif (scope["method"], scope["path"]) == ("OPTIONS", "*"):
            app = _fixed_response(200)
        exchange = ServerExchange(
            self,
            scope,
            app,
            keep_alive=keep_alive,
            expects=expects and scope["http_version"] != "1.0",
            length=int(lengths[0]) if lengths else None,
        )
        if self._first_bytes and exchange.keep_alive and not expectations:
            self._service.learn_head(self._first_bytes, head.headers)
        self._first_bytes = b""
        self._incoming = exchange
        self._enqueue(exchange)

    # -------------------------------------------------------------- bodies
    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._body_gap = 0
        if self._incoming is not None:
            self._incoming.take(body)

    def on_message_complete(self) -> None:
        """See httptools."""
        if self._incoming is not None:
            self._incoming.end_body()
            self._incoming = None

    # -------------------------------------------------------------- other protocols
    def _upgrade(self, headers: list[tuple[bytes, bytes]]) -> UpgradedStream:
        """See `UPGRADE`."""
        item = self._queue[0] if self._queue else None
        if self._upgraded is None or not isinstance(item, ServerExchange) or item.started:
            raise ConnectionLostError("the connection has ended before it could be upgraded")
        item.started = True
        lines = [b"HTTP/1.1 101 Switching Protocols", *(b"%b: %b" % pair for pair in headers)]
        self.write(b"\r\n".join((*lines, b"", b"")))
        return self._upgraded

    def _close_tunnel(self) -> None:
        for item in self._queue:
            if isinstance(item, ServerExchange):
                item.complete = True
        self._queue.clear()
        self._close()

    # -------------------------------------------------------------- queue
    def _enqueue(self, item: ServerExchange | Refusal) -> None:
        self._queue.append(item)
        if len(self._queue) == 1:
            self._start_next()
        else:
            self._set_reading(on=False)

    def _refuse(self, refusal: Refusal) -> None:
        self._read_closed = True
        self._head, self._partial_method = None, b""
        if self._incoming is not None:
            # The application sees it when it reads the body, and may still respond.
            self._incoming.close_read()
        else:
            self._enqueue(refusal)

    def _start_next(self) -> None:
        item = self._queue[0]
        if isinstance(item, ServerExchange):
            self._service.start(item, self._response_failed)
            return
        self.write(item.encode())
        self._queue.clear()
        self._end(linger=item is request_rules.TOO_LARGE)

    def _response_failed(self) -> None:
        """The application sent no response, or an incomplete one."""
        item = self._queue[0] if self._queue else None
        if isinstance(item, ServerExchange) and not item.started:
            text = b"Internal Server Error"
            head = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close"
            self.write(b"%b\r\nContent-Length: %d\r\n\r\n%b" % (head, len(text), text))
            self._close()
        elif self._transport is not None:
            self._transport.abort()

    def _close_after_queue(self) -> None:
        """Accept no further request after those in the queue."""
        if self._queue and isinstance(self._queue[-1], ServerExchange):
            self._queue[-1].keep_alive = False

    def stop(self) -> None:
        """Finish the current response, then close."""
        while len(self._queue) > 1:
            self._queue.pop()
        if not self._queue:
            self._close()
        else:
            self._close_after_queue()

    # -------------------------------------------------------------- for exchanges
    @property
    def closing(self) -> bool:
        """See `ServerConnectionPort`."""
        return self._transport is None or self._transport.is_closing()

    @property
    def full(self) -> bool:
        """See `ServerConnectionPort`."""
        return self._writable is not None

    def write(self, data: bytes) -> None:
        """See `ServerConnectionPort`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def drained(self) -> None:
        """See `ServerConnectionPort`."""
        while self._writable is not None:
            await self._writable.wait()

    def date(self) -> bytes:
        """See `ServerConnectionPort`."""
        return self._service.date()

    def hold(self, *, reading: bool) -> None:
        """See `ServerConnectionPort`."""
        self._set_reading(on=reading and len(self._queue) < 2)

    def response_complete(self) -> None:
        """See `ServerConnectionPort`."""
        done = self._queue.popleft() if self._queue else None
        if not isinstance(done, ServerExchange):
            return
        if not done.keep_alive or self._service.draining:
            self._queue.clear()
            self._end(linger=done.more_body)
            return
        self._set_reading(on=len(self._queue) < 2)
        if self._queue:
            self._start_next()
        else:
            partial = self._head is not None or self._partial_method or self._incoming is not None
            self._set_timeout(self._limits.head_seconds if partial else self._limits.idle_seconds)

    # -------------------------------------------------------------- closing
    def _set_reading(self, *, on: bool) -> None:
        if self._transport is None or self._transport.is_closing() or on != self._reading_paused:
            return
        self._reading_paused = not on
        if on:
            self._transport.resume_reading()
            if self._incoming is not None:
                self._set_timeout(self._limits.body_idle_seconds)
        else:
            self._transport.pause_reading()

    def _end(self, *, linger: bool) -> None:
        """Close the connection. With `linger`, first read from a client that still sends, or it misses the response."""
        self._read_closed = True
        if not linger:
            self._close()
            return
        self._set_reading(on=True)
        if self._transport is not None and self._transport.can_write_eof():
            try:
                self._transport.write_eof()
            except OSError:  # the client has reset the connection, so no byte of the response can arrive
                self.abort()
                return
        self._loop.call_later(_LINGER_SECONDS, self._close)

    def _close(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.close()
        self._loop.call_later(_FLUSH_SECONDS, transport.abort)

    def abort(self) -> None:
        """Close at once, without a response."""
        if self._transport is not None:
            self._transport.abort()


def _fixed_response(status: int, *headers: tuple[bytes, bytes]) -> App:
    """Return an application that sends a response without a body."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0"), *headers]})
        await send({"type": "http.response.body", "body": b""})

    return app


def _address(name: object) -> tuple[str, int] | None:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) > 1 else None
