"""SPDY/3.1 frames, which old exec clients and all port-forward clients use. Pure.

Flow-control windows and priorities are not implemented, as in Kubernetes' clients.

Upstream: github.com/moby/spdystream/spdy.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from enum import IntEnum

import msgspec

from opsdk.errors import BadRequestError

_VERSION = 3
_HEAD = struct.Struct(">II")
_WORD = struct.Struct(">I")
_CONTROL = 0x8000_0000
_FIN = 1
_MOST = 1 << 20
"""Largest frame in bytes; clients send frames of about 32 KiB."""
_MOST_HEADERS = 64 << 10

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset="
    "iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(_WORD.pack(len(word)) + word.encode() for word in (*_WORDS.split(), *_MORE_WORDS)) + _REST.encode()
)
"""The initial dictionary of header compression, from the SPDY specification."""


class FrameType(IntEnum):
    """The types of control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class SynStream(msgspec.Struct, frozen=True, kw_only=True):
    """SYN_STREAM: the client opens a stream; names of `headers` are in lower case."""

    stream: int
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    ends: bool = False


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """A data frame; `ends` is FLAG_FIN."""

    stream: int
    data: bytes = b""
    ends: bool = False


class RstStream(msgspec.Struct, frozen=True, kw_only=True):
    """RST_STREAM: the client aborts a stream."""

    stream: int


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    """PING: the server returns it unchanged."""

    number: int


class GoAway(msgspec.Struct, frozen=True, kw_only=True):
    """GOAWAY: the client opens no more streams."""


Event = SynStream | Data | RstStream | Ping | GoAway


class SpdyReader:
    """Decodes a byte stream into events."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Event]:
        """Add bytes; return the complete events.

        Raises:
            BadRequestError: the bytes are not SPDY/3.1, or a frame is too large. The reader is unusable then.
        """
        self._kept += data
        while len(self._kept) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._kept)
            flags, size = second >> 24, second & 0xFF_FFFF
            if size > _MOST:
                raise BadRequestError(f"a frame of {size} bytes is too long")
            if len(self._kept) < _HEAD.size + size:
                return
            body = bytes(self._kept[_HEAD.size : _HEAD.size + size])
            del self._kept[: _HEAD.size + size]
            if not first & _CONTROL:
                yield Data(stream=first, data=body, ends=bool(flags & _FIN))
            elif (event := self._control(first, flags, body)) is not None:
                yield event

    def _control(self, first: int, flags: int, body: bytes) -> Event | None:
        """Return the event of a control frame, or None. Raises `BadRequestError`."""
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise BadRequestError(f"version {version} of SPDY is not spoken here")
        ends = bool(flags & _FIN)
        try:
            match kind:
                case FrameType.SYN_STREAM:
                    return SynStream(stream=_number(body), headers=self._headers(body[10:]), ends=ends)
                case FrameType.HEADERS:
                    self._headers(body[4:])  # the compression state depends on all previous headers
                    return Data(stream=_number(body), ends=True) if ends else None
                case FrameType.RST_STREAM:
                    return RstStream(stream=_number(body))
                case FrameType.PING:
                    return Ping(number=_WORD.unpack_from(body)[0])
                case FrameType.GOAWAY:
                    return GoAway()
                case _:
                    return None
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise BadRequestError(f"no frame of SPDY: {error}") from error

    def _headers(self, block: bytes) -> dict[str, str]:
        """Return a header block, decompressed within its limit."""
        plain = self._unpack.decompress(block, _MOST_HEADERS)
        if self._unpack.unconsumed_tail:
            raise BadRequestError(f"headers of more than {_MOST_HEADERS} bytes are too long")
        if self._unpack.eof:
            raise BadRequestError("the compressed headers of the connection end with a frame")
        texts: list[str] = []
        (count,) = _WORD.unpack_from(plain)
        offset = _WORD.size
        for _ in range(2 * count):
            (size,) = _WORD.unpack_from(plain, offset)
            offset += _WORD.size + size
            if offset > len(plain):
                raise struct.error(f"a text of {size} bytes is cut short")
            texts.append(plain[offset - size : offset].decode())
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}


def _number(body: bytes) -> int:
    number: int = _WORD.unpack_from(body)[0]
    return number & ~_CONTROL


class SpdyWriter:
    """Encodes the frames of one connection, in order."""

    def __init__(self) -> None:
        self._pack = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, headers: Mapping[str, str], *, ends: bool = False) -> bytes:
        """Return a SYN_STREAM frame, as clients send."""
        return _control(FrameType.SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self._block(headers), ends=ends)

    def reply(self, stream: int) -> bytes:
        """Return a SYN_REPLY frame, which accepts a stream."""
        return _control(FrameType.SYN_REPLY, _WORD.pack(stream) + self._block({}))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        texts = [text.encode() for pair in headers.items() for text in pair]
        plain = _WORD.pack(len(headers)) + b"".join(_WORD.pack(len(text)) + text for text in texts)
        return self._pack.compress(plain) + self._pack.flush(zlib.Z_SYNC_FLUSH)


def carry(stream: int, data: bytes = b"", *, ends: bool = False) -> bytes:
    """Return data frames of at most 32 KiB; `ends` sets FLAG_FIN."""
    step = 32 << 10
    pieces = [data[offset : offset + step] for offset in range(0, len(data), step)] or [b""]
    frames = [_HEAD.pack(stream, len(piece)) + piece for piece in pieces[:-1]]
    last = pieces[-1]
    return b"".join(frames) + _HEAD.pack(stream, (_FIN if ends else 0) << 24 | len(last)) + last


def refuse(stream: int) -> bytes:
    """Return a RST_STREAM frame, which refuses a stream."""
    return _control(FrameType.RST_STREAM, struct.pack(">II", stream, 3))


def pong(number: int) -> bytes:
    """Return the reply to a ping."""
    return _control(FrameType.PING, _WORD.pack(number))


def leave(last: int) -> bytes:
    """Return a GOAWAY frame; `last` is the last accepted stream."""
    return _control(FrameType.GOAWAY, struct.pack(">II", last, 0))


def _control(kind: FrameType, body: bytes, *, ends: bool = False) -> bytes:
    flags = _FIN if ends else 0
    return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, flags << 24 | len(body)) + body
