"""Large lists as JSON: the items are encoded while the client reads, so a client that does not read holds no body.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json/collections.go (v1.36).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, NamedTuple

from opsdk.aio.large_work import compute
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.stall import until_stalled
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.structured_merge.value import JsonObject

WHOLE_BYTES: Final = 256 * 1024
"""A list of at most so many bytes is one body with a length."""
_PIECE: Final = 64 * 1024
"""Bytes of items that are encoded at once."""
_EMPTY: Final = b'"items":[]'


class Encode(NamedTuple):
    """How items are written.

    Attributes:
        shape: returns the item as the client gets it.
        write: returns its JSON.
        escape: completes the JSON of some items.
    """

    shape: Callable[[JsonObject], JsonObject]
    write: Callable[[JsonObject], bytes]
    escape: Callable[[bytes], bytes]


def _piece(rest: list[JsonObject], encode: Encode) -> bytes:
    """Encode the last items of `rest`, and remove them, until the piece is large enough."""
    parts: list[bytes] = []
    size = 0
    shape, write, _ = encode
    while rest and size < _PIECE:
        part = write(shape(rest.pop()))
        parts.append(part)
        size += len(part)
    return encode.escape(b",".join(parts))


async def _pieces(empty: bytes, items: Sequence[JsonObject], encode: Encode) -> AsyncGenerator[bytes, None]:
    """Yield the parts of the list. An item is released when its part is sent."""
    head, _, tail = empty.partition(_EMPTY)
    rest = list(reversed(items))
    prefix, size = head + _EMPTY[:-1], 0
    while rest:
        piece = await compute(size, _piece, rest, encode)
        size = len(piece)
        yield prefix + piece
        prefix = b","
    yield (b"]" if items else prefix + b"]") + tail


async def list_body(empty: bytes, items: Sequence[JsonObject], encode: Encode, call: Call) -> HttpResponse:
    """Return the response with a list.

    Args:
        empty: the JSON of the list without items.
        items: the stored objects.
        encode: how items are written. It may run in a thread.
        call: the request; a large list counts for its user until the client has read it.
    """
    pieces = _pieces(empty, items, encode)
    begun: list[bytes] = []
    size = 0
    async for piece in pieces:
        begun.append(piece)
        size += len(piece)
        if size > WHOLE_BYTES:
            return StreamResponse(chunks=until_stalled(_joined(begun, pieces), call.http.cut, call.user.name))
    return HttpResponse(body=b"".join(begun))


async def _joined(begun: list[bytes], rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    begun.reverse()
    while begun:
        yield begun.pop()
    async for piece in rest:
        yield piece


def in_parts(call: Call, response: HttpResponse) -> HttpResponse:
    """Return a response whose large body counts for the user until the client has read it."""
    body = response.body
    if len(body) <= WHOLE_BYTES:
        return response
    length = ("content-length", str(len(body)))
    chunks = until_stalled(_one(body), call.http.cut, call.user.name)
    return StreamResponse(response.status, [*response.headers, length], chunks=chunks)


async def _one(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
