"""Splits watch streams into frames. Pure, and independent of how the network splits the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import msgspec

from opsdk.base.limits import LIMITS
from opsdk.errors import ApiError, ConnectionLostError, DecodeError, RequestInfo, api_error_from_status
from opsdk.structured_merge.value import JSON_ERRORS


class FrameSplitter:
    r"""Splits a stream at newlines. Empty lines are skipped. A frame has at most `Limits.watch_object_bytes`.

    >>> splitter = FrameSplitter()
    >>> splitter.feed(b'{"a":1}\n{"b"')
    [b'{"a":1}']
    >>> splitter.feed(b':2}\n'), splitter.rest()
    ([b'{"b":2}'], b'')
    """

    __slots__ = ("_tail", "_tail_bytes")

    def __init__(self) -> None:
        # Chunks, not one buffer: a large object arrives in many chunks, and each byte is copied once.
        self._tail: list[bytes] = []
        self._tail_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes, without newlines. Raises `DecodeError` for a frame too long."""
        # Not `bytes.split`, which looks at each byte: `find` takes a tenth of the time.
        frames: list[bytes] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = data[start:end]
            start = end + 1
            if self._tail:
                line = b"".join((*self._tail, line))
                self._tail.clear()
                self._tail_bytes = 0
            if frame := line.strip():
                frames.append(frame)
        self._keep(data[start:])
        return frames

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._tail.append(piece)
            self._tail_bytes += len(piece)
            if self._tail_bytes > LIMITS.watch_object_bytes:
                self._tail.clear()
                raise DecodeError(f"a watch event without an end after {self._tail_bytes} bytes")

    def rest(self) -> bytes:
        """Return the bytes after the last newline. Bytes at the end of a stream mean that it was cut off."""
        return b"".join(self._tail).strip()

    def __repr__(self) -> str:
        return f"<FrameSplitter: {self._tail_bytes} bytes of an incomplete frame>"


class WatchFrame(msgspec.Struct, frozen=True):
    """One watch event whose object is still encoded.

    Attributes:
        type: ``ADDED``, ``MODIFIED``, ``DELETED``, ``BOOKMARK`` or ``ERROR``.
        object: ``bytes(frame.object)`` returns the JSON.
    """

    type: str
    object: msgspec.Raw


_DECODER = msgspec.json.Decoder(WatchFrame)
# Bytes of an unreadable frame to quote in messages.
_QUOTED = 80


def parse_frame(frame: bytes) -> WatchFrame:
    """Decode the type of one frame, and leave its object encoded. Raises `DecodeError`.

    >>> parse_frame(b'{"type":"ADDED","object":{"kind":"Pod"}}').type
    'ADDED'
    """
    try:
        return _DECODER.decode(frame)
    except JSON_ERRORS as error:
        raise DecodeError(f"not a watch event ({error}): {frame[:_QUOTED]!r}") from error


F = TypeVar("F")


class WatchDecoder(Generic[F]):
    """Decodes the chunks of a watch stream into frames.

    Args:
        watched: the kind, for the error message.
        parse: decodes one frame, as `parse_frame` does. Raises `DecodeError`.
    """

    def __init__(self, watched: object, parse: Callable[[bytes], F]) -> None:
        self._watched = watched
        self._parse = parse
        self._splitter = FrameSplitter()

    def feed(self, data: bytes) -> Iterator[F]:
        """Iterate over the frames that `data` completes. Raises `DecodeError`."""
        return map(self._parse, self._splitter.feed(data))

    def finish(self) -> None:
        """End of the stream. Raises `ConnectionLostError` if it ended inside a frame."""
        if self._splitter.rest():
            raise ConnectionLostError(f"the watch of {self._watched} was cut off inside an event")

    def __repr__(self) -> str:
        return f"<WatchDecoder of {self._watched}: {self._splitter!r}>"


def error_from_event(data: bytes, request: RequestInfo | None = None) -> ApiError:
    """Return the typed error of an ERROR event, whose object is a ``Status``. `request` is the watch."""
    try:
        status = msgspec.json.decode(data, type=dict)
    except JSON_ERRORS:
        status = {"message": f"the watch failed with an unreadable error: {data[:_QUOTED]!r}"}
    return api_error_from_status(status, code=500, request=request)
