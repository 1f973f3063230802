"""What a hostile server can cost a client: heads, interim responses, compressed data and watch frames are bounded."""

from __future__ import annotations

import gzip
import zlib
from collections import deque
from itertools import repeat

import httptools
import pytest

from opsdk.base.limits import LIMITS
from opsdk.errors import DecodeError
from opsdk.http.client.decompression import Gunzip
from opsdk.http.client.parser import ResponseParser
from opsdk.http.client.request import merge_headers
from opsdk.rest.frames import FrameSplitter

PIECE = 65536


def parser() -> ResponseParser:
    """Return a parser that waits for a response."""
    response = ResponseParser()
    response.begin("GET")
    return response


@pytest.mark.parametrize(
    ("begin", "unit"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: value\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y" * PIECE),
        (b"HTTP/1.1 200 ", b"y" * PIECE),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: value\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"y" * PIECE),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"y" * PIECE),
    ],
    ids=["headers", "a header", "a phrase", "trailers", "a trailer", "a chunk extension"],
)
def test_heads_and_trailers_are_bounded(begin: bytes, unit: bytes) -> None:
    """Go's client takes 10 MiB."""
    response = parser()
    response.feed(begin)
    piece = unit * (PIECE // len(unit))
    with pytest.raises(httptools.HttpParserError):
        deque(map(response.feed, repeat(piece, 2 * LIMITS.response_head_bytes // PIECE)))


def test_repeated_headers_are_joined_once() -> None:
    """In the order of their lines."""
    response = parser()
    response.feed(b"HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nA: 3\r\na: 4\r\nContent-Length: 0\r\n\r\n")
    assert response.headers == {"a": "1, 3, 4", "b": "2", "content-length": "0"}


def test_five_interim_responses_are_skipped_and_a_sixth_is_an_error() -> None:
    """As in Go's client; the next request begins to count again."""
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    response = parser()
    for _ in range(2):
        response.feed(interim * 5 + final)
        assert response.status == 200
        response.begin("GET")
    with pytest.raises(httptools.HttpParserError):
        response.feed(interim * 6)


# ------------------------------------------------------------------ compressed data
@pytest.mark.slow
def test_a_bomb_is_refused_in_slices() -> None:
    """No slice is larger than a megabyte, and the end comes long before the gigabyte."""
    compressor = zlib.compressobj(wbits=31)
    bomb = b"".join(compressor.compress(bytes(1 << 20)) for _ in range(256)) + compressor.flush()
    sizes: list[int] = []
    with pytest.raises(zlib.error, match="expand"):
        sizes.extend(map(len, Gunzip().feed(bomb)))
    assert max(sizes) <= LIMITS.inflated_slice_bytes
    assert sum(sizes) <= LIMITS.inflated_bytes + LIMITS.inflated_slice_bytes


@pytest.mark.parametrize("size", [0, 1, LIMITS.inflated_slice_bytes, 3 * LIMITS.inflated_slice_bytes + 5])
@pytest.mark.parametrize("cut", [1, 1000, 1 << 30])
def test_slices_are_the_data(size: int, cut: int) -> None:
    """However the compressed bytes arrive, in one member or two."""
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    packed = gzip.compress(data) + gzip.compress(b"end")
    decoder = Gunzip()
    pieces = [
        piece for position in range(0, len(packed), cut) for piece in decoder.feed(packed[position : position + cut])
    ]
    decoder.finish()
    assert b"".join(pieces) == data + b"end"


def test_a_body_that_is_cut_is_an_error() -> None:
    """A response that ends at any byte of its body is an error."""
    packed = gzip.compress(b"data" * 100)
    decoder = Gunzip()
    list(decoder.feed(packed[:-1]))
    with pytest.raises(zlib.error):
        decoder.finish()


# ------------------------------------------------------------------ watches
def test_a_frame_without_end_is_an_error() -> None:
    """A watch is bounded by one object; the reflector then lists again."""
    splitter = FrameSplitter()
    with pytest.raises(DecodeError, match="without an end"):
        deque(map(splitter.feed, repeat(b"x" * PIECE, 2 * LIMITS.watch_object_bytes // PIECE)))
    assert splitter.rest() == b""


def test_headers_are_shown_without_values() -> None:
    """Tracebacks with locals and debuggers show them."""
    headers = merge_headers((("Host", "a"),), (("Authorization", "Bearer s3cret"),), ())
    assert "s3cret" not in repr(headers)
