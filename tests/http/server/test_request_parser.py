"""The parser of requests: the same events for every cut of the same bytes, and the states between them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.base.limits import LIMITS
from opsdk.http.server.request_parser import BODY_END, RequestEvent, RequestHead, RequestParser, RequestState, Tunnelled
from opsdk.http.server.request_rules import MALFORMED, Refusal

GET = b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = b"PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: v\r\n\r\n"
EXPECT = b"POST /d HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx"
UNKNOWN_METHOD = b"QUERY /e HTTP/1.1\r\nHost: x\r\n\r\n"
UPGRADE = b"GET /f HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello"
BROKEN = (
    b"GET  /two-blanks HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /a HTTP/1.1\r\n\r\n",
    b"GET /a HTTP/1.1\r\nHost : x\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"G\x00T /a HTTP/1.1\r\n",
)


def read(parser: RequestParser, data: bytes) -> list[RequestEvent]:
    """Feed bytes, and read on until none is held."""
    events = parser.feed(data)
    while parser.held:
        events += parser.read_on()
    return events


def parse(parts: Iterable[bytes]) -> tuple[list[RequestEvent], RequestParser]:
    """Feed the parts to a new parser. The events have each body in one piece."""
    parser = RequestParser(LIMITS)
    events: list[RequestEvent] = []
    for part in parts:
        for event in read(parser, part):
            last = events[-1] if events else None
            if isinstance(event, bytes) and isinstance(last, bytes):
                events[-1] = last + event
            elif isinstance(event, Tunnelled) and isinstance(last, Tunnelled):
                events[-1] = Tunnelled(last.data + event.data)
            elif isinstance(event, RequestHead):
                events.append(event._replace(first_bytes=b""))  # they depend on the cut
            else:
                events.append(event)
    return events, parser


@pytest.mark.parametrize("last", [b"", UPGRADE, *BROKEN])
@pytest.mark.parametrize("request_bytes", [GET, POST, CHUNKED, EXPECT, UNKNOWN_METHOD])
def test_every_cut_of_the_same_bytes_has_the_same_events(request_bytes: bytes, last: bytes) -> None:
    """A request, pipelined with another one, with an upgrade, or with a broken one: in one piece, two, or bytes."""
    whole = request_bytes + (last or request_bytes)
    expected, parser = parse([whole])
    for cut in range(len(whole)):
        events, other = parse([whole[:cut], whole[cut:]])
        assert (events, other.state) == (expected, parser.state), cut
    events, other = parse(whole[position : position + 1] for position in range(len(whole)))
    assert (events, other.state) == (expected, parser.state)


@given(st.lists(st.sampled_from([GET, POST, CHUNKED, EXPECT, *BROKEN, UPGRADE]), max_size=6), st.data())
def test_events_have_the_order_of_the_rules(requests: list[bytes], data: st.DataObject) -> None:
    """Request, its body, its end; a refusal or another protocol comes last."""
    whole = b"".join(requests)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    events, parser = parse(whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True))
    is_body = False
    for position, event in enumerate(events):
        if isinstance(event, RequestHead):
            assert not is_body
            is_body = True
        elif isinstance(event, bytes):
            assert is_body
        elif event is BODY_END:
            assert is_body
            is_body = False
        else:
            assert position == len(events) - 1
    if parser.state is not RequestState.CLOSED:  # after a broken body
        assert is_body == (parser.state is RequestState.BODY)


def test_a_request_has_what_its_head_says() -> None:
    """Path and query, the length of the body, whether the connection stays open, what the client waits for."""
    [event, *_], _ = parse([EXPECT])
    assert isinstance(event, RequestHead)
    assert (event.method, event.path, event.query, event.length) == (b"POST", "/d", b"", 1)
    assert event.keep_alive
    assert event.expects_continue
    [event, *_], _ = parse([UNKNOWN_METHOD])
    assert isinstance(event, RequestHead)
    assert event.method == b"QUERY"
    [event, *_], _ = parse([b"GET / HTTP/1.0\r\nExpect: luck\r\n\r\n"])
    assert isinstance(event, RequestHead)
    assert (event.version, event.keep_alive, event.fails_expectation) == ("1.0", False, True)


def test_only_bytes_with_a_whole_head_at_their_begin_are_its_first_bytes() -> None:
    """A head that comes in two parts has none."""
    parser = RequestParser(LIMITS)
    [first, _, second, _] = read(parser, GET + GET)
    assert isinstance(first, RequestHead)
    assert isinstance(second, RequestHead)
    assert (first.first_bytes, second.first_bytes) == (GET + GET, GET)
    assert parser.feed(GET[:8]) == []
    [third, _] = parser.feed(GET[8:])
    assert isinstance(third, RequestHead)
    assert third.first_bytes == b""


@pytest.mark.parametrize(
    ("data", "state", "refusals"),
    [
        (b"\r\n", RequestState.IDLE, []),
        (GET, RequestState.IDLE, []),
        (b"GE", RequestState.METHOD, [MALFORMED]),
        (GET[:12], RequestState.HEAD, [MALFORMED]),
        (POST[:-1], RequestState.BODY, []),
        (UPGRADE, RequestState.TUNNEL, []),
        (BROKEN[0], RequestState.CLOSED, []),
    ],
)
def test_an_unfinished_head_is_refused_at_the_end(data: bytes, state: RequestState, refusals: list[Refusal]) -> None:
    """The end of the bytes in each state; only another protocol continues after it."""
    _, parser = parse([data])
    assert parser.state is state
    assert parser.end() == refusals
    assert parser.state is (RequestState.TUNNEL if state is RequestState.TUNNEL else RequestState.CLOSED)
    assert parser.feed(GET) == ([Tunnelled(GET)] if state is RequestState.TUNNEL else [])


def test_what_arrives_at_once_of_a_body_is_one_event() -> None:
    """A client with chunks of one byte causes no more events than others."""
    head = b"PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    parser = RequestParser(LIMITS)
    events = parser.feed(head + b"1\r\nx\r\n" * 1000)
    assert [type(event) for event in events] == [RequestHead, bytes]
    assert events[1] == b"x" * 1000
    assert parser.feed(b"1\r\ny\r\n" * 2 + b"0\r\n\r\n") == [b"yy", BODY_END]


@pytest.mark.parametrize("request_bytes", [GET, POST, EXPECT, UNKNOWN_METHOD])
def test_a_call_reads_one_request(request_bytes: bytes) -> None:
    """What follows it is held as bytes, also behind empty lines."""
    parser = RequestParser(LIMITS)
    events = parser.feed(b"\r\n\r\n" + request_bytes * 100)
    for number in range(99, -1, -1):
        assert [type(event) for event in events].count(RequestHead) == 1
        assert events[-1] is BODY_END
        assert parser.held == request_bytes * number
        events = parser.read_on()
    assert events == []


def test_few_requests_are_read_with_the_end_of_a_chunked_body() -> None:
    """Only the parser knows where the body ends, and it reads small pieces."""
    parser = RequestParser(LIMITS)
    small = b"GET / HTTP/1.1\r\nHost:x\r\n\r\n"
    events = parser.feed(CHUNKED + small * 2000)
    assert 1 <= [type(event) for event in events].count(RequestHead) < 40
    assert len(parser.held) > 1900 * len(small)
