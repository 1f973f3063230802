"""HTTP/1.1 response parser: bytes in, one response at a time out. No I/O."""

from __future__ import annotations

import re
from collections import deque
from enum import Enum
from functools import lru_cache

import httptools

from opsdk.base.limits import LIMITS

_BODYLESS = frozenset({204, 304})
_FIELD = re.compile(r"^([^:\n]+): ?(.*)\r\n", re.MULTILINE)


class ResponseState(Enum):
    """State of the response that is read."""

    IDLE = "no request in progress; any byte is a server error"
    HEAD = "reading status and headers"
    BODY = "reading the body"
    DONE = "response complete"


# Python 3.11 searches the metaclass for each member of an enum that is named: not for each object.
_IDLE, _HEAD, _BODY, _DONE = ResponseState.IDLE, ResponseState.HEAD, ResponseState.BODY, ResponseState.DONE


@lru_cache(maxsize=256)
def _lower_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of headers in lower case. A server sends the same few sets repeatedly."""
    return tuple([name.lower() for name in names])


def _headers_of(head: str) -> dict[str, str]:
    """Return the headers of a head by name; the values of repeated ones are joined.

    httptools has checked the head. Its calls for each header cost more than the rest of the parser.
    """
    fields = _FIELD.findall(head, head.index("\n") + 1)
    if len(fields) != head.count("\n") - 1:
        raise httptools.HttpParserError("a line of the response's head is no header")
    if not fields:
        return {}
    names, values = zip(*fields, strict=True)
    lower = _lower_names(names)
    if ":  " in head or " \r" in head or "\t" in head:
        values = tuple([value.strip(" \t") for value in values])
    headers = dict(zip(lower, values, strict=True))
    if len(headers) < len(lower):
        headers = {}
        for name, value in zip(lower, values, strict=True):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


class ResponseParser:
    """Parses one response at a time. httptools calls the ``on_`` methods."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._method = ""
        self._until_eof = False
        self.state = _IDLE
        self.status = 0
        self.headers: dict[str, str] = {}
        self.chunks: deque[bytes] = deque()
        self.buffered = 0
        self.reusable = True  # until an error
        self._fed_without_body = 0
        self._interim = 0
        self._head: bytes | bytearray = b""

    def begin(self, method: str) -> None:
        """Expect the response to a request with this method."""
        self._method, self.state, self.reusable = method, _HEAD, False
        self._fed_without_body = self._interim = 0
        self._head = b""

    def feed(self, data: bytes) -> None:
        """Parse bytes from the network. Raises ``httptools.HttpParserError`` if they are not HTTP."""
        if self.state is _DONE or self.state is _IDLE:  # the hash of an enum is a call
            self.reusable = False
            raise httptools.HttpParserError("the server sent bytes without a request")
        # Heads, interim ones too, and trailers: what httptools has of a header is kept until the header is complete.
        self._fed_without_body += len(data)
        if self.state is _HEAD:
            if self._head:
                self._continue_head(data)
            else:
                self._head = data  # usually all of it, so it is not copied
        self._parser.feed_data(data)
        if self._fed_without_body > LIMITS.response_head_bytes:
            raise httptools.HttpParserError(f"more than {LIMITS.response_head_bytes} bytes of headers")

    def _continue_head(self, data: bytes) -> None:
        if not isinstance(self._head, bytearray):
            self._head = bytearray(self._head)
        self._head += data

    def eof(self) -> None:
        """The server has closed the connection, which ends a response without a length."""
        self.reusable = False
        if self.state is _BODY and self._until_eof:
            self.state = _DONE

    def take(self) -> bytes:
        """Return all body bytes read so far."""
        data = self.chunks.popleft() if len(self.chunks) == 1 else b"".join(self.chunks)
        self.chunks.clear()
        self.buffered = 0
        return data

    def on_message_begin(self) -> None:
        """A head starts, possibly after an interim response (1xx)."""
        if self.state is _DONE:
            raise ValueError("a second response to one request")
        self.headers = {}

    def on_headers_complete(self) -> None:
        """The head is complete. Interim responses (1xx) are skipped."""
        self.status = self._parser.get_status_code()
        end = self._head.find(b"\r\n\r\n") + 2
        if end < 2 or not self._head.startswith(b"HTTP/"):
            raise httptools.HttpParserError("the response begins with an empty line")
        self.headers = headers = _headers_of(self._head[:end].decode("latin-1"))
        self._head = self._head[end + 2 :] if self.status < 200 else b""
        if self.status < 200:
            self._interim += 1
            if self._interim > LIMITS.informational_responses:
                raise httptools.HttpParserError("too many interim responses (1xx)")
            return
        sized = "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()
        self._until_eof = not sized and self.status not in _BODYLESS
        self.state = _DONE if self._method in {"HEAD", "CONNECT"} else _BODY

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self._fed_without_body = 0
        self.chunks.append(data)
        self.buffered += len(data)

    def on_message_complete(self) -> None:
        """The response is complete, unless it is an interim one."""
        if self.status >= 200:
            # After HEAD, the parser still expects the body that Content-Length announces.
            self.reusable = self._parser.should_keep_alive() and self._method != "HEAD"
            self.state = _DONE
