"""Token reviews."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webhook_reviews import post

from opsdk.errors import BadRequestError
from opsdk.webhook.admission import UserInfo
from opsdk.webhook.authentication import (
    MAX_REQUEST_SIZE,
    TokenRequest,
    TokenResponse,
    authenticated,
    decode_review,
    review_failed,
    unauthenticated,
)
from opsdk.webhook.server import WebhookServer
from opsdk.webhook.webhook import AuthenticationWebhook


async def check(request: TokenRequest) -> TokenResponse:
    """Know one token."""
    if request.token == "crash":
        raise RuntimeError("the directory is down")
    if request.token == "late":
        return review_failed("try again")
    if request.token != "good":
        return unauthenticated("unknown token")
    return authenticated(UserInfo(username="ann", groups=["devs"]), audiences=request.audiences)


async def ask(body: bytes, content_type: str = "application/json") -> Any:
    """The review that comes back."""
    server = WebhookServer()
    server.register("/token", AuthenticationWebhook(check))
    status, answer = await post(server, "/token", body, content_type)
    assert status == 200
    return answer


def token_review(token: str, version: str = "v1") -> bytes:
    """A TokenReview."""
    head = {"apiVersion": f"authentication.k8s.io/{version}", "kind": "TokenReview", "metadata": {"uid": "u"}}
    return json.dumps({**head, "spec": {"token": token, "audiences": ["api"]}}).encode()


@pytest.mark.behaviour(131)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_token_has_a_user_or_none(version: str) -> None:
    """The answer has the version of the request, and the user of a valid token."""
    answer = await ask(token_review("good", version))
    assert (answer["apiVersion"], answer["kind"]) == (f"authentication.k8s.io/{version}", "TokenReview")
    assert answer["metadata"] == {"uid": "u"}
    assert answer["status"]["authenticated"] is True
    assert answer["status"]["user"]["username"] == "ann"
    assert answer["status"]["audiences"] == ["api"]
    answer = await ask(token_review("bad", version))
    assert answer["status"] == {"user": {}, "error": "unknown token"}
    assert "bad" not in json.dumps(answer)


@pytest.mark.behaviour(131)
@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        (b"", "application/json", "request body is empty"),
        (b"{", "application/json", "does not decode"),
        (b"{}", "application/json", "token is empty"),
        (token_review(""), "application/json", "token is empty"),
        (token_review("good"), "text/plain", "contentType=text/plain"),
        (b'{"apiVersion":"v1","kind":"Pod"}', "application/json", "is not known"),
        (b" " * MAX_REQUEST_SIZE, "application/json", "too large"),
    ],
)
async def test_errors_stand_in_the_review(body: bytes, content_type: str, message: str) -> None:
    """An invalid TokenReview gets a review with the error, and no user."""
    answer = await ask(body, content_type)
    assert "authenticated" not in answer["status"]
    assert message in answer["status"]["error"]


@pytest.mark.behaviour(131)
async def test_a_handler_that_raises_authenticates_nobody() -> None:
    """The review of a handler that raises is not authenticated, and has no traceback."""
    answer = await ask(token_review("crash"))
    assert answer["status"] == {"user": {}, "error": "panic: RuntimeError: the directory is down [recovered]"}
    assert (await ask(token_review("late")))["status"]["error"] == "try again"


def test_a_token_is_not_shown() -> None:
    """The token is in no representation of the request."""
    assert "secret" not in repr(TokenRequest(token="secret"))


json_objects = st.dictionaries(st.sampled_from(["spec", "request", "kind", "apiVersion"]), st.none() | st.text()).map(
    lambda tree: json.dumps(tree).encode()
)


@given(st.binary(max_size=60) | json_objects)
def test_any_body_decodes_or_raises_an_opsdk_error(body: bytes) -> None:
    """Any body decodes, or raises one of opsdk's errors."""
    with pytest.raises(BadRequestError):
        decode_review(body, "application/json")
