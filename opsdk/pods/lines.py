"""Splits the bytes of a log into lines. Pure, and independent of how the network splits the bytes."""

from __future__ import annotations

from collections.abc import Iterator

from opsdk.errors import ResponseLimitError


class LineSplitter:
    r"""Splits a stream at newlines. Empty lines are lines.

    >>> splitter = LineSplitter(10)
    >>> list(splitter.feed(b"a\n\nb")), list(splitter.finish())
    ([b'a', b''], [b'b'])

    Args:
        max_bytes: of a line, without its newline.
    """

    __slots__ = ("_max_bytes", "_size", "_tail")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # Chunks, not one buffer: each byte of a long line is copied once.
        self._tail: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes, without newlines. Raises `ResponseLimitError` for a line too long."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._keep(line)
            yield self._take()
        self._keep(rest)

    def finish(self) -> Iterator[bytes]:
        """Yield the line behind the last newline, unless it is empty."""
        if self._size:
            yield self._take()

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max_bytes:
            self._tail.clear()
            raise ResponseLimitError(
                f"a line of the log has more than {self._max_bytes} bytes: pass a larger max_line_bytes"
            )
        if piece:
            self._tail.append(piece)

    def _take(self) -> bytes:
        line = self._tail[0] if len(self._tail) == 1 else b"".join(self._tail)
        self._tail.clear()
        self._size = 0
        return line

    def __repr__(self) -> str:
        return f"<LineSplitter: {self._size} bytes of an incomplete line>"
