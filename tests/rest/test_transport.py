"""Laws of `opsdk.rest.transport` and the pool beneath it, against a real server on loopback."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from typing import Any

import httptools
import pytest
from http_servers import Seen, Server, always, answer, in_turn

from opsdk.aio.clock import monotonic
from opsdk.errors import (
    ConnectError,
    ConnectionLostError,
    DeadlineError,
    DecodeError,
    NotFoundError,
    OpsdkError,
    TlsError,
    TransportError,
    UsageError,
)
from opsdk.http.client import errors
from opsdk.rest.config import Impersonate, RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.records import Record, Requested, TelemetryHook

GET = RestRequest("GET", "/a", verb="get", resource="things", name="a")
POST = RestRequest("POST", "/a", body=b'{"x":1}', verb="create", resource="things")


async def test_a_connection_is_kept_for_the_next_request() -> None:
    """Requests one after another share a connection, and carry address, agent and query."""
    async with Server(always(answer(body=b"hi"))) as server:
        async with Transport(RestConfig(host=f"{server.host}/base/", user_agent="me/1")) as transport:
            for number in range(3):
                response = await transport.send(RestRequest("GET", "/a", query=[("n", f"{number} ")]))
                assert (response.status, response.body) == (200, b"hi")
        assert (server.accepted, len(server.seen)) == (1, 3)
        first = server.seen[0]
        assert first.target == "/base/a?n=0+"
        assert first.header("host") == f"127.0.0.1:{server.port}"
        assert first.header("user-agent") == "me/1"


async def test_concurrent_requests_have_a_connection_each() -> None:
    """A request that waits for its response does not delay others."""

    async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1)
        writer.write(answer())

    async with Server(slow) as server, Transport(RestConfig(host=server.host)) as transport:
        started = monotonic()
        await asyncio.gather(*(transport.send(GET) for _ in range(5)))
        assert monotonic() - started < 1.5
        assert server.accepted == 5
        await transport.send(GET)
        assert server.accepted == 5


async def test_headers_of_the_request_take_precedence() -> None:
    """A header of the request replaces the transport's own; impersonation repeats its header."""
    config = RestConfig(host="http://x", token="t", impersonate=Impersonate(user="u", groups=["a", "b"]))
    async with Server(always(answer())) as server:
        async with Transport(RestConfig(**{**_fields(config), "host": server.host})) as transport:
            await transport.send(RestRequest("GET", "/", headers={"user-agent": "mine", "Accept": "x/y"}))
        headers = server.seen[0].headers
        assert [v for k, v in headers if k.lower() == "user-agent"] == ["mine"]
        assert [v for k, v in headers if k == "Impersonate-Group"] == ["a", "b"]
        assert server.seen[0].header("authorization") == "Bearer t"


def _fields(config: RestConfig) -> JsonObject:
    return {name: getattr(config, name) for name in RestConfig.__dataclass_fields__}


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n"
FORMS = {
    "length": answer(body=b"hello world"),
    "chunked": CHUNKED,
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + CHUNKED,
    "gzip": answer(body=gzip.compress(b"hello world"), Content_Encoding="gzip"),
    "members": answer(body=gzip.compress(b"hello ") + gzip.compress(b"world"), Content_Encoding="gzip"),
}


@pytest.mark.parametrize("form", FORMS)
async def test_responses_split_at_every_byte_read_the_same(form: str) -> None:
    """However the network splits a response, it is read the same, and its connection is reused."""
    data = FORMS[form]
    cuts = iter(range(1, len(data)))

    async def in_two(seen: Seen, writer: asyncio.StreamWriter) -> None:
        cut = next(cuts)
        writer.write(data[:cut])
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(data[cut:])

    async with Server(in_two) as server:
        async with Transport(RestConfig(host=server.host)) as transport:
            for _ in range(1, len(data)):
                assert (await transport.send(GET)).body == b"hello world"
        assert server.accepted == 1


