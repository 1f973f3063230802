"""Undoing gzip, piece by piece."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Protocol


class Decoder(Protocol):
    """Turns the bytes of the wire into those of the answer."""

    def feed(self, data: bytes) -> bytes:
        """What `data` decodes to, perhaps nothing yet."""
        ...

    def finish(self) -> None:
        """No more bytes come; ``zlib.error`` where some are missing."""
        ...


class IdentityDecoder:
    """Nothing to undo."""

    def feed(self, data: bytes) -> bytes:
        """`data` itself."""
        return data

    def finish(self) -> None:
        """Nothing can be missing."""


class Gunzip:
    """gzip, perhaps of several members; every byte that can be decoded is handed out at once."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._started = False

    def feed(self, data: bytes) -> bytes:
        """Raises ``zlib.error`` where it is no gzip."""
        pieces = []
        self._started = self._started or bool(data)
        while data:
            pieces.append(self._inflate.decompress(data))
            data = self._inflate.unused_data
            if data:
                self._inflate = zlib.decompressobj(wbits=31)
        return b"".join(pieces)

    def finish(self) -> None:
        """See `Decoder`; no bytes at all are an empty answer."""
        if self._started and not self._inflate.eof:
            raise zlib.error("it ends before its end")


def decoder_for(headers: Mapping[str, str]) -> Decoder:
    """The decoder that the ``Content-Encoding`` of an answer asks for."""
    return Gunzip() if headers.get("content-encoding", "").strip().lower() in {"gzip", "x-gzip"} else IdentityDecoder()
