"""A request with a known header block is read as the parser reads it."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.base.limits import Limits
from opsdk.http.server.application import asgi
from opsdk.http.server.known_heads import KnownHeads
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.request_parser import RequestEvent, RequestHead, RequestParser
from opsdk.http.server.request_rules import Refusal
from opsdk.http.server.response import HttpResponse, json_response
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.http.server.service import Service

HEADERS = [(b"host", b"x"), (b"accept", b"*/*"), (b"content-length", b"3")]
BLOCK = b"Host: x\r\nAccept:*/*\r\nContent-Length: 3\r\n"
REQUEST = b"POST /a%20b?c=d HTTP/1.1\r\n" + BLOCK + b"\r\nabc"


async def describe(request: HttpRequest) -> HttpResponse:
    """Return everything that the request was read as."""
    body = (await request.body(1 << 20)).decode("latin-1")
    headers = {**request.headers, "several": [request.values(name) for name in request.headers]}
    return json_response([request.method, request.path, request.query.raw, headers, body])


async def responses(requests: list[bytes]) -> list[str]:
    """Send requests on one connection, each after the response to the one before; return the bodies."""
    bodies: list[str] = []
    async with WebServer(asgi(describe), ServeOptions()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for request in requests:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            bodies.append((await reader.readexactly(length)).decode())
        writer.close()
    return bodies


ODD = [
    REQUEST,
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /?a=1&a=%zz HTTP/1.1\r\nHost: x\r\nX-Twice: 1\r\nx-twice: 2\r\n\r\n",
    b"DELETE /x HTTP/1.1\r\nHost: x\r\nX-Spaced:   a  \r\n\r\n",
    b"PUT /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: x\r\nX-Latin: \xe9\r\n\r\n",
    b"GET http://other/y?z HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
    b"PURGE /x HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.realtime
async def test_a_repeated_request_is_read_as_the_first() -> None:
    """A repeated request gives the same result as its first parse, in any order of requests."""
    first = await responses(ODD)
    again = await responses([*ODD, *reversed(ODD), *ODD])
    assert again == [*first, *reversed(first), *first]
    assert json.loads(first[0])[:3] == ["POST", "/a b", "c=d"]


def known() -> KnownHeads:
    """Return blocks after one request."""
    heads = KnownHeads()
    heads.learn(REQUEST, HEADERS)
    return heads


def test_a_known_block_needs_the_whole_request_and_nothing_more() -> None:
    """A request that is cut, or followed by another, is left to the parser."""
    heads = known()
    request = heads.find(REQUEST)
    assert request is not None
    assert (request.method, request.path, request.query, request.body) == ("POST", "/a b", b"c=d", b"abc")
    assert request.head.decoded == ({"host": "x", "accept": "*/*", "content-length": "3"}, {})
    assert not any(heads.find(REQUEST[:cut]) for cut in range(len(REQUEST)))
    assert heads.find(REQUEST + REQUEST) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"POST", b"CONNECT"), (b"/a", b"*"), (b"1.1", b"1.0"), (b"Host", b"host"), (b"%20", b"%zz"), (b"/a", b"/\xe9")],
)
def test_other_requests_are_left_to_the_parser(before: bytes, after: bytes) -> None:
    """A request with another method, version, header block or unusual target is left to the parser."""
    assert known().find(REQUEST.replace(before, after, 1)) is None


@pytest.mark.parametrize(
    "block",
    [
        b"Host: x\r\nExpect: 100-continue",
        b"Host: x\r\nConnection: close",
        b"Host: x\r\nA: b\r\n c",
        b"Host: x\nA: b",
        b"Host: " + b"x" * 4096,
    ],
)
def test_blocks_with_a_meaning_for_the_connection_are_not_learnt(block: bytes) -> None:
    """Headers that change framing or connection, folded lines and very long blocks are read anew each time."""
    heads = KnownHeads()
    pairs = [line.partition(b":") for line in block.replace(b"\r\n ", b" ").replace(b"\n", b"\r\n").split(b"\r\n")]
    request = b"GET / HTTP/1.1\r\n" + block + b"\r\n\r\n"
    heads.learn(request, [(name.strip().lower(), value.strip()) for name, _, value in pairs])
    assert heads.find(request) is None


@given(st.binary(max_size=80))
def test_no_bytes_are_taken_for_a_known_request(data: bytes) -> None:
    """Arbitrary bytes are left to the parser, alone and behind a request."""
    heads = known()
    assert heads.find(data) is None
    if data:
        assert heads.find(REQUEST + data) is None


def numbered(number: int) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return a request whose header block has a number, and its headers."""
    value = b"Bearer %d" % number
    request = b"GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: " + value + b"\r\n\r\n"
    return request, [(b"host", b"x"), (b"authorization", value)]


