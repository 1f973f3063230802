"""Large lists as protobuf: the length of the items comes before them, and a client that does not read holds little.

The items are encoded once and kept while they fit in the user's budget of unread bytes. What does not fit is only
measured, and encoded again when the client reads it: that takes twice the time, 4 us for each KB.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/collections.go (v1.36).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from opsdk.aio.large_work import LARGE_BYTES, compute
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.list_stream import PIECE_BYTES, WHOLE_BYTES
from opsdk.apiserver.endpoints.stall import UNREAD, HeldPart, until_stalled
from opsdk.apiserver.serializer.protobuf import envelope
from opsdk.apiserver.serializer.protobuf_writer import envelope_around
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.structured_merge.value import JsonObject

KEPT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of encoded items that one list keeps. The budget of a user has room for eight such lists."""
_FIRST_ITEMS: Final = 16
"""Items of the first piece; the size of each piece decides about the next one."""


class _Pieces:
    """The encoded items of one list, in pieces of about `PIECE_BYTES`. Pieces that are not kept are encoded again.

    Attributes:
        total: bytes of all pieces.
    """

    def __init__(self, user: str, items: Sequence[JsonObject], write: Callable[[Sequence[JsonObject]], bytes]) -> None:
        self.total = 0
        self._user = user
        self._items = items
        self._write = write
        self._counts: deque[int] = deque()
        self._kept: deque[bytes] = deque()
        self._held: deque[HeldPart] = deque()
        self._kept_bytes = 0

    async def measure(self, size: int) -> None:
        """Encode all items once. `size` is about the JSON bytes of the first piece."""
        start, count = 0, _FIRST_ITEMS
        while start < len(self._items):
            piece = await compute(size, self._write, self._items[start : start + count])
            self._counts.append(count)
            self._keep(piece)
            start, size = start + count, LARGE_BYTES + 1
            count = max(1, min(count * 2, count * PIECE_BYTES // max(len(piece), 1)))
        if len(self._kept) == len(self._counts):
            self._items = ()

    def _keep(self, piece: bytes) -> None:
        self.total += len(piece)
        fits = self._kept_bytes + len(piece) <= KEPT_BYTES and not UNREAD.is_full(self._user)
        if fits and len(self._kept) == len(self._counts) - 1:  # only the last pieces are not kept
            self._kept_bytes += len(piece)
            self._kept.append(piece)
            self._held.append(UNREAD.hold(self._user, piece))

    def whole(self) -> bytes:
        """Return all pieces of a small list, which are not held any more."""
        self.release()
        return b"".join(self._kept)

    def release(self) -> None:
        """Hold nothing more in the user's budget."""
        while self._held:
            UNREAD.release(self._held.popleft())

    @property
    def is_small(self) -> bool:
        """Whether the list is small enough for a whole body."""
        return self.total <= WHOLE_BYTES and len(self._kept) == len(self._counts)

    async def read(self) -> AsyncGenerator[bytes, None]:
        """Yield the pieces in order. Raises `RuntimeError` if they are no longer as long as they were."""
        start = sent = 0
        while self._counts:
            count = self._counts.popleft()
            if self._kept:
                piece = self._kept.popleft()
                yield piece
                UNREAD.release(self._held.popleft())
            else:
                piece = await compute(LARGE_BYTES + 1, self._write, self._items[start : start + count])
                yield piece
            start += count
            sent += len(piece)
        if sent != self.total:
            raise RuntimeError(f"a list of {self.total} bytes had {sent} when it was encoded again")


async def protobuf_list(
    call: Call, empty: JsonObject, items: Sequence[JsonObject], read: Callable[[JsonObject], JsonObject], *, size: int
) -> HttpResponse:
    """Return the response with a list of stored objects: a body, or a stream if it is large.

    Args:
        call: the request, which has the encoder.
        empty: the list without items. They are its last field in protobuf.
        items: the stored objects.
        read: makes the item of a stored object.
        size: about the bytes of the items.
    """
    encode = call.protobuf
    assert encode is not None, "the request has been negotiated without protobuf"
    begin = envelope(encode(empty)).raw

    def write(some: Sequence[JsonObject]) -> bytes:
        return envelope(encode({**empty, "items": list(map(read, some))})).raw[len(begin) :]

    pieces = _Pieces(call.user.name, items, write)
    try:
        await pieces.measure(size)
    except BaseException:
        pieces.release()
        raise
    head, tail = envelope_around(empty["apiVersion"], empty["kind"], len(begin) + pieces.total)
    if pieces.is_small:
        return HttpResponse(body=head + begin + pieces.whole() + tail)

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield head + begin
        async for piece in pieces.read():
            yield piece
        yield tail

    return StreamResponse(chunks=until_stalled(chunks(), call.http.cut, call.user.name), release=pieces.release)
