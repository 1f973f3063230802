"""Delegated reviews: requests, results and caching."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opsdk.api.authentication.v1 import TokenReviewSpec, TokenReviewStatus, UserInfo
from opsdk.api.authorization.v1 import (
    NonResourceAttributes,
    ResourceAttributes,
    SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
)
from opsdk.apiserver.auth.authorization import AuthorizerAttributes
from opsdk.apiserver.auth.delegated import DelegatedAuthorizer, DelegatedTokens
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.errors import ForbiddenError, ServiceUnavailableError, UnauthorizedError
from opsdk.rbac.delegated import DelegatedAuth

ALICE = User(name="alice", uid="u", groups=("devs",), extra={"k": ("a", "b")})


class Front:
    """Answers every review with one status, or fails."""

    def __init__(self, status: Any) -> None:
        self.status = status
        self.specs: list[Any] = []

    async def create(self, review: Any, /) -> Any:
        """Answer at once."""
        self.specs.append(review.spec)
        if isinstance(self.status, Exception):
            raise self.status
        review.status = self.status
        return review

    def auth(self) -> DelegatedAuth:
        """Return reviews by this server."""
        return DelegatedAuth(self)


async def test_a_token_belongs_to_the_user_of_the_review() -> None:
    """User, uid, groups and extra come from the review, which is cached for ten seconds per audiences."""
    user = UserInfo(username="alice", uid="u", groups=["devs"], extra={"k": ["a", "b"]})
    front = Front(TokenReviewStatus(authenticated=True, user=user, audiences=["me"]))
    tokens = DelegatedTokens(front.auth())
    for _ in range(3):
        result = await tokens.check("t", ["me"])
        assert result is not None
        assert (result.user, result.audiences) == (ALICE, ("me",))
    assert front.specs == [TokenReviewSpec(token="t", audiences=["me"])]
    await tokens.check("t", [])
    await tokens.check("other", ["me"])
    assert len(front.specs) == 3
    await asyncio.sleep(11)
    await tokens.check("t", ["me"])
    assert len(front.specs) == 4


@pytest.mark.parametrize("status", [TokenReviewStatus(error="expired"), ForbiddenError("no")])
async def test_a_token_that_is_wrong_or_cannot_be_checked_is_refused(status: Any) -> None:
    """An error in the review, or of its request, rejects the token."""
    with pytest.raises(UnauthorizedError):
        await DelegatedTokens(Front(status).auth()).check("t", [])


async def test_an_unknown_token_is_left_to_other_checkers() -> None:
    """A review without user and error leaves the token to the next authenticator."""
    assert await DelegatedTokens(Front(TokenReviewStatus()).auth()).check("t", []) is None


def get_book(**more: Any) -> AuthorizerAttributes:
    """Return the attributes of alice's request for a book."""
    return AuthorizerAttributes(
        user=ALICE, verb="get", group="g", version="v1", resource="books", namespace="n", **more
    )


async def test_a_request_is_reviewed_once() -> None:
    """A review has all attributes, and is cached for ten seconds for equal ones."""
    front = Front(SubjectAccessReviewStatus(allowed=True, reason="role"))
    authorizer = DelegatedAuthorizer(front.auth())
    for _ in range(2):
        decision = await authorizer.authorize(get_book())
        assert (decision.allowed, decision.reason) == (True, "role")
    attributes = ResourceAttributes(
        namespace="n", verb="get", group="g", version="v1", resource="books", subresource="", name=""
    )
    spec = SubjectAccessReviewSpec(user="alice", uid="u", groups=["devs"], extra={"k": ["a", "b"]})
    spec.resource_attributes = attributes
    assert front.specs == [spec]
    await authorizer.authorize(get_book(name="x"))
    await asyncio.sleep(11)
    await authorizer.authorize(get_book())
    assert len(front.specs) == 3


async def test_a_denial_overrides_a_permission() -> None:
    """A status that is both allowed and denied is a denial."""
    front = Front(SubjectAccessReviewStatus(allowed=True, denied=True))
    decision = await DelegatedAuthorizer(front.auth()).authorize(get_book())
    assert (decision.allowed, decision.denied) == (False, True)


async def test_a_failed_review_allows_nothing_and_is_not_cached() -> None:
    """The next request is reviewed again."""
    front = Front(ForbiddenError("no reviews"))
    authorizer = DelegatedAuthorizer(front.auth())
    decision = await authorizer.authorize(get_book())
    assert (decision.allowed, "no reviews" in decision.error) == (False, True)
    front.status = SubjectAccessReviewStatus(allowed=True)
    assert (await authorizer.authorize(get_book())).allowed


async def test_a_failure_that_may_pass_is_retried() -> None:
    """A review is retried while the server in front restarts."""
    front = Front(ServiceUnavailableError("restarting"))
    decision = asyncio.create_task(DelegatedAuthorizer(front.auth()).authorize(get_book()))
    await asyncio.sleep(0.1)
    front.status = SubjectAccessReviewStatus(allowed=True)
    await asyncio.sleep(1)
    assert (await decision).allowed
    assert len(front.specs) == 2


async def test_masters_and_health_need_no_review() -> None:
    """Probes and system:masters work while the server in front is down."""
    front = Front(ForbiddenError("no"))
    authorizer = DelegatedAuthorizer(front.auth())
    granted = [
        AuthorizerAttributes(user=User(name="root", groups=(MASTERS,)), verb="delete", resource="books"),
        AuthorizerAttributes(user=ALICE, verb="get", resource_request=False, path="/healthz"),
    ]
    assert all([(await authorizer.authorize(attributes)).allowed for attributes in granted])
    other = AuthorizerAttributes(user=ALICE, verb="get", resource_request=False, path="/apis")
    assert not (await authorizer.authorize(other)).allowed
    assert front.specs[0].non_resource_attributes == NonResourceAttributes(path="/apis", verb="get")
