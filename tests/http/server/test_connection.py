"""HTTP/1.1 over real sockets: odd requests, odd clients, and what Go's server answers to them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from envtest.plane.certificates import Authority
from opsdk.errors import TooLargeError
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, StreamResponse, text_response
from opsdk.http.server.server import ServeOptions, Tls, WebServer

pytestmark = pytest.mark.realtime
PLAIN = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"


def last(line: str, text: str = "") -> bytes:
    """An answer of the connection itself, after which it ends."""
    return f"HTTP/1.1 {line}\r\n{PLAIN}{text or line}".encode()


BAD = last("400 Bad Request")


async def handler(request: HttpRequest) -> HttpResponse:
    """Echoes, ignores, refuses, streams."""
    match request.path:
        case "/echo":
            return text_response(f"{request.method} {len(await request.body(1 << 22))}")
        case "/small":
            try:
                await request.body(1000)
            except TooLargeError:
                return text_response("too large", status=413)
            return text_response("fits")
        case "/stream":
            return StreamResponse(chunks=_counting())
        case "/fail":
            raise ValueError("a bug")
        case "/slow":
            await asyncio.sleep(0.3)
            return text_response("slow")
        case _:
            return text_response(f"{request.method} {request.path}?{request.query.raw}")


async def _counting() -> AsyncGenerator[bytes, None]:
    for number in range(3):
        yield b"%d" % number


@asynccontextmanager
async def serving(options: ServeOptions | None = None) -> AsyncIterator[WebServer]:
    """A server that leaves neither tasks nor connections behind."""
    before = asyncio.all_tasks()
    async with WebServer(asgi(handler), options or ServeOptions(shutdown_timeout=0.2)) as server:
        yield server
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before


async def talk(server: WebServer, *parts: bytes, half_close: bool = False) -> bytes:
    """Say something, and hear everything until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0.005 if len(parts) > 1 else 0)
        if half_close:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


def bare(answer: bytes) -> tuple[bytes, bytes]:
    """Status line and body of one answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", last("400 Bad Request: missing required Host header")),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", last("400 Bad Request: malformed Host header")),
        (b'GET / HTTP/1.1\r\nHost: a"b\r\n\r\n', last("400 Bad Request: malformed Host header")),
        (b"GET /\r\n\r\n", BAD),
        (b"GET / HTTP/0.9\r\n\r\n", BAD),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", last("505 HTTP Version Not Supported: unsupported protocol version")),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", last("505 HTTP Version Not Supported: unsupported protocol version")),
        (b"GET / HTTPS/1.1\r\nHost: a\r\n\r\n", BAD),
        (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        (b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        (b"GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        (b"G\x00T / HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        (b"\x16\x03\x01\x02\x00\x01\x00", BAD),
        (b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\nHost: a\r\nA: \x01\r\n\r\n", BAD),
        (b"GET /a HTTP/1.1\r\nHost: a\r\nX: folded\r\n value\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\n\tX: a\r\nHost: a\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX(y): b\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX\xe9: b\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rY: b\r\n\r\n", BAD),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", BAD),
        (b"GET  /a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        (b"GET /a  HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        (b"GET\t/a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        (b" GET /a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
        (b"GET /a HTTP/1.1 \r\nHost: a\r\n\r\n", BAD),
        (b"GET /a HTTP/1.1\rHost: a\r\r", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /x", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\nabcd", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4 4\r\n\r\nabcd", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x4\r\n\r\nabcd", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\nabcd", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", BAD),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
            BAD,
        ),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            last("501 Not Implemented", "Unsupported transfer encoding"),
        ),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", BAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", BAD),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
            last("501 Not Implemented", "Unsupported transfer encoding"),
        ),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            last("501 Not Implemented", "Unsupported transfer encoding"),
        ),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            last("501 Not Implemented", "Unsupported transfer encoding"),
        ),
    ],
)  # fmt: skip
async def test_heads_that_are_refused(said: bytes, answer: bytes) -> None:
    """A malformed head gets the response of Go's server, and the connection closes."""
    async with serving() as server:
        assert await talk(server, said) == answer


_TWO_BLANKS = [
    b"GET /a  HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET  /a HTTP/1.1\r\nHost: a\r\n\r\n",
    b"BREW /a  HTTP/1.1\r\nHost: a\r\n\r\n",
]


