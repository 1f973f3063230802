"""Header blocks that were parsed before: a client sends the same block with most of its requests. Pure.

The parser calls a function for each header of each request. A block that it has accepted is accepted again, so the
request line and the length of the body are all that remains to be read. A block may hold a bearer token, so blocks are
kept no longer than they are used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from opsdk.base.limits import LIMITS, Limits
from opsdk.http.server.request import DecodedHeaders, decode_headers
from opsdk.http.server.request_rules import Refusal, admit_target, head_size

_MAX_BLOCKS: Final = 512
"""The limit of both generations together."""
_MAX_BLOCK_BYTES: Final = 2048
"""Bytes of the longest block to remember: 1 MB in all."""
_REQUEST_LINE: Final = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[!\"$-~]*) HTTP/1\.1\r\n")
_HEAD_END: Final = b"\r\n\r\n"
_UNCACHEABLE_HEADERS: Final = (b"connection", b"expect", b"transfer-encoding", b"upgrade")
"""Headers by which a connection or a body differs from the usual one."""

RawHeaders = list[tuple[bytes, bytes]]


class KnownHead(NamedTuple):
    """The headers of a block, as the scope and `HttpRequest` have them, the length of the body, and `head_size`."""

    headers: RawHeaders
    decoded: DecodedHeaders
    length: int | None
    size: int


class KnownRequest(NamedTuple):
    """A whole request whose header block is known."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    head: KnownHead
    body: bytes


class KnownHeads:
    r"""The blocks that connections of one server have accepted lately, in two generations.

    Each call of `rotate` forgets the blocks that were not used since the call before.

    >>> heads = KnownHeads()
    >>> heads.learn(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", [(b"host", b"x")])
    >>> heads.find(b"GET /b?c HTTP/1.1\r\nHost: x\r\n\r\n").path
    '/b'
    >>> heads.find(b"GET /b?c HTTP/1.1\r\nHost: y\r\n\r\n") is None
    True
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._recent: dict[bytes, KnownHead] = {}
        self._older: dict[bytes, KnownHead] = {}

    def __repr__(self) -> str:
        return f"<KnownHeads: {len(self)}>"

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def rotate(self) -> None:
        """Make the recent blocks the older ones, and forget those that were the older ones."""
        self._recent, self._older = {}, self._recent

    def find(self, data: bytes) -> KnownRequest | None:
        """Return the request if `data` is exactly one request with a known block; None leaves it to the parser."""
        line = _REQUEST_LINE.match(data)
        if line is None:
            return None
        end = data.find(_HEAD_END, line.end() - 2)
        if end < 0:
            return None
        block = data[line.end() : end]
        head = self._recent.get(block) or self._use_older(block)
        if head is None or len(data) - end - len(_HEAD_END) != (head.length or 0):
            return None
        target = admit_target(line[1], line[2], size=head.size, fields=len(head.headers), limits=self._limits)
        if isinstance(target, Refusal):
            return None  # the parser refuses it
        return KnownRequest(line[1].decode(), *target, head, data[end + len(_HEAD_END) :])

    def learn(self, data: bytes, headers: RawHeaders) -> None:
        """Remember the block at the start of `data`, which the parser has read as `headers` and accepted."""
        line = _REQUEST_LINE.match(data)
        end = -1 if line is None else data.find(_HEAD_END, line.end() - 2)
        if line is None or not 0 <= end - line.end() <= _MAX_BLOCK_BYTES:
            return
        block = data[line.end() : end]
        if not _is_cacheable(block, headers):
            return
        lengths = [int(value) for name, value in headers if name == b"content-length"]
        self._put(
            block, KnownHead(headers, decode_headers(headers), lengths[0] if lengths else None, head_size(headers))
        )

    def _use_older(self, block: bytes) -> KnownHead | None:
        """Return the head of an older block, which is a recent one from now on."""
        head = self._older.pop(block, None)
        if head is not None:
            self._put(block, head)
        return head

    def _put(self, block: bytes, head: KnownHead) -> None:
        if len(self._recent) >= _MAX_BLOCKS // 2:
            self.rotate()
        self._recent[block] = head


def _is_cacheable(block: bytes, headers: RawHeaders) -> bool:
    """Whether each line of a block is one header, and no header changes what follows."""
    lines = block.split(b"\r\n")
    fields: Mapping[bytes, bytes] = dict(headers)
    return (
        len(lines) == len(headers)
        and len(fields) == len(headers)
        and not any(name in fields for name in _UNCACHEABLE_HEADERS)
        and all(
            b"\n" not in line and line.lower().startswith(name + b":") and line.endswith(value)
            for line, (name, value) in zip(lines, headers, strict=True)
        )
    )
