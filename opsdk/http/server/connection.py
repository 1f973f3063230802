"""One server connection: it reads requests, runs the application for each, and writes the responses.

`opsdk.http.server.request_parser` has the states of what is read. Requests are processed one after another. Pipelined
requests wait: the connection is not read while more than one request is queued.

Upstream: net/http/server.go (Go 1.25)
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, cast

from opsdk.errors import ConnectionLostError
from opsdk.http.asgi_types import CUT, PEER_CERTIFICATE, PEER_INTERMEDIATES, UPGRADE, App, Receive, Scope, Send
from opsdk.http.receive_buffer import SharedBufferProtocol
from opsdk.http.server import request_rules
from opsdk.http.server.exchange import ServerExchange
from opsdk.http.server.peer import peer_of
from opsdk.http.server.request import DECODED_HEADERS
from opsdk.http.server.request_parser import BodyEnd, RequestEvent, RequestHead, RequestParser, RequestState, Tunnelled
from opsdk.http.server.request_rules import Refusal
from opsdk.http.server.service import Service
from opsdk.http.server.unread import UnreadBuffer
from opsdk.http.server.upgrade import UpgradedStream
from opsdk.structured_merge.value import JsonObject

_WRITE_BUFFER: Final = 64 * 1024
"""Bytes of responses to buffer for a client that does not read."""
_LINGER_SECONDS: Final = 0.5
"""Seconds for a client to read the response to a request that it is still sending."""
_FLUSH_SECONDS: Final = 30.0
"""Seconds for a client to read the end of the last response."""
_BEFORE_HEAD: Final = (RequestState.IDLE, RequestState.METHOD)


class ServerConnection(SharedBufferProtocol):
    """A connection of a `Service`; see the module docstring."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._scope: JsonObject = {}
        self._requests = RequestParser(service.limits)
        self._incoming: ServerExchange | None = None
        self._queue: deque[ServerExchange | Refusal] = deque()
        self._upgraded: UpgradedStream | None = None
        self._reading_paused = False
        self._writable: asyncio.Event | None = None
        self._unread: UnreadBuffer | None = None
        self._limits = service.limits
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
        state = self._requests.state
        if state is RequestState.CLOSED:
            return
        if state in _BEFORE_HEAD and time.time() > self._certificate_end:
            self._close_after_queue()
            if not self._queue:
                self._close()
            return
        if state is RequestState.IDLE:
            if self._accept_known(data):
                return
            self._set_timeout(self._limits.head_seconds)
        for event in self._requests.feed(data):
            self._on_event(event)
        self._read_held()
        if self._incoming is not None:
            self._set_timeout(self._limits.body_idle_seconds)

    def _read_held(self) -> None:
        """Read pipelined requests that have arrived with the last one, until one waits behind another one."""
        while self._requests.held and len(self._queue) < 2:
            for event in self._requests.read_on():
                self._on_event(event)

    def _on_event(self, event: RequestEvent) -> None:
        """Pass an event of the parser to the exchange that reads a body, or to the queue."""
        match event:
            case bytes():
                if self._incoming is not None:
                    self._incoming.take(event)
            case BodyEnd():
                if self._incoming is not None:
                    self._incoming.end_body()
                    self._incoming = None
            case RequestHead():
                self._accept(event)
            case Refusal():
                self._refuse(event)
            case Tunnelled():
                self._tunnel(event.data)

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

    def eof_received(self) -> bool:
        """EOF from the peer: finish queued requests, and cancel streaming responses (watches)."""
        if self._upgraded is not None:
            self._upgraded.end()
        for event in self._requests.end():
            self._on_event(event)
        for exchange in self._queue:
            if isinstance(exchange, ServerExchange):
                exchange.close_read()
        # TLS connections cannot be half-closed.
        return bool(self._queue) and self._scope["scheme"] == "http"

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._service.discard(self)
        self._requests.close()
        if self._upgraded is not None:
            self._upgraded.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        exchanges = [exchange for exchange in self._queue if isinstance(exchange, ServerExchange)]
        for exchange in exchanges:
            exchange.disconnected = True  # so that it sends nothing more
        self._queue.clear()
        self._end_unread()
        if exchanges:
            self._service.leave(partial(self._wake, exchanges))
        else:
            self.resume_writing()

    def _wake(self, exchanges: Sequence[ServerExchange]) -> None:
        """Let the applications see that the client has left."""
        for exchange in exchanges:
            exchange.disconnect()
        self.resume_writing()

    def pause_writing(self) -> None:
        """See asyncio."""
        self._writable = asyncio.Event()
        item = self._queue[0] if self._queue else None
        user = item.user if isinstance(item, ServerExchange) else ""
        if self._transport is not None:
            self._unread = UnreadBuffer(user, self._transport.get_write_buffer_size(), self._on_stall)

    def _on_stall(self) -> None:
        """The client does not read. A stream or another protocol has a rule of its own."""
        item = self._queue[0] if self._queue else None
        if self._upgraded is None and not (isinstance(item, ServerExchange) and item.is_streaming):
            self.abort()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._end_unread()
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    def _end_unread(self) -> None:
        if self._unread is not None:
            self._unread.close()
            self._unread = None

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
        self._requests.close()
        assert exchange is not None
        exchange.close_read()
        if not exchange.started and self._queue[0] is exchange:
            exchange.disconnect()
            self._queue.clear()
            self.write(request_rules.TOO_SLOW.encode())
            self._end(linger=True)

    # -------------------------------------------------------------- requests
    def _accept(self, request: RequestHead) -> None:
        """Queue the exchange of a request."""
        scope: Scope = {
            **self._scope,
            "http_version": request.version,
            "method": request.method.decode("ascii"),
            "path": request.path,
            "raw_path": request.raw_path,
            "query_string": request.query,
            "headers": request.headers,
        }
        if request.upgrades:
            scope["extensions"] = {**self._scope["extensions"], UPGRADE: self._upgrade}
        keep_alive = request.keep_alive and not self._service.draining
        app = self._service.app
        if request.fails_expectation:
            app = _fixed_response(417, (b"connection", b"close"))
        elif (scope["method"], request.path) == ("OPTIONS", "*"):
            app = _fixed_response(200)
        if request.first_bytes and keep_alive:
            self._service.learn_head(request.first_bytes, request.headers)
        self._incoming = ServerExchange(
            self, scope, app, keep_alive=keep_alive, expects=request.expects_continue, length=request.length
        )
        self._enqueue(self._incoming)

    # -------------------------------------------------------------- other protocols
    def _tunnel(self, data: bytes) -> None:
        """Pass bytes of another protocol on. They are dropped unless the application upgrades."""
        if self._upgraded is None:
            self._close_after_queue()
            self._upgraded = UpgradedStream(self, self._close_tunnel)
        if data:
            self._upgraded.feed(data)

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

    def write(self, data: bytes | memoryview) -> None:
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
        if self._queue:
            self._start_next()
        self._read_held()
        self._set_reading(on=len(self._queue) < 2)
        if not self._queue:
            between = self._requests.state in (RequestState.IDLE, RequestState.CLOSED)
            self._set_timeout(self._limits.idle_seconds if between else self._limits.head_seconds)

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
        self._requests.close()
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
    if not isinstance(name, tuple) or len(name) < 2:
        return None
    # A socket of both families has IPv4 clients at mapped addresses.
    return str(name[0]).removeprefix("::ffff:"), int(name[1])
