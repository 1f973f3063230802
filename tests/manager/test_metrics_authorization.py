"""Who may read the metrics: reviews, their caches, and failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from container_sizes import container_sizes, growth

from opsdk.aio.clock import monotonic
from opsdk.api.authentication.v1 import TokenReview, UserInfo
from opsdk.api.authorization.v1 import SubjectAccessReview
from opsdk.errors import ForbiddenError, InternalServerError, OpsdkError
from opsdk.http.server.request import HttpRequest
from opsdk.manager.metrics_authorization import MetricsAuthorization

READER = UserInfo(username="prometheus", uid="1", groups=["monitoring"], extra={"scopes": ["a"]})


class Reviewer:
    """An API server that knows one token and one permission; `errors` are raised first."""

    def __init__(self, *errors: OpsdkError) -> None:
        self.errors = list(errors)
        self.reviews: list[Any] = []
        self.allowed = True
        self.delay = 0.0

    async def create(self, obj: Any, /) -> Any:
        self.reviews.append(obj)
        await asyncio.sleep(self.delay)
        if self.errors:
            raise self.errors.pop(0)
        if isinstance(obj, TokenReview):
            obj.status.authenticated = obj.spec.token == "good"
            obj.status.error = None if obj.status.authenticated else "invalid bearer token"
            obj.status.user = READER if obj.status.authenticated else UserInfo()
        else:
            assert isinstance(obj, SubjectAccessReview)
            obj.status.allowed = self.allowed
        return obj

    def count(self, kind: type) -> int:
        return sum(isinstance(review, kind) for review in self.reviews)


def request(token: str | None = "Bearer good", path: str = "/metrics", method: str = "GET") -> HttpRequest:
    """A request with an Authorization header."""
    headers = [] if token is None else [(b"authorization", token.encode())]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    return HttpRequest.from_scope(scope, receive)


async def status(authorization: MetricsAuthorization, **given: Any) -> int:
    """The status of the answer; 200 if the request passes."""
    response = await authorization.check(request(**given))
    return 200 if response is None else response.status


@pytest.mark.behaviour(133, better="a refused token is 401, not 500")
async def test_reviews_decide_the_status() -> None:
    """No token and a refused token are 401, a denial is 403 with the user, a failed review is 500."""
    reviewer = Reviewer()
    authorization = MetricsAuthorization(reviewer)
    for token in (None, "", "Bearer", "Bearer  ", "Basic good", "good"):
        assert await status(authorization, token=token) == 401
    assert not reviewer.reviews
    assert await status(authorization, token="Bearer bad") == 401
    assert await status(authorization, token="bearer good") == 200
    reviewer.allowed = False
    denied = await authorization.check(request(path="/debug"))
    assert denied is not None
    assert (denied.status, denied.body) == (403, b"Authorization denied for user prometheus\n")
    assert await status(MetricsAuthorization(Reviewer(ForbiddenError("no"))), token="Bearer good") == 500


async def test_the_review_names_user_path_and_verb() -> None:
    """All that the token says about the user is reviewed, with path and method in lower case."""
    reviewer = Reviewer()
    await status(MetricsAuthorization(reviewer))
    spec = reviewer.reviews[1].spec
    assert (spec.user, spec.uid, spec.groups, spec.extra) == ("prometheus", "1", ["monitoring"], {"scopes": ["a"]})
    assert (spec.non_resource_attributes.path, spec.non_resource_attributes.verb) == ("/metrics", "get")


@pytest.mark.behaviour(133)
async def test_results_hold_for_their_time() -> None:
    """A token holds for a minute, a permission for 5 minutes, a denial for 30 seconds, and only for its path."""
    reviewer = Reviewer()
    authorization = MetricsAuthorization(reviewer)
    await status(authorization)
    await asyncio.sleep(59)
    await status(authorization)
    assert (reviewer.count(TokenReview), reviewer.count(SubjectAccessReview)) == (1, 1)
    await asyncio.sleep(2)
    await status(authorization)
    assert (reviewer.count(TokenReview), reviewer.count(SubjectAccessReview)) == (2, 1)
    await asyncio.sleep(240)
    await status(authorization)
    assert (reviewer.count(TokenReview), reviewer.count(SubjectAccessReview)) == (3, 2)
    reviewer.allowed = False
    assert await status(authorization) == 200
    assert await status(authorization, path="/other") == 403
    await asyncio.sleep(29)
    reviewer.allowed = True
    assert await status(authorization, path="/other") == 403
    await asyncio.sleep(2)
    assert await status(authorization, path="/other") == 200


@pytest.mark.behaviour(133)
async def test_a_failing_server_is_asked_again_a_few_times() -> None:
    """Failures that may pass are retried five times in all; a hung request ends after 10 seconds."""
    broken = InternalServerError("down")
    reviewer = Reviewer(broken, broken)
    assert await status(MetricsAuthorization(reviewer)) == 200
    assert reviewer.count(TokenReview) == 3
    reviewer = Reviewer(*[broken] * 9)
    began = monotonic()
    assert await status(MetricsAuthorization(reviewer)) == 500
    assert reviewer.count(TokenReview) == 5
    assert 4 < monotonic() - began < 5
    reviewer = Reviewer()
    reviewer.delay = 3600
    began = monotonic()
    assert await status(MetricsAuthorization(reviewer)) == 500
    assert monotonic() - began == 10


async def test_a_failure_is_not_remembered(caplog: pytest.LogCaptureFixture) -> None:
    """After a 500 response, the next request is reviewed again. The log has the failure, but not the token."""
    reviewer = Reviewer(ForbiddenError("tokenreviews is forbidden"))
    authorization = MetricsAuthorization(reviewer)
    assert await status(authorization) == 500
    assert await status(authorization) == 200
    assert "tokenreviews is forbidden" in caplog.text
    assert "good" not in caplog.text
    assert "good" not in repr(vars(authorization))


async def test_the_caches_are_bounded() -> None:
    """A flood of invalid tokens does not fill the memory."""
    authorization = MetricsAuthorization(Reviewer())
    before = container_sizes(authorization)
    for number in range(5000):
        assert await status(authorization, token=f"Bearer {number}") == 401
    assert growth(before, container_sizes(authorization), above=2 * 4096) == {}
