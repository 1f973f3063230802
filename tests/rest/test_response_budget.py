"""Responses of any size: what a client holds of them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.base.limits import Limits
from opsdk.errors import ApiError, ResponseLimitError
from opsdk.http.asgi_types import App, Message, Receive, Scope, Send
from opsdk.rest.config import RestConfig
from opsdk.rest.request import RestRequest
from opsdk.rest.response import raise_for_status
from opsdk.rest.response_budget import ResponseBudget
from opsdk.rest.transport import Transport

LIMITS = Limits(object_bytes=1000, list_bytes=5000, error_bytes=100)
GET = RestRequest("GET", "/a", verb="get", resource="things", name="a")
LIST = RestRequest("GET", "/a", verb="list", resource="things")
LOG = RestRequest("GET", "/a/log", verb="get", resource="pods", name="a", subresource="log")
RAW = RestRequest("GET", "/openapi/v2")
PATCH = RestRequest("PATCH", "/a", verb="patch", resource="things", name="a")


@given(st.lists(st.binary(max_size=50), max_size=20), st.integers(0, 300), st.booleans())
def test_no_more_than_the_limit_is_kept(pieces: list[bytes], size: int, cuts: bool) -> None:
    """What is prefix is the body, or its first bytes if the budget cuts; otherwise one byte too much is an error."""
    budget, whole, prefix = ResponseBudget("list_bytes", size, cuts=cuts), b"".join(pieces), b""
    try:
        for piece in pieces:
            prefix += budget.take(piece)
    except ResponseLimitError:
        assert not cuts
        assert len(whole) > size
    else:
        assert prefix == whole[:size]
        assert cuts or len(whole) <= size
        assert budget.full == (len(whole) > size)


def endless(status: int, piece: bytes, headers: list[tuple[bytes, bytes]], sent: list[int]) -> App:
    """An application whose body does not end before its client leaves."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for chunk in pieces(piece):
            sent.append(len(chunk))
            message: Message = {"type": "http.response.body", "body": chunk, "more_body": True}
            await send(message)

    return app


def pieces(piece: bytes) -> Iterator[bytes]:
    """More than any test reads."""
    for _ in range(100_000):
        yield piece


@pytest.mark.parametrize(
    ("request_", "limit"),
    [(GET, "object_bytes"), (PATCH, "object_bytes")] + [(r, "list_bytes") for r in (LIST, LOG, RAW)],
)
@pytest.mark.parametrize("packed", [False, True])
async def test_an_endless_body_is_an_error(request_: RestRequest, limit: str, packed: bool) -> None:
    """The error names the limit of the verb, and the connection is closed: the server sends no more."""
    sent: list[int] = []
    body = gzip.compress(bytes(2000)) if packed else bytes(500)
    headers = [(b"content-encoding", b"gzip")] if packed else []
    config = RestConfig(app=endless(200, body, headers, sent), limits=LIMITS)
    async with Transport(config) as transport:
        with pytest.raises(ResponseLimitError, match=f"raise {limit} of RestConfig.limits") as raised:
            await transport.send(request_)
    assert raised.value.request is not None
    assert not raised.value.retryable
    assert sum(sent) < 3_000_000


@pytest.mark.parametrize("size", [1000, 1001])
async def test_a_body_of_the_limit_is_complete(size: int) -> None:
    """One byte decides."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})

    async with Transport(RestConfig(app=app, limits=LIMITS)) as transport:
        if size > LIMITS.object_bytes:
            with pytest.raises(ResponseLimitError):
                await transport.send(GET)
        else:
            assert len((await transport.send(GET)).body) == size


async def test_an_endless_error_keeps_its_status() -> None:
    """The failure of a request is known, whatever its body is; a watch that fails reads no more either."""
    sent: list[int] = []
    config = RestConfig(app=endless(404, b"not here ", [], sent), limits=LIMITS)
    async with Transport(config) as transport:
        response = await transport.send(GET)
        with pytest.raises(ApiError, match="404") as raised:
            raise_for_status(response, GET)
        assert raised.value.code == 404
        with pytest.raises(ApiError):
            async with transport.stream(RestRequest("GET", "/a", verb="watch", resource="things")):
                raise AssertionError
    assert len(response.body) == 100
    assert sum(sent) < 3_000_000
