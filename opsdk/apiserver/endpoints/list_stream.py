"""Large lists: the items are encoded while the client reads, so a client that does not read holds no body.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json/collections.go (v1.36).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

from opsdk.aio.large_work import LARGE_BYTES, attempt_output, compute
from opsdk.apiserver.endpoints.shared_frames import FRAMES, EncodedEvent
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.http.server.unread import WHOLE_BYTES
from opsdk.structured_merge.value import JsonObject

PIECE_BYTES: Final = 64 * 1024
"""Bytes of items that are encoded at once."""


class ListText(NamedTuple):
    """The text around the items of a list, and between them."""

    head: bytes
    separator: bytes
    tail: bytes

    @classmethod
    def of_json(cls, empty: bytes, items: str) -> ListText:
        """Return the form of compact JSON; `empty` is the list without items, and `items` their key."""
        start, end = _around(empty, b'"%b":[]' % items.encode())
        return cls(b'%b"%b":[' % (start, items.encode()), b",", b"]" + end)

    @classmethod
    def of_indented_json(cls, empty: bytes, items: str) -> ListText:
        """Return the form of JSON with an indent of two blanks."""
        start, end = _around(empty, b'"%b": []' % items.encode())
        return cls(b'%b"%b": [\n    ' % (start, items.encode()), b",\n    ", b"\n  ]" + end)

    @classmethod
    def of_yaml(cls, empty: bytes, items: str) -> ListText:
        """Return the form of YAML. Each item is a sequence of one."""
        start, end = _around(empty, b"\n%b: []\n" % items.encode())
        return cls(b"%b\n%b:\n" % (start, items.encode()), b"", end)


def _around(empty: bytes, items: bytes) -> tuple[bytes, bytes]:
    start, marker, end = empty.partition(items)
    assert marker, "the list has no items"
    return start, end


class Encode(NamedTuple):
    """How items are written. It may run in a thread.

    Attributes:
        write: returns the text of an item, as its client gets it.
        escape: completes the text of some items.
        form: all that decides about the bytes of an item besides the item; None if an item may have other bytes later.
        is_slow: whether an item takes long, so that the first ones are written in the thread too.
        evaluates: whether `write` evaluates expressions of users, see `attempt_output`.
    """

    write: Callable[[JsonObject], bytes]
    escape: Callable[[bytes], bytes]
    form: Hashable = None
    is_slow: bool = False
    evaluates: bool = False


class _Piece(NamedTuple):
    """The text of the small items before a large one, and the large one; `encoded` items in all."""

    encoded: int
    text: bytes
    large: EncodedEvent | None = None


def _piece(rest: Sequence[JsonObject], encode: Encode, form: ListText, prefix: bytes) -> _Piece:
    """Encode the last items of `rest` until the piece is large enough."""
    parts: list[bytes] = []
    size = 0
    for tree in reversed(rest):
        frame = None if encode.form is None else FRAMES.find(tree, encode.form)
        part = encode.write(tree) if frame is None else frame.data
        size += len(part)
        if len(part) > LARGE_BYTES:
            text = encode.escape(form.separator.join(parts)) + (form.separator if parts else b"")
            return _Piece(len(parts) + 1, prefix + text, frame or EncodedEvent(tree, encode.escape(part)))
        parts.append(part)
        if size >= PIECE_BYTES:
            break
    return _Piece(len(parts), prefix + encode.escape(form.separator.join(parts)))


async def list_parts(
    form: ListText, items: Sequence[JsonObject], encode: Encode
) -> AsyncGenerator[bytes | EncodedEvent, None]:
    """Yield the parts of the list: text, and large items, which are shared. An item is released with its part."""
    rest = list(reversed(items))
    prefix, size = form.head, LARGE_BYTES + 1 if encode.is_slow else 0
    run = attempt_output if encode.evaluates else compute
    while rest:
        encoded, text, large = await run(size, _piece, rest, encode, form, prefix)
        del rest[-encoded:]
        size, prefix = len(text), form.separator
        if text:
            yield text
        if large is not None:
            size += len(large.data)
            if encode.form is not None:
                large = FRAMES.find(large.tree, encode.form) or FRAMES.add(large.tree, encode.form, large.data)
            del text
            yield large
    yield form.tail


def data_of(part: bytes | EncodedEvent) -> bytes:
    """Return the bytes of a part."""
    return part if isinstance(part, bytes) else part.data


async def list_body(form: ListText, items: Sequence[JsonObject], encode: Encode) -> HttpResponse:
    """Return the response with the stored objects of a list: a body, or a stream if it is large."""
    parts = list_parts(form, items, encode)
    begun: list[bytes | EncodedEvent] = []
    size = 0
    async for part in parts:
        begun.append(part)
        size += len(data_of(part))
        if size > WHOLE_BYTES:
            return StreamResponse(chunks=_joined(begun, parts))
    return HttpResponse(body=b"".join(map(data_of, begun)))


async def _joined(
    begun: list[bytes | EncodedEvent], rest: AsyncGenerator[bytes | EncodedEvent, None]
) -> AsyncGenerator[bytes, None]:
    begun.reverse()
    async with aclosing(rest):
        while begun:
            yield data_of(begun.pop())
        async for part in rest:
            yield data_of(part)