def test_a_block_without_use_is_forgotten() -> None:
    """A block is known until the second rotation after its last use."""
    heads = KnownHeads()
    used, unused = numbered(1), numbered(2)
    heads.learn(*used)
    heads.learn(*unused)
    heads.rotate()
    assert heads.find(used[0]) is not None
    heads.rotate()
    assert heads.find(unused[0]) is None
    assert heads.find(used[0]) is not None
    heads.rotate()
    heads.rotate()
    assert len(heads) == 0


def test_the_number_of_blocks_is_bounded() -> None:
    """Of 20,000 different blocks, the newest 512 are kept."""
    heads = KnownHeads()
    for number in range(20_000):
        heads.learn(*numbered(number))
        assert len(heads) <= 512
    assert all(heads.find(numbered(number)[0]) for number in range(20_000 - 256, 20_000))


async def test_a_server_keeps_no_token_of_idle_clients() -> None:
    """A header block, with its token, is dropped two minutes after its last use; one in use stays."""
    service = Service(asgi(describe))
    used, unused = numbered(1), numbered(2)
    service.learn_head(*used)
    service.learn_head(*unused)
    for _ in range(5):
        await asyncio.sleep(50)
        assert service.heads.find(used[0]) is not None
    assert len(service.heads) == 1
    await asyncio.sleep(120)
    assert len(service.heads) == 0


SMALL = Limits(head_bytes=200, head_fields=3, query_parameters=5)


def request_of(path: int, fields: int, value: int, parameters: int) -> bytes:
    """A GET request with a path, headers and parameters of these sizes."""
    query = "&".join(["a"] * parameters)
    lines = "".join(f"X-{number}: {'v' * value}\r\n" for number in range(fields))
    return f"GET /{'p' * path}{'?' if query else ''}{query} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode()


def parsed(data: bytes) -> list[RequestEvent]:
    """What the parser reads."""
    return list(RequestParser(SMALL).feed(data))


_PATHS, _PARAMETERS = st.integers(0, 220), st.integers(0, 7)


_TARGETS = st.tuples(_PATHS, _PARAMETERS)


@given(_TARGETS, st.integers(0, 3), st.integers(0, 80), _TARGETS)
def test_known_heads_have_the_limits_of_the_parser(
    target: tuple[int, int], fields: int, value: int, following: tuple[int, int]
) -> None:
    """A request is found only if the parser accepts it: heads, fields and parameters, at each limit and above it."""
    heads = KnownHeads(SMALL)
    first = request_of(target[0], fields, value, target[1])
    match parsed(first):
        case [RequestHead() as head, *_]:
            heads.learn(first, head.headers)
        case _:
            return
    again = request_of(following[0], fields, value, following[1])
    known_request, read = heads.find(again), parsed(again)[0]
    if isinstance(read, Refusal):
        assert known_request is None
    else:
        assert isinstance(read, RequestHead)
        assert known_request is not None
        assert (known_request.path, known_request.query, known_request.head.headers) == (
            read.path,
            read.query,
            read.headers,
        )


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("limit", ["path", "parameters"])
def test_each_limit_counts_for_a_known_block(limit: str, over: int) -> None:
    """At the limit a request is found, and one more is left to the parser, which refuses it."""
    heads = KnownHeads(SMALL)
    heads.learn(request_of(1, 0, 0, 0), [(b"host", b"x")])
    size = {"path": 200 - 9 - 1, "parameters": 5}[limit] + over
    data = request_of(size, 0, 0, 0) if limit == "path" else request_of(1, 0, 0, size)
    assert (heads.find(data) is None) is bool(over)
    assert isinstance(parsed(data)[0], Refusal) is bool(over)