@pytest.mark.parametrize("request_bytes", _TWO_BLANKS)
@pytest.mark.parametrize("before", [b"", b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n"], ids=["alone", "pipelined"])
async def test_repeated_blanks_are_refused_wherever_the_bytes_are_cut(request_bytes: bytes, before: bytes) -> None:
    """Repeated blanks in a request line are refused however the bytes are split, also after another request."""
    valid = before + b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    raw = before + request_bytes

    async def pieces(server: WebServer, *parts: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            writer.write(part)
            for _ in range(4):
                await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(reader.read(), 5)
        finally:
            writer.close()

    async with serving() as server:
        for cut in range(1, len(raw)):
            response = await pieces(server, raw[:cut], raw[cut:])
            assert response.endswith(BAD), (cut, response)
            assert response.count(b"HTTP/1.1 200") == bool(before), (cut, response)
        for cut in range(1, len(valid)):
            response = await pieces(server, valid[:cut], valid[cut:])
            assert response.endswith(b"GET /a?"), (cut, response)
        assert (await pieces(server, *(raw[cut : cut + 1] for cut in range(len(raw))))).endswith(BAD)


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (b"GET /a%20b?c=d HTTP/1.1\r\nHost: a\r\n", b"200 OK", b"GET /a b?c=d"),
        (b"GET http://elsewhere/x?y HTTP/1.1\r\nHost: a\r\n", b"200 OK", b"GET /x?y"),
        (b"BREW /pot HTTP/1.1\r\nHost: a\r\n", b"200 OK", b"BREW /pot?"),
        (b"get /low HTTP/1.1\r\nHost: a\r\n", b"200 OK", b"get /low?"),
        (b"GET * HTTP/1.1\r\nHost: a\r\n", b"200 OK", b"GET *?"),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n", b"200 OK", b""),
        (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n", b"200 OK", b"CONNECT ?"),
        (b"HEAD /x HTTP/1.1\r\nHost: a\r\n", b"200 OK", b""),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: nonsense\r\n", b"417 Expectation Failed", b""),
        (b"GET /a//b/../c HTTP/1.1\r\nHost: a\r\n", b"200 OK", b"GET /a//b/../c?"),
        (b"GET /a%2Fb%00%ff HTTP/1.1\r\nHost: a\r\n", b"200 OK", "GET /a/b\x00\ufffd?".encode()),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: h2c\r\n", b"200 OK", b"GET /?"),
    ],
)
async def test_valid_heads_get_a_response(said: bytes, status: bytes, body: bytes) -> None:
    """The application gets unusual but valid heads."""
    async with serving() as server:
        answer = await talk(server, said + b"Connection: close\r\n\r\n")
        assert bare(answer) == (b"HTTP/1.1 " + status, body)


async def test_an_http_1_0_client_gets_a_response_without_chunks() -> None:
    """HTTP/1.0 needs no Host, knows no chunks, and its connection ends unless it wants to keep it."""
    async with serving() as server:
        assert bare(await talk(server, b"GET /stream HTTP/1.0\r\n\r\n")) == (b"HTTP/1.0 200 OK", b"012")
        keep_alive_request = b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        twice = await talk(server, keep_alive_request, b"GET /b HTTP/1.0\r\n\r\n")
        assert (twice.count(b"HTTP/1.0 200 OK"), twice.count(b"connection: keep-alive")) == (2, 1)


async def test_a_head_that_is_too_large_gets_431() -> None:
    """A head above 1 MiB gets 431, with one header or many."""
    async with serving() as server:
        begin = b"GET / HTTP/1.1\r\nHost: a\r\n"
        too_large = last("431 Request Header Fields Too Large")
        assert await talk(server, begin + b"X: " + b"a" * (1 << 21)) == too_large
        assert await talk(server, begin + b"X: aaaaaaaaaaaaaa\r\n" * (1 << 17)) == too_large
        assert await talk(server, b"GET /" + b"a" * (1 << 21)) == too_large
        fits = await talk(server, begin + b"X: " + b"a" * (1 << 19) + b"\r\nConnection: close\r\n\r\n")
        assert fits.startswith(b"HTTP/1.1 200")


async def test_pipelined_requests_get_their_responses_in_order() -> None:
    """Pipelined requests get responses in order; an invalid request after valid ones gets its error in turn."""
    async with serving() as server:
        many = b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(500))
        heard = await talk(
            server, many + b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", b"nonsense\r\n\r\n"
        )
        assert [heard.find(b"GET /%d?" % n) for n in range(500)] == sorted(
            heard.find(b"GET /%d?" % n) for n in range(500)
        )
        assert heard.index(b"GET /499?") < heard.index(b"POST 2")
        assert heard.endswith(BAD)


async def test_pipelined_requests_behind_a_slow_response_are_not_read() -> None:
    """One request waits; further ones stay bytes, or in the buffers of the client."""
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 24)
        writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n" * 200_000)
        await asyncio.sleep(0.2)
        [connection] = server.service.connections
        assert repr(connection).endswith(": 2 requests>")
        assert b"slow" in await asyncio.wait_for(reader.readuntil(b"slow"), 5)
        writer.close()


