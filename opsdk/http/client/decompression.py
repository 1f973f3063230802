"""Decompression of response bodies, chunk by chunk."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Protocol

from opsdk.base.limits import LIMITS


class Decoder(Protocol):
    """Decodes the body of a response."""

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Return the decoded bytes of `data` in slices; possibly none yet. Read all of them before the next call."""
        ...

    def finish(self) -> None:
        """End of the body. Raises ``zlib.error`` if the data is incomplete."""
        ...


class IdentityDecoder:
    """A decoder for bodies without compression."""

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Return `data`."""
        return (data,)

    def finish(self) -> None:
        """Do nothing."""


_IDENTITY = IdentityDecoder()


class Gunzip:
    """A decoder for gzip with one or more members. It refuses data that expands as no API object does."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._compressed = self._expanded = 0

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Iterate over the decoded bytes. Raises ``zlib.error`` if the data is not gzip, or expands too much."""
        self._compressed += len(data)
        piece = b""
        # A full slice may have more behind it, although all of the input is consumed.
        while data or len(piece) == LIMITS.inflated_slice_bytes:
            if self._inflate.eof:
                self._inflate = zlib.decompressobj(wbits=31)
            piece = self._inflate.decompress(data, LIMITS.inflated_slice_bytes)
            self._expanded += len(piece)
            if self._expanded > max(LIMITS.inflated_bytes, LIMITS.inflated_ratio * self._compressed):
                raise zlib.error(f"{self._compressed} bytes expand to more than {self._expanded}")
            if piece:
                yield piece
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            if self._inflate.eof and not data:
                return

    def finish(self) -> None:
        """See `Decoder`. An empty body is valid."""
        if self._compressed and not self._inflate.eof:
            raise zlib.error("unexpected end of the gzip data")


def decoder_for(headers: Mapping[str, str]) -> Decoder:
    """Return the decoder for the ``Content-Encoding`` of a response."""
    encoding = headers.get("content-encoding")
    return Gunzip() if encoding and encoding.strip().lower() in {"gzip", "x-gzip"} else _IDENTITY
