"""Laws of `opsdk.rest.response` and `opsdk.rest.retry`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio.token_bucket import TokenBucket
from opsdk.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ConnectError,
    ConnectionLostError,
    DeadlineError,
    ForbiddenError,
    GoneError,
    InternalServerError,
    InvalidError,
    MethodNotAllowedError,
    NotAcceptableError,
    NotFoundError,
    ServerTimeoutError,
    ServiceUnavailableError,
    TlsError,
    TooLargeError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
)
from opsdk.rest.request import RestRequest
from opsdk.rest.response import (
    RestResponse,
    Warning299,
    error_from_response,
    parse_warnings,
    raise_for_status,
    retry_after,
)
from opsdk.rest.retry import MAX_RETRIES, retry_delay

GET = RestRequest("GET", "/api/v1/namespaces/ns/pods/web", verb="get", resource="pods", namespace="ns", name="web")
POST = RestRequest("POST", "/apis/apps/v1/deployments", verb="create", group="apps", resource="deployments")


def _plain(code: int, body: bytes = b"", **headers: str) -> RestResponse:
    return RestResponse(code, {"content-type": "text/plain", **headers}, body)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (400, BadRequestError, "the server rejected our request for an unknown reason"),
        (401, UnauthorizedError, "the server has asked for the client to provide credentials"),
        (403, ForbiddenError, "no way"),
        (404, NotFoundError, "the server could not find the requested resource"),
        (405, MethodNotAllowedError, "the server does not allow this method on the requested resource"),
        (406, NotAcceptableError, "no way"),
        (409, ConflictError, "the server reported a conflict"),
        (410, GoneError, "the server responded with the status code 410 but did not return more information"),
        (413, TooLargeError, "larger than the server accepts"),
        (415, UnsupportedMediaTypeError, "no way"),
        (418, ApiError, "the server responded with the status code 418 but did not return more information"),
        (422, InvalidError, "the server rejected our request due to an error in our request"),
        (429, TooManyRequestsError, "the server has received too many requests"),
        (500, InternalServerError, 'an error on the server ("no way") has prevented the request from succeeding'),
        (502, ApiError, 'an error on the server ("no way") has prevented the request from succeeding'),
        (503, ServiceUnavailableError, "the server is currently unable to handle the request"),
        (504, ServerTimeoutError, "the server was unable to return a response in the time allotted"),
    ],
)
def test_responses_without_status_become_typed_errors(code: int, kind: type[ApiError], words: str) -> None:
    """The error has client-go's message, the request, and the server's text."""
    with pytest.raises(kind) as caught:
        raise_for_status(_plain(code, b"no way\n"), GET)
    assert words in str(caught.value)
    assert str(caught.value).endswith("(get pods web)")
    assert caught.value.code == code
    assert caught.value.details.causes[0].message == "no way"


def test_a_conflict_of_a_create_without_status_is_already_exists() -> None:
    """A 409 without Status is AlreadyExistsError for a create and ConflictError for other methods."""
    error = error_from_response(_plain(409), POST)
    assert isinstance(error, AlreadyExistsError)
    assert error.message == "the server reported a conflict (post deployments.apps)"


def test_the_status_object_takes_precedence() -> None:
    """The server's own reason, message and details are handed on, with the Retry-After of the header."""
    status = {"kind": "Status", "reason": "Expired", "code": 410, "message": "too old", "details": {"name": "web"}}
    error = error_from_response(RestResponse(410, {"retry-after": "2"}, json.dumps(status).encode()), GET)
    assert isinstance(error, GoneError)
    assert (error.message, error.details.name, error.retry_after) == ("too old", "web", 2.0)


def test_an_expired_list_has_a_second_token() -> None:
    """The token of the metadata continues the list. Metadata of another form is ignored."""
    for metadata, token in (({"continue": "abc"}, "abc"), ({"continue": 3}, ""), ([], ""), (None, "")):
        body = json.dumps({"kind": "Status", "reason": "Expired", "code": 410, "metadata": metadata}).encode()
        error = error_from_response(RestResponse(410, {}, body), GET)
        assert isinstance(error, GoneError)
        assert error.continue_token == token


@given(st.integers(300, 599), st.binary(), st.sampled_from(["", "text/html", "application/json", "x/y"]))
def test_any_failed_response_is_an_api_error(code: int, body: bytes, kind: str) -> None:
    """Any failed response is an ApiError that quotes a long body in part."""
    error = error_from_response(RestResponse(code, {"content-type": kind}, body * 100), GET)
    assert error.code == code
    assert len(str(error)) < 3000


@given(st.integers(200, 299))
def test_success_raises_nothing(code: int) -> None:
    """A response with any 2xx status raises no error."""
    raise_for_status(RestResponse(code), GET)


_NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": " 12 "}, 12.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "\u0663"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 2026 09:00:30 GMT", "date": "Thu, 01 Jan 2026 09:00:00 GMT"}, 30.0),
        ({"retry-after": "86400"}, 60.0),
        ({"retry-after": "9" * 400}, 60.0),
        ({"retry-after": "Fri, 02 Jan 2026 12:00:00 GMT"}, 60.0),
        ({"retry-after": "Thu, 99 Jan 2026 12:00:30 GMT"}, None),
    ],
)
def test_retry_after_table(headers: dict[str, str], seconds: float | None) -> None:
    """Retry-After is seconds or a date; a date is measured on the server's clock where it shows one."""
    assert retry_after(RestResponse(429, headers), now=_NOW) == seconds


@given(st.one_of(st.integers(), st.integers(0, 10**400)), st.one_of(st.none(), st.integers(0, 10**12)))
def test_no_server_can_ask_for_a_long_wait(details: int, header: int | None) -> None:
    """Whatever header and body say, the wait of an error is at most a minute."""
    body = json.dumps(
        {"kind": "Status", "apiVersion": "v1", "code": 429, "details": {"retryAfterSeconds": details}}
    ).encode()
    headers = {} if header is None else {"retry-after": str(header)}
    error = error_from_response(RestResponse(429, headers, body), GET)
    assert 0 <= (error.retry_after or 0) <= 60
    if header is not None:
        assert error.retry_after == min(header, 60) or header > 10**9


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ("", []),
        ('299 - "old"', ["old"]),
        ('299 - "a, b", 199 x "other", 299 kube "say \\"hi\\" \\\\"', ["a, b", 'say "hi" \\']),
        ('299 - "dated" "Thu, 01 Jan 2026 12:00:30 GMT", 299 - "next"', ["dated", "next"]),
        ("299 - unquoted", []),
        ('299 - "fine", garbage', ["fine"]),
    ],
)
def test_warnings_table(header: str, texts: list[str]) -> None:
    """Warnings with code 299 are read in order, and what cannot be read is dropped."""
    assert [warning.text for warning in parse_warnings(RestResponse(200, {"warning": header}))] == texts
    assert parse_warnings(RestResponse(200, {"warning": '299 me "x"'})) == [Warning299("x", "me")]


# ------------------------------------------------------------------ retry rules
_ASKED = {"retry-after": "3"}


@pytest.mark.parametrize(
    ("request_", "outcome", "attempt", "delay"),
    [
        (POST, RestResponse(429, _ASKED), 0, 3.0),
        (POST, RestResponse(429), 0, 1.0),
        (POST, RestResponse(503, _ASKED), MAX_RETRIES - 1, 3.0),
        (POST, RestResponse(503, _ASKED), MAX_RETRIES, None),
        (GET, RestResponse(500), 0, None),
        (GET, RestResponse(404, _ASKED), 0, None),
        (GET, RestResponse(200, _ASKED), 0, None),
        (POST, ConnectError("x"), 0, 0.1),
        (POST, ConnectError("x"), 2, None),
        (GET, ConnectionLostError("x"), 0, 0.0),
        (GET, ConnectionLostError("x"), 1, 1.0),
        (GET, ConnectionLostError("x"), MAX_RETRIES, None),
        (POST, ConnectionLostError("x"), 0, None),
        (GET, DeadlineError("x"), 0, None),
        (GET, TlsError("x"), 0, None),
    ],
)
def test_only_safe_requests_are_retried(
    request_: RestRequest, outcome: RestResponse | TransportError, attempt: int, delay: float | None
) -> None:
    """A request that was not processed is retried for every method; one that may have been, only for reads."""
    assert retry_delay(request_, outcome, attempt) == delay


@given(st.floats(0.5, 100), st.integers(1, 20), st.lists(st.floats(0, 2), min_size=1, max_size=200))
def test_bucket_never_exceeds_its_rate(qps: float, burst: int, gaps: list[float]) -> None:
    """In any period, at most the burst plus rate times period requests are sent."""
    bucket, now, times = TokenBucket(qps, burst), 0.0, []
    for gap in gaps:
        now += gap
        times.append(now + bucket.reserve(now))
    for index, start in enumerate(times):
        for count, end in enumerate(times[index:], start=1):
            assert count <= burst + qps * (end - start) + 1e-6


def test_bucket_gets_unused_tokens_back() -> None:
    """A caller that was cancelled while waiting delays no other."""
    bucket = TokenBucket(1.0, 1)
    assert [bucket.reserve(0.0), bucket.reserve(0.0)] == [0.0, 1.0]
    bucket.cancel()
    assert bucket.reserve(0.0) == 1.0
