"""Large lists as protobuf: the length of the items comes before them, and a client that does not read holds little.

The items are encoded once, and kept if they fit in the user's budget of unread bytes. Those of other lists are only
measured, and encoded again when the client reads them: encoding takes 0.1 ms for each KB.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/collections.go (v1.36).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from typing import Final

from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.list_stream import Encode, ListText, data_of, list_parts
from opsdk.apiserver.endpoints.shared_frames import EncodedEvent
from opsdk.apiserver.serializer.protobuf import envelope
from opsdk.apiserver.serializer.protobuf_writer import envelope_around
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.http.server.unread import UNREAD, WHOLE_BYTES, HeldPart
from opsdk.structured_merge.value import JsonObject

KEPT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of encoded items that one list keeps. The budget of a user has room for eight such lists."""


class _Items:
    """The encoded items of one list.

    Attributes:
        total: their bytes.
    """

    def __init__(self, user: str, items: Sequence[JsonObject], encode: Encode) -> None:
        self.total = 0
        self._user = user
        self._items = items
        self._encode = encode
        self._kept: deque[bytes | EncodedEvent] | None = deque()
        self._held: deque[HeldPart] = deque()

    async def measure(self) -> None:
        """Encode all items, and keep them if they fit."""
        async for part in list_parts(_NOTHING_AROUND, self._items, self._encode):
            data = data_of(part)
            self.total += len(data)
            if self._kept is None:
                continue
            if self.total > KEPT_BYTES or UNREAD.is_full(self._user):
                self.release()
                continue
            self._kept.append(part)
            self._held.append(UNREAD.hold(self._user, data))
        if self._kept is not None:
            self._items = ()

    def release(self) -> None:
        """Keep nothing more."""
        self._kept = None
        while self._held:
            UNREAD.release(self._held.popleft())

    async def read(self) -> AsyncGenerator[bytes, None]:
        """Yield the parts in order. Raises `RuntimeError` if they are no longer as long as they were."""
        while self._kept:
            yield data_of(self._kept.popleft())
            UNREAD.release(self._held.popleft())
        if self._kept is not None:
            return
        sent = 0
        async for part in list_parts(_NOTHING_AROUND, self._items, self._encode):
            yield data_of(part)
            sent += len(data_of(part))
        if sent != self.total:
            raise RuntimeError(f"a list of {self.total} bytes had {sent} when it was encoded again")


_NOTHING_AROUND: Final = ListText(b"", b"", b"")


async def protobuf_list(
    call: Call,
    empty: JsonObject,
    items: Sequence[JsonObject],
    read: Callable[[JsonObject], JsonObject],
    *,
    form: Hashable,
    is_slow: bool,
) -> HttpResponse:
    """Return the response with a list of stored objects: a body, or a stream if it is large.

    Args:
        call: the request, which has the encoder.
        empty: the list without items. They are its last field in protobuf.
        items: the stored objects.
        read: makes the item of a stored object.
        form: see `Encode`.
        is_slow: see `Encode`.
    """
    write = call.protobuf
    assert write is not None, "the request has been negotiated without protobuf"
    begin = envelope(write(empty)).raw

    def write_item(obj: JsonObject) -> bytes:
        return envelope(write({**empty, "items": [read(obj)]})).raw[len(begin) :]

    encoded = _Items(call.user.name, items, Encode(write_item, lambda raw: raw, form, is_slow))
    try:
        await encoded.measure()
    except BaseException:
        encoded.release()
        raise
    head, tail = envelope_around(empty["apiVersion"], empty["kind"], len(begin) + encoded.total)

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield head + begin
        async for part in encoded.read():
            yield part
        yield tail

    if encoded.total > WHOLE_BYTES:
        return StreamResponse(chunks=chunks(), release=encoded.release)
    try:
        return HttpResponse(body=b"".join([chunk async for chunk in chunks()]))
    finally:
        encoded.release()
