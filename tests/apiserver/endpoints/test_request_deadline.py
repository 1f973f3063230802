"""Time limits of requests."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio.large_work import REQUEST, RequestBudget
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.request_deadline import deadline, long_running, read_duration
from opsdk.apiserver.endpoints.request_info import parse_request
from opsdk.errors import BadRequestError, ServerTimeoutError
from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import HttpResponse, text_response


def call(method: str, path: str, query: str = "") -> Call:
    """Return a call without a connection."""

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    http = HttpRequest(method=method, path=path, query=Query(query), headers={}, receive=receive)
    return Call(http=http, info=parse_request(method, path, http.query))


async def takes(seconds: float, asked: Call) -> float:
    """When a handler that takes that long is answered."""

    async def handler(_: Call) -> HttpResponse:
        await asyncio.sleep(seconds)
        return text_response("done")

    began = asyncio.get_running_loop().time()
    await deadline(asked, handler)
    return asyncio.get_running_loop().time() - began


PODS = "/api/v1/namespaces/a/pods"


@pytest.mark.parametrize(
    ("method", "path", "query", "limit", "words"),
    [
        ("GET", PODS, "", 60, "the allotted timeout"),
        ("GET", PODS, "timeout=5s", 5, "the allotted timeout"),
        ("GET", PODS, "timeout=5h", 60, "the allotted timeout"),
        ("GET", PODS, "timeout=-5s", 60, "the allotted timeout"),
        ("DELETE", PODS, "", 60, "the allotted timeout"),
        ("GET", "/version", "timeout=1s", 1, "the allotted timeout"),
        ("POST", PODS, "", 34, "requested timeout - context deadline exceeded"),
        ("PATCH", f"{PODS}/p", "timeout=500ms", 0.5, "requested timeout - context deadline exceeded"),
        ("PUT", f"{PODS}/p/status", "timeout=40s", 34, "requested timeout - context deadline exceeded"),
    ],
)
async def test_a_request_over_its_limit_ends(method: str, path: str, query: str, limit: float, words: str) -> None:
    """A request that reaches its time limit gets a 504; a faster one gets its response."""
    began = asyncio.get_running_loop().time()
    with pytest.raises(ServerTimeoutError) as caught:
        await takes(limit + 1, call(method, path, query))
    assert asyncio.get_running_loop().time() - began == pytest.approx(limit)
    assert caught.value.code == 504
    assert caught.value.message == f"Timeout: request did not complete within {words}"
    assert await takes(limit * 0.9, call(method, path, query)) == pytest.approx(limit * 0.9)


@pytest.mark.parametrize(
    ("path", "query"),
    [(PODS, "watch=1"), (f"{PODS}/p/log", ""), (f"{PODS}/p/exec", ""), ("/api/v1/nodes/n/proxy/x", "")],
)
async def test_some_run_as_long_as_they_want(path: str, query: str) -> None:
    """Long-running requests have no limit, and their timeout parameter is not read."""
    pending = call("GET", path, f"{query}&timeout=x")
    assert long_running(pending.info)
    assert await takes(1000, pending) == 1000


async def test_a_request_that_is_cancelled_stays_cancelled() -> None:
    """A cancellation from outside stays a cancellation; it does not become a timeout."""
    task = asyncio.ensure_future(takes(100, call("GET", PODS)))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_no_duration_is_refused() -> None:
    """An invalid timeout is rejected before the request is processed."""
    with pytest.raises(BadRequestError, match="invalid timeout specified in the request URL - time: invalid duration"):
        await takes(0, call("GET", PODS, "timeout=soon"))


@given(st.floats(0, 1e6), st.sampled_from([("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1), ("m", 60), ("h", 3600)]))
def test_timeouts_are_written_as_go_durations(amount: float, unit: tuple[str, float]) -> None:
    """A timeout is an amount with a unit, with or without a sign."""
    text = f"{amount:.3f}{unit[0]}"
    expected = float(f"{amount:.3f}") * unit[1]
    assert read_duration(text) == pytest.approx(expected)
    assert read_duration(f"-{text}") == pytest.approx(-expected)


@given(st.text(alphabet="0123456789.smhnuµ-+ x", max_size=8))
def test_any_text_is_a_duration_or_is_refused_in_gos_words(text: str) -> None:
    """Any string is a duration, or an error with Go's message."""
    try:
        result = read_duration(text)
    except ValueError as error:
        message = str(error)
    else:
        message = "time: " if isinstance(result, float) else ""
    assert message.startswith("time: ")


async def test_the_expressions_of_each_request_have_a_budget_of_their_own() -> None:
    """Long-running requests too: policies apply to the begin of an exec."""
    budgets: list[RequestBudget | None] = []

    async def handler(_: Call) -> HttpResponse:
        budgets.append(REQUEST.get())
        return text_response("done")

    for method, path in (("GET", PODS), ("POST", PODS), ("POST", f"{PODS}/p/exec")):
        await deadline(call(method, path), handler)
    assert None not in budgets
    assert len(set(budgets)) == 3
