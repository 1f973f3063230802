"""Reads the requests of a connection from its bytes. Pure: bytes in, events out.

======== ======================================== ==========================================================
state    bytes                                    next state, and event
======== ======================================== ==========================================================
IDLE     the first of a request                   METHOD
METHOD   the method and its blank                 HEAD
METHOD   an invalid method                        CLOSED, `Refusal`
HEAD     the end of a valid head                  BODY, `RequestHead`
HEAD     an invalid, too large or unfinished head CLOSED, `Refusal`
BODY     some of the body                         BODY, the bytes
BODY     the end of the body                      IDLE, `BODY_END`
BODY     the end of a body before another protocol TUNNEL, `BODY_END`
BODY     an invalid chunk, endless trailers       CLOSED, `Refusal`
TUNNEL   any                                      TUNNEL, `Tunnelled`
CLOSED   any                                      CLOSED
======== ======================================== ==========================================================

Rules:

1. After the event of a request come its body and `BODY_END`, before the next request.
2. A `Refusal` is the last event: the framing of what follows is not known. After a request it is about its body.
3. Each cut of the same bytes gives the same events, except that a body is cut where its bytes are. What `feed` finds of
   one body is one event, or a client with chunks of one byte would cause 10,000 events at a time.
4. What is kept of an unfinished head, chunk or trailer has the limits of `opsdk.base.limits`.
5. Each call reads to the end of one request; what follows is kept as bytes. Otherwise 64 KiB of pipelined requests
   would be 2,400 exchanges: 60 ms of the event loop, and 7 MB of memory before authentication. The end of a chunked
   body is found after at most `_CHUNKED_PIECE` bytes, which may have further small requests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

import httptools

from opsdk.base.limits import Limits
from opsdk.http.server import request_rules
from opsdk.http.server.request_rules import MALFORMED, Refusal

_CHUNKED_PIECE: Final = 1024
"""Bytes of a chunked body that are parsed at once, because only the parser finds its end."""
# Empty lines before a request are no ends: each would be a piece of its own.
_HEAD_END: Final = re.compile(rb"[^\r\n]\r?\n\r?\n")


class RequestState(Enum):
    """What the next bytes of a connection are. See the module docstring."""

    IDLE = "between requests"
    METHOD = "reading a method"
    HEAD = "reading a head"
    BODY = "reading a body"
    TUNNEL = "another protocol"
    CLOSED = "reading nothing more"


class RequestHead(NamedTuple):
    """A request whose head is complete and valid.

    Attributes:
        version: of HTTP: ``1.0`` or ``1.1``.
        headers: names in lower case, and values.
        length: bytes of the body; None for chunks, or no body.
        keep_alive: another request may follow.
        upgrades: the client wants another protocol.
        expects_continue: the client waits for ``100 Continue`` before it sends the body.
        fails_expectation: the client expects something else, which no server gives.
        first_bytes: the bytes that began with the request, if they have its whole head.
    """

    method: bytes
    path: str
    raw_path: bytes
    query: bytes
    version: str
    headers: list[tuple[bytes, bytes]]
    length: int | None
    keep_alive: bool
    upgrades: bool
    expects_continue: bool
    fails_expectation: bool
    first_bytes: bytes


class Tunnelled(NamedTuple):
    """Bytes of another protocol. Empty where it begins, if no bytes of it have arrived."""

    data: bytes


class BodyEnd(Enum):
    """The type of `BODY_END`."""

    END = "end of a body"


BODY_END: Final = BodyEnd.END
RequestEvent = RequestHead | bytes | BodyEnd | Refusal | Tunnelled
"""Plain bytes are a part of a body."""


class _RefusedError(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


@dataclass(slots=True)
class _UnfinishedHead:
    """The head that is read. If the blanks of its line are still to be checked, `raw` has its bytes, among others."""

    target: bytearray = field(default_factory=bytearray)
    is_unchecked: bool = False
    raw: bytearray = field(default_factory=bytearray)
    method: bytes = b""
    fed: int = 0
    size: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class RequestParser:
    r"""Parses the requests of one connection. httptools calls the ``on_`` methods.

    >>> from opsdk.base.limits import LIMITS
    >>> parser = RequestParser(LIMITS)
    >>> parser.feed(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")[0].path
    '/a'
    >>> parser.feed(b"hi")
    [b'hi', <BodyEnd.END: 'end of a body'>]

    Args:
        limits: see `opsdk.base.limits`.

    Attributes:
        state: changed by `feed`, `read_on`, `end` and `close` only.
        held: bytes that follow the last request, for `read_on`.
    """

    def __init__(self, limits: Limits) -> None:
        self.state = RequestState.IDLE
        self.held = b""
        self._limits = limits
        self._events: list[RequestEvent] = []
        self._body: list[bytes] = []
        self._parser = httptools.HttpRequestParser(self)
        # Content-Length with Transfer-Encoding is accepted, as in Go, but ends the connection. Header lines are read
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
        self._head = _UnfinishedHead()
        self._body_gap = 0
        self._body_left: int | None = 0  # None: chunked
        self._is_complete = False
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> list[RequestEvent]:
        """Read bytes of the client to the end of one request, and return the events. `read_on` reads what follows."""
        self.held = self.held + data if self.held else data
        return self.read_on()

    def read_on(self) -> list[RequestEvent]:
        """Read the bytes in `held` to the end of one request, and return the events."""
        self._is_complete = False
        while self.held and not self._is_complete:
            self._read(self.held)
        self._end_part()
        events, self._events = self._events, []
        return events

    def _read(self, data: bytes) -> None:
        """Read the bytes up to the next place where a request may end."""
        size = self._piece(data)
        self.held = data[size:]
        match self.state:
            case RequestState.CLOSED:
                self.held = b""
                return
            case RequestState.TUNNEL:
                self._events.append(Tunnelled(data))
                return
            case RequestState.IDLE:
                self._first_bytes = data
                piece = self._read_method(data[:size])
            case RequestState.METHOD:
                piece = self._read_method(data[:size])
            case _:
                piece = data[:size]
        if piece:
            self._parse(piece)
        self._first_bytes = self._parsed_bytes = b""

    def _piece(self, data: bytes) -> int:
        """Return how many bytes to read at once: at most to the end of a head, or of a body."""
        match self.state:
            case RequestState.CLOSED | RequestState.TUNNEL:
                return len(data)
            case RequestState.BODY:
                return min(len(data), _CHUNKED_PIECE if self._body_left is None else self._body_left)
            case _:
                head_end = _HEAD_END.search(data)
                return len(data) if head_end is None else head_end.end()

    def end(self) -> list[RequestEvent]:
        """The client sends nothing more. Return the refusal of a head that is not complete."""
        is_partial = self.state in (RequestState.METHOD, RequestState.HEAD)
        self.close()
        return [MALFORMED] if is_partial else []

    def close(self) -> None:
        """Read nothing more, except what belongs to another protocol."""
        if self.state is not RequestState.TUNNEL:
            self.state = RequestState.CLOSED
            self.held = b""

    # -------------------------------------------------------------- methods
    def _read_method(self, data: bytes) -> bytes:
        """Return the first bytes of a request for the parser, which only knows some methods."""
        self.state = RequestState.METHOD
        self._partial_method += data
        method_match = request_rules.METHOD.match(self._partial_method)
        if method_match is None and request_rules.METHOD_BEGIN.fullmatch(self._partial_method):
            return b""
        data, self._partial_method = self._partial_method, b""
        if method_match is None:
            self.state = RequestState.IDLE
            return data  # the parser skips empty lines, and refuses anything else
        # The parser skips repeated blanks. A line that is not complete yet is checked when its head is complete.
        line_end = data.find(b"\n")
        if data.startswith(b" ", method_match.end()) or (line_end > 0 and data.count(b" ", 0, line_end) > 2):
            self._refuse(MALFORMED)
            return b""
        self.state = RequestState.HEAD
        self._head = _UnfinishedHead(is_unchecked=line_end < 0)
        method = method_match[1]
        if method not in request_rules.METHODS:
            self._head.method = method
            data = b"GET" + data[len(method) :]
        return data

    def _parse(self, data: bytes) -> None:
        """Pass bytes to the parser, whose calls add the events. Its errors become refusals."""
        self._body_gap += len(data)
        self._parsed_bytes = data
        if self.state is RequestState.HEAD and self._head.is_unchecked:
            self._head.raw += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.state = RequestState.TUNNEL
            self._end_part()
            self._events.append(Tunnelled(data[upgrade.args[0] :] + self.held))
            self.held = b""
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            if not isinstance(cause, _RefusedError):
                raise
            self._refuse(cause.refusal)
        except httptools.HttpParserError:
            of_body = self.state is RequestState.BODY
            self._refuse(MALFORMED if of_body else request_rules.malformed_version(data))
        else:
            self._check_unfinished(len(data))

    def _check_unfinished(self, fed: int) -> None:
        """Limit what the parser keeps: a part of a head, and a chunk's line or a trailer until it is complete."""
        if self.state is RequestState.HEAD:
            self._head.fed += fed
            if self._head.fed > self._limits.head_bytes:
                self._refuse(request_rules.TOO_LARGE)
        elif self.state is RequestState.BODY and self._body_gap > self._limits.body_gap_bytes:
            self._refuse(MALFORMED)

    def _refuse(self, refusal: Refusal) -> None:
        self.close()
        self._partial_method = b""
        self._end_part()
        self._events.append(refusal)

    # -------------------------------------------------------------- heads
    def on_message_begin(self) -> None:
        if self.state is RequestState.IDLE:  # the request follows another one in the same bytes
            self.state = RequestState.HEAD
            self._head = _UnfinishedHead(is_unchecked=True, raw=bytearray(self._parsed_bytes))

    def on_url(self, url: bytes) -> None:
        self._head.target += url
        self._head.size += len(url)
        if self._head.size > self._limits.head_bytes:
            raise _RefusedError(request_rules.TOO_LARGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.state is RequestState.BODY:
            self._trailer_bytes += len(name) + len(value) + 4
            if self._trailer_bytes > self._limits.trailer_bytes:
                raise _RefusedError(MALFORMED)
            return
        head = self._head
        head.headers.append((name.lower(), value))
        head.size += len(name) + len(value) + 4
        if head.size > self._limits.head_bytes or len(head.headers) > self._limits.head_fields:
            raise _RefusedError(request_rules.TOO_LARGE)

    def on_headers_complete(self) -> None:
        head = self._head
        version = self._parser.get_http_version()
        method = head.method or self._parser.get_method()
        refusal = request_rules.check_head(method, version, head.headers)
        if head.is_unchecked and b"%b %b HTTP/" % (self._parser.get_method(), bytes(head.target)) not in bytes(
            head.raw
        ):
            refusal = refusal or MALFORMED
        if refusal is not None:
            raise _RefusedError(refusal)
        size = head.size - len(head.target)
        target = request_rules.admit_target(
            method, bytes(head.target), size=size, fields=len(head.headers), limits=self._limits
        )
        if isinstance(target, Refusal):
            raise _RefusedError(target)
        self._add_request(method, target, version, head.headers)

    def _add_request(
        self, method: bytes, target: tuple[str, bytes, bytes], version: str, headers: list[tuple[bytes, bytes]]
    ) -> None:
        """Add the event of a request, and begin its body."""
        lengths = request_rules.values(headers, b"content-length")
        keep_alive = self._parser.should_keep_alive()
        is_chunked = bool(request_rules.values(headers, b"transfer-encoding"))
        if is_chunked:
            # RFC 9112, 6.1: no further request after a message whose framing another server may read otherwise.
            keep_alive = keep_alive and not lengths and version != "1.0"
            lengths = []
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        expectations = request_rules.tokens(headers, b"expect")
        expects_continue = b"100-continue" in expectations
        length = int(lengths[0]) if lengths else None
        self._body_left = None if is_chunked else length or 0
        self._events.append(
            RequestHead(
                method,
                *target,
                version,
                headers,
                length=length,
                keep_alive=keep_alive,
                upgrades=self._parser.should_upgrade(),
                expects_continue=expects_continue and version != "1.0",
                fails_expectation=any(expectations) and not expects_continue,
                first_bytes=self._first_bytes,
            )
        )
        self.state = RequestState.BODY
        self._head = _UnfinishedHead()
        self._first_bytes = b""
        self._body_gap = self._trailer_bytes = 0

    # -------------------------------------------------------------- bodies
    def on_body(self, body: bytes) -> None:
        self._body_gap = 0
        self._body.append(body)
        if self._body_left is not None:
            self._body_left -= len(body)

    def on_message_complete(self) -> None:
        if self.state is RequestState.BODY:
            self.state = RequestState.IDLE
            self._is_complete = True
            self._end_part()
            self._events.append(BODY_END)

    def _end_part(self) -> None:
        """Add the event of the body's bytes so far."""
        if self._body:
            self._events.append(b"".join(self._body))
            self._body.clear()

    def __repr__(self) -> str:
        return f"<RequestParser {self.state.value}>"