async def test_100_continue_is_sent_when_the_body_is_read() -> None:
    """An application that does not read the body closes the connection."""
    async with serving() as server:
        head = b"Host: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /echo HTTP/1.1\r\n" + head + b"\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ab")
        assert b"200 OK" in await reader.readline()
        writer.close()
        ignored = await talk(server, b"POST /ignored HTTP/1.1\r\n" + head + b"\r\n")
        assert b"100 Continue" not in ignored
        assert b"connection: close" in ignored


async def test_a_small_unread_body_is_discarded() -> None:
    """The next request on the connection gets its response."""
    async with serving() as server:
        message = b"POST /ignored HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
        both = await talk(server, message, b"hello", b"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert both.count(b"200 OK") == 2


@pytest.mark.parametrize("coding", [b"Content-Length: 8388608", b"Transfer-Encoding: chunked"])
async def test_a_body_too_large_is_refused_and_the_response_arrives(coding: bytes) -> None:
    """A too large body gets its response while the client still sends, and then the connection closes."""
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /small HTTP/1.1\r\nHost: a\r\n" + coding + b"\r\n\r\n")
        chunk = b"x" * 65536
        try:
            for _ in range(128):
                writer.write(b"10000\r\n" + chunk + b"\r\n" if b"chunked" in coding else chunk)
                await writer.drain()
        except ConnectionError:
            pass
        assert b"413" in await asyncio.wait_for(reader.readline(), 5)
        writer.close()


CHUNKED = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_a_body_with_two_framings_ends_the_connection(version: bytes) -> None:
    """The chunks count, the length is not passed on, and the bytes behind are no further request."""
    head = b"POST /echo HTTP/%b\r\nHost: a\r\nConnection: keep-alive\r\n" % version
    body = b"Content-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    async with serving() as server:
        heard = await talk(server, head + body + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"POST 3" in heard
        assert b"smuggled" not in heard
        assert heard.count(b"HTTP/1.") == 1
        assert b"connection: close" in heard


@pytest.mark.parametrize(
    "unit", [b"X-%06d: y\r\n", b"X: " + b"y" * 70_000 + b"%06d\r\n"], ids=["many trailers", "long trailers"]
)
async def test_trailers_are_limited(unit: bytes) -> None:
    """Go takes 4 KiB. Nothing of a longer trailer is kept."""
    async with serving() as server:
        some = await talk(server, CHUNKED + b"Connection: close\r\n\r\n0\r\nX: y\r\n\r\n")
        assert b"POST 0" in some
        parts = [unit % number * (65536 // len(unit) + 1) for number in range(40)]
        heard = b""
        with suppress(ConnectionError):  # the server has closed the connection before the last part
            heard = await talk(server, CHUNKED + b"\r\n0\r\n", *parts)
        assert b"POST" not in heard


async def test_a_trailer_without_end_is_not_kept() -> None:
    """The connection closes after some 16 KiB."""
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(CHUNKED + b"\r\n0\r\nX: ")

        async def send_trailer() -> None:
            while True:
                writer.write(b"y" * 65536)
                await writer.drain()
                await asyncio.sleep(0)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send_trailer(), 10)
        del reader
        writer.close()


@pytest.mark.parametrize("extension", [b"1;" + b"x" * 30_000 + b"\r\na\r\n", b"1" + b";a=b" * 8000 + b"\r\na\r\n"])
async def test_chunk_extensions_are_limited(extension: bytes) -> None:
    """Bytes of a body that are not data are bounded."""
    async with serving() as server:
        assert b"POST" not in await talk(server, CHUNKED + b"\r\n", extension[:20_000], extension[20_000:] * 40)


async def test_the_number_of_headers_is_limited() -> None:
    """A head of 1 MiB with a header in each four bytes costs a second otherwise."""
    async with serving() as server:
        begin = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        assert b"200 OK" in await talk(server, begin + b"a:\r\n" * 1900 + b"\r\n")
        assert (await talk(server, begin + b"a:\r\n" * 2100 + b"\r\n")).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("size", [1_052_680, 1_200_000])
async def test_a_url_beyond_the_limit_of_a_head_gets_431(size: int) -> None:
    """A URL above the head limit gets 431, at once or in pieces."""
    async with serving() as server:
        request = b"GET /" + b"a" * size + b" HTTP/1.1\r\nHost: a\r\n\r\n"
        assert (await talk(server, request)).startswith(b"HTTP/1.1 431")
        assert (await talk(server, request[: size // 2], request[size // 2 :])).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("body", [b"zz\r\n", b"3\r\nabcd\r\n", b"fffffffffffffffffff\r\n"])
async def test_an_invalid_body_closes_the_connection(body: bytes) -> None:
    """Invalid chunks: reading the body fails, and no request follows."""
    async with serving() as server:
        answer = await talk(server, b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        assert b"200" not in answer


async def test_a_half_closed_client_gets_its_response() -> None:
    """Half-closed after a request: the response arrives; half-closed within one: 400."""
    async with serving() as server:
        whole = await talk(server, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n", half_close=True)
        assert bare(whole) == (b"HTTP/1.1 200 OK", b"slow")
        assert await talk(server, b"GET / HTTP/1.1\r\nHo", half_close=True) == BAD
        assert await talk(server, half_close=True) == b""


REQUEST = (
    b"POST /echo HTTP/1.1\r\nHost: a\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
)


async def test_a_request_cut_at_every_byte() -> None:
    """A complete request gets a response, any other gets an error or none; no task and no connection stay."""
    async with serving() as server:
        for cut in range(len(REQUEST) + 1):
            heard = await talk(server, REQUEST[:cut], half_close=True)
            assert heard == b"" or heard.startswith(b"HTTP/1.1 "), cut
            assert b" 500 " not in heard or heard.startswith(b"HTTP/1.1 500"), cut
            if cut == len(REQUEST):
                assert heard.count(b"HTTP/1.1 200 OK") == 2
        await asyncio.sleep(0.7)
        assert not server.service.connections
        assert not server.service.tasks


async def test_a_request_in_single_bytes_is_parsed() -> None:
    """A request that arrives in single bytes is parsed as one request."""
    async with serving() as server:
        heard = await talk(server, *(REQUEST[i : i + 1] for i in range(len(REQUEST))))
        assert heard.count(b"HTTP/1.1 200 OK") == 2


async def test_an_exception_of_the_application_is_a_500() -> None:
    """The response is a 500, and the connection closes."""
    async with serving() as server:
        answer = await talk(server, b"GET /fail HTTP/1.1\r\nHost: a\r\n\r\n")
        assert bare(answer) == (b"HTTP/1.1 500 Internal Server Error", b"Internal Server Error")


async def test_stopping_finishes_started_responses() -> None:
    """A started response is sent; new connections are refused at once."""
    async with serving(ServeOptions(shutdown_timeout=2)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(0.05)
        port = server.port
        stopping = asyncio.ensure_future(server.aclose())
        await asyncio.sleep(0.05)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
        heard = await reader.read()
        assert heard.endswith(b"slow")
        assert b"connection: close" in heard
        await stopping
        writer.close()


# ------------------------------------------------------------------ TLS
@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> ServeOptions:
    """Options with a certificate."""
    place = tmp_path_factory.mktemp("tls")
    cert, key = Authority.load_or_create(None).serving("127.0.0.1").write(place, "tls")
    return ServeOptions(tls=Tls(cert_file=cert, key_file=key), shutdown_timeout=0.2)


async def test_plain_http_on_a_tls_port_gets_an_error_response(secure: ServeOptions) -> None:
    """The response is that of Go's server."""
    expected = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
    async with serving(secure) as server:
        for message in (
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"POST /x HTTP/1.1\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\n\r\n",
        ):
            assert await talk(server, message) == expected


@pytest.mark.parametrize(
    "said", [b"", b"\x00" * 100, b"\x16\x03\x01\x00\x05hello", b"\x16", b"BREW / HTTP/1.1\r\n\r\n"]
)
async def test_invalid_tls_closes_the_connection(secure: ServeOptions, said: bytes) -> None:
    """Invalid TLS closes its connection, and the next client is served."""
    async with serving(secure) as server:
        assert b"200" not in await talk(server, said, half_close=True)
        assert await _over_tls(server, ["http/1.1"]) == ("http/1.1", b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), ([], None)]
)
async def test_alpn_selects_http_1_1(secure: ServeOptions, offered: list[str], chosen: str | None) -> None:
    """The server supports no other protocol."""
    async with serving(secure) as server:
        assert await _over_tls(server, offered) == (chosen, b"HTTP/1.1 200 OK")


async def _over_tls(server: WebServer, offered: list[str]) -> tuple[str | None, bytes]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if offered:
        context.set_alpn_protocols(offered)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    heard = await reader.read()
    chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.close()
    return chosen, bare(heard)[0]


async def test_a_silent_client_blocks_neither_others_nor_the_stop(secure: ServeOptions) -> None:
    """A client that sends nothing blocks neither other clients nor the stop."""
    async with serving(secure) as server:
        silent = socket.create_connection(("127.0.0.1", server.port))
        assert await _over_tls(server, []) == (None, b"HTTP/1.1 200 OK")
    silent.close()
