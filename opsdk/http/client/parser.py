"""Parses responses: bytes in, one response at a time out. No I/O."""

from __future__ import annotations

from collections import deque
from enum import Enum

import httptools

_BODYLESS = frozenset({204, 304})


class ResponseState(Enum):
    """How far an answer is read."""

    IDLE = "no request is underway; any byte is a mistake of the server"
    HEAD = "status and headers are still coming"
    BODY = "the head is known"
    DONE = "the answer is whole"


class ResponseParser:
    """Bytes to one answer at a time; no I/O. The parser calls the ``on_`` methods."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._method = ""
        self._until_eof = False
        self.state = ResponseState.IDLE
        self.status = 0
        self.headers: dict[str, str] = {}
        self.chunks: deque[bytes] = deque()
        self.buffered = 0
        self.reusable = False

    def begin(self, method: str) -> None:
        """Expect the answer to a request of this method."""
        self._method, self.state, self.reusable = method, ResponseState.HEAD, False

    def feed(self, data: bytes) -> None:
        """Take bytes from the network; raises ``httptools.HttpParserError`` on what is no HTTP."""
        if self.state in {ResponseState.IDLE, ResponseState.DONE}:
            self.reusable = False
            raise httptools.HttpParserError("bytes that nobody asked for")
        self._parser.feed_data(data)

    def eof(self) -> None:
        """The server sends no more: the end of an answer that says no length."""
        self.reusable = False
        if self.state is ResponseState.BODY and self._until_eof:
            self.state = ResponseState.DONE

    def take(self) -> bytes:
        """All body bytes read so far."""
        data = self.chunks.popleft() if len(self.chunks) == 1 else b"".join(self.chunks)
        self.chunks.clear()
        self.buffered = 0
        return data

    def on_message_begin(self) -> None:
        """A head starts; perhaps another one, after an interim answer."""
        if self.state is ResponseState.DONE:
            raise ValueError("a second answer to one request")
        self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """The head is whole, if it is not an interim one (1xx)."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            return
        sized = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        self._until_eof = not sized and self.status not in _BODYLESS
        self.state = ResponseState.DONE if self._method in {"HEAD", "CONNECT"} else ResponseState.BODY

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self.chunks.append(data)
        self.buffered += len(data)

    def on_message_complete(self) -> None:
        """The answer is whole; an interim one was only the prelude."""
        if self.status >= 200:
            # A parser that was told of a body which HEAD leaves out cannot go on.
            self.reusable = self._parser.should_keep_alive() and self._method != "HEAD"
            self.state = ResponseState.DONE
