"""Decompression of response bodies, chunk by chunk."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Protocol


class Decoder(Protocol):
    """Decodes the body of a response."""

    def feed(self, data: bytes) -> bytes:
        """Return the decoded bytes of `data`; possibly none yet."""
        ...

    def finish(self) -> None:
        """End of the body. Raises ``zlib.error`` if the data is incomplete."""
        ...


class IdentityDecoder:
    """A decoder for bodies without compression."""

    def feed(self, data: bytes) -> bytes:
        """Return `data`."""
        return data

    def finish(self) -> None:
        """Do nothing."""


_IDENTITY = IdentityDecoder()


class Gunzip:
    """A decoder for gzip with one or more members."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._started = False

    def feed(self, data: bytes) -> bytes:
        """Return the decoded bytes. Raises ``zlib.error`` if the data is not gzip."""
        pieces = []
        self._started = self._started or bool(data)
        while data:
            pieces.append(self._inflate.decompress(data))
            data = self._inflate.unused_data
            if data:
                self._inflate = zlib.decompressobj(wbits=31)
        return b"".join(pieces)

    def finish(self) -> None:
        """See `Decoder`. An empty body is valid."""
        if self._started and not self._inflate.eof:
            raise zlib.error("unexpected end of the gzip data")


def decoder_for(headers: Mapping[str, str]) -> Decoder:
    """Return the decoder for the ``Content-Encoding`` of a response."""
    encoding = headers.get("content-encoding")
    return Gunzip() if encoding and encoding.strip().lower() in {"gzip", "x-gzip"} else _IDENTITY