@pytest.mark.parametrize("form", ["length", "chunked", "gzip"])
async def test_connections_lost_at_every_byte_are_errors(form: str) -> None:
    """A truncated response is a lost connection, never a short response."""
    data = FORMS[form]
    cuts = iter(range(len(data)))

    async def cut(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(data[: next(cuts)])
        await writer.drain()
        writer.close()

    async with Server(cut) as server, Transport(RestConfig(host=server.host)) as transport:
        for _ in range(len(data)):
            with pytest.raises(ConnectionLostError):
                await transport.send(POST)
        assert server.accepted == len(data)


async def test_a_response_without_length_ends_with_its_connection() -> None:
    """The server ends the response by closing the connection."""

    async def until_close(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async with Server(until_close) as server, Transport(RestConfig(host=server.host)) as transport:
        assert (await transport.send(POST)).body == b"hello"
        assert (await transport.send(POST)).body == b"hello"
        assert server.accepted == 2


@pytest.mark.parametrize(
    "data",
    [answer(204, b""), b"HTTP/1.1 204 No\r\n\r\n", b"HTTP/1.1 304 Not\r\n\r\n", answer(200, b"")],
)
async def test_empty_responses(data: bytes) -> None:
    """An answer without a body is whole at once, and keeps its connection."""
    async with Server(always(data)) as server, Transport(RestConfig(host=server.host)) as transport:
        for _ in range(2):
            assert (await transport.send(POST)).body == b""
        assert server.accepted == 1


async def test_head_has_no_body() -> None:
    """The length in an answer to HEAD is not waited for."""
    async with (
        Server(always(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")) as server,
        Transport(RestConfig(host=server.host)) as transport,
    ):
        for _ in range(2):
            assert (await transport.send(RestRequest("HEAD", "/"))).body == b""


@pytest.mark.parametrize(
    "data", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"]
)
async def test_an_invalid_http_response_is_an_error(data: bytes) -> None:
    """Bytes that are not an answer, or one too many, end the connection."""
    async with Server(always(data)) as server, Transport(RestConfig(host=server.host)) as transport:
        with pytest.raises(ConnectionLostError, match="not valid HTTP"):
            await transport.send(POST)


async def test_a_connection_with_a_second_response_is_not_reused() -> None:
    """Bytes after a response belong to no request; the first response is returned."""
    async with Server(always(answer() + answer(500))) as server, Transport(RestConfig(host=server.host)) as transport:
        for _ in range(2):
            assert (await transport.send(POST)).status == 200
        assert server.accepted == 2


async def test_garbage_gzip_is_a_decode_error() -> None:
    """A response with Content-Encoding gzip and other bytes raises DecodeError."""
    async with (
        Server(always(answer(body=b"nonsense", Content_Encoding="gzip"))) as server,
        Transport(RestConfig(host=server.host)) as transport,
    ):
        with pytest.raises(DecodeError, match="gzip"):
            await transport.send(GET)


async def test_a_gzip_without_its_end_is_a_decode_error() -> None:
    """A compressed answer that stops early is not a shorter answer, whole or as a stream."""
    short = gzip.compress(b"hello world" * 100)[:-9]
    async with (
        Server(always(answer(body=short, Content_Encoding="gzip"))) as server,
        Transport(RestConfig(host=server.host)) as transport,
    ):
        with pytest.raises(DecodeError, match="unexpected end"):
            await transport.send(GET)
        async with transport.stream(GET) as stream:
            with pytest.raises(DecodeError, match="unexpected end"):
                _ = [piece async for piece in stream]


async def test_large_bodies_go_both_ways() -> None:
    """Three megabytes arrive as they were sent, in both directions."""
    big = bytes(range(256)) * 12_000

    async def echo(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(body=seen.body))

    async with Server(echo) as server, Transport(RestConfig(host=server.host)) as transport:
        assert (await transport.send(RestRequest("POST", "/", body=big))).body == big


@pytest.mark.parametrize(
    "request_",
    [
        RestRequest("GET", "/a b"),
        RestRequest("GET", "/a\r\nX: y"),
        RestRequest("GET", "/ä"),
        RestRequest("G T", "/"),
        RestRequest("GET", "/", headers={"X": "a\r\nY: b"}),
        RestRequest("GET", "/", headers={"X:": "a"}),
        RestRequest("GET", "/", headers={"X": "s3cret\n"}),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
async def test_line_breaks_in_targets_and_headers_are_refused(request_: RestRequest, inside: bool) -> None:
    """A path or header that would end its line is refused before anything is sent, and not quoted."""
    config = RestConfig(app=_never) if inside else RestConfig(host="http://127.0.0.1:1")
    # Dialling is not reached: nobody listens there.
    async with Transport(config) as transport:
        with pytest.raises(UsageError) as caught:
            await transport.send(request_)
        assert "s3cret" not in str(caught.value)


async def _never(*_: Any) -> None:
    raise AssertionError("called")


# ------------------------------------------------------------------ retries
@pytest.mark.behaviour(145)
async def test_429_is_repeated_with_the_same_body() -> None:
    """The request is sent again after Retry-After with the same bytes, for every method."""
    async with Server(in_turn(answer(429, Retry_After="7"), answer(429, Retry_After="30"), answer(201))) as server:
        async with Transport(RestConfig(host=server.host)) as transport:
            started = monotonic()
            assert (await transport.send(POST)).status == 201
            assert 37 <= monotonic() - started < 38
        assert [request.body for request in server.seen] == [POST.body] * 3


@pytest.mark.behaviour(145)
async def test_429_is_repeated_ten_times() -> None:
    """A request is repeated ten times after 429 responses; then the response is returned."""
    async with Server(always(answer(429, Retry_After="1"))) as server:
        async with Transport(RestConfig(host=server.host)) as transport:
            assert (await transport.send(POST)).status == 429
            assert (await transport.send(POST, retry=False)).status == 429
        assert len(server.seen) == 12


async def test_a_retry_delay_beyond_the_deadline_is_not_started() -> None:
    """If Retry-After ends after the deadline, the 429 response is returned instead of a timeout."""
    async with (
        Server(always(answer(429, Retry_After="60"))) as server,
        Transport(RestConfig(host=server.host)) as transport,
    ):
        assert (await transport.send(POST, timeout=10)).status == 429
        assert monotonic() < 1


async def test_lost_connections_repeat_reads_only() -> None:
    """A connection that breaks underway is tried again for GET, and is an error for POST."""
    async with (
        Server(in_turn(None, None, answer(), None)) as server,
        Transport(RestConfig(host=server.host)) as transport,
    ):
        assert (await transport.send(GET)).status == 200
        with pytest.raises(ConnectionLostError):
            await transport.send(POST)
        assert len(server.seen) == 4


async def test_a_body_lost_in_the_middle_is_read_again() -> None:
    """A read whose body was cut is repeated as a whole."""

    async def cut_first(seen: Seen, writer: asyncio.StreamWriter) -> None:
        whole = answer(body=b"hello")
        writer.write(whole if seen.connection > 1 else whole[:-2])
        if seen.connection == 1:
            await writer.drain()
            writer.close()

    async with Server(cut_first) as server, Transport(RestConfig(host=server.host)) as transport:
        assert (await transport.send(GET)).body == b"hello"


async def test_a_refused_connection_is_a_connect_error() -> None:
    """The ConnectError names the server, after a few attempts."""
    async with Server(always(answer())) as server:
        port = server.port
    async with Transport(RestConfig(host=f"http://127.0.0.1:{port}", token="s3cret")) as transport:
        with pytest.raises(ConnectError, match=f"127.0.0.1:{port}") as caught:
            await transport.send(POST)
        assert caught.value.retryable
        assert "s3cret" not in str(caught.value)


async def test_qps_limits_all_but_watches() -> None:
    """Requests beyond the burst wait for the rate; watches do not."""
    async with Server(always(answer())) as server, Transport(RestConfig(host=server.host, qps=2, burst=3)) as transport:
        started = monotonic()
        for _ in range(5):
            await transport.send(GET)
        assert 1.0 <= monotonic() - started < 1.1
        await transport.send(RestRequest("GET", "/", verb="watch"))
        assert monotonic() - started < 1.1


async def test_each_attempt_is_recorded() -> None:
    """The hook gets a record of every attempt, also without a response, with the seconds of throttling."""
    attempts: list[Requested] = []

    class Seen(TelemetryHook):
        def record(self, record: Record) -> None:
            assert isinstance(record, Requested)
            attempts.append(record)

    async with Server(in_turn(answer(429, Retry_After="1"), None, answer(201))) as server:
        config = RestConfig(host=server.host, qps=0.5, burst=1)
        async with Transport(config, hook=Seen()) as transport:
            assert (await transport.send(GET)).status == 201
    assert [record.status for record in attempts] == [429, 0, 201]
    assert [record.throttled for record in attempts] == pytest.approx([0, 1, 1], abs=0.1)
    assert attempts[0].host == f"127.0.0.1:{server.port}"


# ------------------------------------------------------------------ deadlines


@pytest.mark.parametrize(("configured", "given"), [(5.0, None), (None, 5.0), (9.0, 5.0)])
async def test_a_missing_response_is_a_deadline_error(configured: float | None, given: float | None) -> None:
    """A request without response in time raises DeadlineError and closes the connection."""

    async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await seen.gone()

    async with Server(silent) as server, Transport(RestConfig(host=server.host, timeout=configured)) as transport:
        with pytest.raises(DeadlineError, match="get things a: no response within 5 s"):
            await transport.send(GET, timeout=given)
        assert "0 busy, 0 idle" in repr(transport)


# ------------------------------------------------------------------ streams
def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def test_a_stream_yields_bytes_as_they_arrive() -> None:
    """Each piece is readable before the next is sent."""

    async def ticking(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n")
        for number in range(3):
            writer.write(_chunk(b"%d\n" % number))
            await asyncio.sleep(10)
        writer.write(b"0\r\n\r\n")

    async with Server(ticking) as server, Transport(RestConfig(host=server.host)) as transport:
        async with transport.stream(GET, idle_timeout=15) as stream:
            assert (stream.status, stream.headers["x"]) == (200, "y")
            got = [(monotonic() // 10, piece) async for piece in stream]
        assert got == [(0, b"0\n"), (1, b"1\n"), (2, b"2\n")]
        assert "1 idle" in repr(transport)


async def _open_ended(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + _chunk(b"first"))
    await writer.drain()
    await seen.gone()


async def test_leaving_a_stream_closes_its_connection() -> None:
    """A stream left in the middle does not go back to the pool, and the server notices at once."""
    async with Server(_open_ended) as server, Transport(RestConfig(host=server.host)) as transport:
        async with transport.stream(GET) as stream:
            assert await anext(aiter(stream)) == b"first"
        assert "0 busy, 0 idle" in repr(transport)
        await server.all_closed()


async def test_an_idle_stream_times_out() -> None:
    """A stream without data for `idle_timeout` raises DeadlineError."""
    async with (
        Server(_open_ended) as server,
        Transport(RestConfig(host=server.host)) as transport,
        transport.stream(GET, idle_timeout=30) as stream,
    ):
        assert await anext(stream) == b"first"
        with pytest.raises(DeadlineError, match="no data received within 30 s"):
            await anext(stream)


async def test_the_timeout_of_calls_does_not_apply_to_streams() -> None:
    """A stream may live longer than the configuration's timeout."""
    async with (
        Server(_open_ended) as server,
        Transport(RestConfig(host=server.host, timeout=5)) as transport,
        transport.stream(GET) as stream,
    ):
        await asyncio.sleep(100)
        assert await anext(stream) == b"first"


async def test_a_failed_stream_is_an_api_error() -> None:
    """An error status is raised with its whole body read, before the block is entered."""
    async with Server(always(answer(404, b"nope", Content_Type="text/plain"))) as server:
        async with Transport(RestConfig(host=server.host)) as transport:
            with pytest.raises(NotFoundError, match="could not find") as caught:
                async with transport.stream(GET):
                    pytest.fail("entered")
            assert caught.value.details.causes[0].message == "nope"
            with pytest.raises(NotFoundError):
                async with transport.stream(GET):
                    pytest.fail("entered")
        assert server.accepted == 1


async def test_a_cut_stream_is_an_error() -> None:
    """A stream that ends without its end is a lost connection."""

    async def cut(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + _chunk(b"first"))
        await writer.drain()
        writer.close()

    async with (
        Server(cut) as server,
        Transport(RestConfig(host=server.host)) as transport,
        transport.stream(GET) as stream,
    ):
        assert await anext(stream) == b"first"
        with pytest.raises(ConnectionLostError):
            await anext(stream)


async def test_a_slow_reader_stops_the_sender() -> None:
    """Unread bytes are bounded: the server is not read from until the reader catches up."""
    sent = 0

    async def flood(seen: Seen, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(400):
            writer.write(_chunk(b"x" * 100_000))
            await writer.drain()
            sent += 100_000
        writer.write(b"0\r\n\r\n")

    async with (
        Server(flood) as server,
        Transport(RestConfig(host=server.host)) as transport,
        transport.stream(GET) as stream,
    ):
        for _ in range(50):
            await asyncio.sleep(0.01)
        assert sent < 30_000_000
        assert sum([len(piece) async for piece in stream]) == 40_000_000


# ------------------------------------------------------------------ cancellation
async def _cancel_at(turn: int, server: Server, config: RestConfig) -> bool:
    """Cancel a call after so many turns of the loop; whether it was still underway."""
    async with Transport(config) as transport:
        task = asyncio.create_task(transport.send(POST))
        for _ in range(turn):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            assert "0 busy" in repr(transport)
            return True
        return False


@pytest.mark.behaviour(146)
async def test_cancelling_at_every_iteration_leaks_nothing() -> None:
    """Wherever a call is cancelled, the error is a cancellation, and no task and no socket stay."""

    async def in_pieces(seen: Seen, writer: asyncio.StreamWriter) -> None:
        for cut in range(0, len(CHUNKED), 10):
            writer.write(CHUNKED[cut : cut + 10])
            await writer.drain()
            await asyncio.sleep(0)

    async with Server(in_pieces) as server:
        turn = 0
        while await _cancel_at(turn, server, RestConfig(host=server.host)):
            turn += 1
            await server.all_closed()
        assert turn > 5


async def test_closing_ends_running_requests() -> None:
    """Closing the transport ends calls as lost, is idempotent, and no call can follow."""
    async with Server(_open_ended) as server:
        transport = Transport(RestConfig(host=server.host))
        task = asyncio.create_task(transport.send(POST))
        await asyncio.sleep(1)
        await transport.aclose()
        await transport.aclose()
        with pytest.raises(ConnectionLostError):
            await task
        with pytest.raises(UsageError, match="closed"):
            await transport.send(POST)


async def test_idle_connections_are_bounded_in_number_and_age() -> None:
    """At most 256 idle connections stay, for at most 90 seconds; the next request closes older ones."""
    gate = asyncio.Event()

    async def gated(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.write(answer())

    async with Server(gated) as server, Transport(RestConfig(host=server.host)) as transport:
        for requests, opened, expected in ((64, 64, 64), (64, 64, 64), (260, 260, 256)):
            gate.clear()
            before = len(server.seen)
            tasks = [asyncio.create_task(transport.send(GET)) for _ in range(requests)]
            await server.has_seen(before + requests)
            gate.set()
            await asyncio.gather(*tasks)
            assert server.accepted == opened
            assert f"{expected} idle" in repr(transport)
        await asyncio.sleep(100)
        await transport.send(GET)
        assert server.accepted == 261
        assert "1 idle" in repr(transport)


async def test_a_connection_closed_while_idle_is_not_used() -> None:
    """A kept connection that the server closed meanwhile costs no request, not even a POST."""

    async def once(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(answer())
        await writer.drain()
        writer.close()

    async with Server(once) as server, Transport(RestConfig(host=server.host)) as transport:
        for _ in range(3):
            assert (await transport.send(POST)).status == 200
            await asyncio.sleep(0.01)


# ------------------------------------------------------------------ the map of foreign exceptions
# Others derive from OSError too (urllib, shutil); none of them comes near a socket of ours.
_NEAR = {"builtins", "ssl", "socket", "asyncio.exceptions", "httptools.parser.errors", "zlib", "encodings.idna"}


def _subclasses(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(_subclasses(sub) for sub in kind.__subclasses__()))


@pytest.mark.parametrize("sent", [True, False])
def test_every_transport_exception_is_translated(sent: bool) -> None:
    """Every exception of sockets, TLS, the parser and the decoder becomes an opsdk error."""
    parser = {v for v in vars(httptools).values() if isinstance(v, type) and issubclass(v, BaseException)}
    for foreign in (OSError, ssl.SSLError, EOFError, UnicodeError, httptools.HttpParserError, zlib.error):
        parser |= _subclasses(foreign)
    for kind in parser - {httptools.HttpParserInvalidURLError}:
        if kind.__module__ not in _NEAR or issubclass(kind, OpsdkError):
            continue
        assert issubclass(kind, errors.TRANSPORT_ERRORS), kind
        ours = errors.translate(kind.__new__(kind), sent=sent, where="https://x")
        assert isinstance(ours, TransportError | DecodeError), kind
        assert str(ours).startswith("https://x: ")
        if not isinstance(ours, TlsError | DecodeError) and not issubclass(kind, errors.PARSE_ERRORS):
            assert type(ours) is (ConnectionLostError if sent else ConnectError), kind


# ------------------------------------------------------------------ proxies
async def test_plain_http_through_a_proxy_names_the_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy gets absolute targets and its own credentials."""
    async with Server(always(answer())) as proxy:
        config = RestConfig(host="http://api.example:8080/b", proxy_url=f"http://me:pw@127.0.0.1:{proxy.port}")
        async with Transport(config) as transport:
            await transport.send(GET)
        assert proxy.seen[0].target == "http://api.example:8080/b/a"
        assert proxy.seen[0].header("host") == "api.example:8080"
        assert proxy.seen[0].header("proxy-authorization") == "Basic bWU6cHc="


@pytest.mark.parametrize("refusal", [answer(407), None])
async def test_a_refused_tunnel_is_a_connect_error(refusal: bytes | None) -> None:
    """A proxy that gives no tunnel means that nothing was sent to the server."""

    async def refuse(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if refusal is None:
            writer.transport.abort()
        else:
            writer.write(refusal)

    async with Server(refuse) as proxy:
        config = RestConfig(host="https://api.example", proxy_url=f"http://127.0.0.1:{proxy.port}")
        async with Transport(config) as transport:
            with pytest.raises(ConnectError):
                await transport.send(POST)
        assert proxy.seen[0].target == "api.example:443"
        assert proxy.seen[0].method == "CONNECT"
