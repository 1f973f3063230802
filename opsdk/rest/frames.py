"""Watch bytes to frames: pure, and the same for every way the network cuts the bytes."""

from __future__ import annotations

import msgspec

from opsdk.errors import DecodeError


class FrameSplitter:
    r"""Splits a stream at newlines. A frame may be of any length; empty lines are skipped.

    >>> splitter = FrameSplitter()
    >>> splitter.feed(b'{"a":1}\n{"b"')
    [b'{"a":1}']
    >>> splitter.feed(b':2}\n'), splitter.rest()
    ([b'{"b":2}'], b'')
    """

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        # Pieces, not one buffer: a large object arrives in many chunks, and each byte is to be copied once.
        self._tail: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes, without their newlines."""
        lines = data.split(b"\n")
        if len(lines) == 1:
            self._keep(data)
            return []
        if self._tail:
            lines[0] = b"".join((*self._tail, lines[0]))
            self._tail.clear()
        self._keep(lines.pop())
        return [frame for line in lines if (frame := line.strip())]

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._tail.append(piece)

    def rest(self) -> bytes:
        """The bytes after the last newline; not empty at the end of a stream means it was cut."""
        return b"".join(self._tail).strip()

    def __repr__(self) -> str:
        return f"<FrameSplitter: {sum(map(len, self._tail))} bytes of an incomplete frame>"


class WatchFrame(msgspec.Struct, frozen=True):
    """One watch event whose object is still encoded.

    `type` is ``ADDED``, ``MODIFIED``, ``DELETED``, ``BOOKMARK`` or ``ERROR``; `object` converts to bytes with
    ``bytes(frame.object)``.
    """

    type: str
    object: msgspec.Raw


_DECODER = msgspec.json.Decoder(WatchFrame)
_SHOWN = 80


def parse_frame(frame: bytes) -> WatchFrame:
    """Read the type of one frame, and leave its object encoded; `DecodeError` shows how unreadable bytes start.

    >>> parse_frame(b'{"type":"ADDED","object":{"kind":"Pod"}}').type
    'ADDED'
    """
    try:
        return _DECODER.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"no watch event ({error}): {frame[:_SHOWN]!r}") from error
