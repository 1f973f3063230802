"""Reviews at another server: what is asked, what the answers mean, how long they hold."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.apiserver.auth.authorization import AuthorizerAttributes
from opsdk.apiserver.auth.delegated import REMEMBERED, DelegatedAuthorizer, DelegatedTokens
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.errors import ServiceUnavailableError, UnauthorizedError
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.clock import ManualClock

ALICE = User(name="alice", uid="u", groups=("devs",), extra={"k": ("a", "b")})


class Front:
    """Answers every review with one status, or fails."""

    def __init__(self, status: JsonObject | None) -> None:
        self.status = status
        self.asked: list[JsonObject] = []

    async def __call__(self, review: JsonObject) -> JsonObject:
        self.asked.append(review)
        if self.status is None:
            raise ServiceUnavailableError("gone")
        return {**review, "status": self.status}


async def test_a_token_is_whose_the_review_says() -> None:
    """Name, uid, groups and extra come from the answer, which holds for a while."""
    user = {"username": "alice", "uid": "u", "groups": ["devs"], "extra": {"k": ["a", "b"]}}
    front, clock = Front({"authenticated": True, "user": user, "audiences": ["me"]}), ManualClock()
    tokens = DelegatedTokens(front, clock=clock)
    for _ in range(3):
        found = await tokens.check("t", ["me"])
        assert found is not None
        assert (found.user, found.audiences) == (ALICE, ("me",))
    assert [review["spec"] for review in front.asked] == [{"token": "t", "audiences": ["me"]}]
    await clock.advance(REMEMBERED + 1)
    await tokens.check("t", ["me"])
    await tokens.check("other", ["me"])
    assert len(front.asked) == 3


@pytest.mark.parametrize("status", [{"error": "expired"}, None])
async def test_a_token_that_is_wrong_or_cannot_be_checked_is_refused(status: JsonObject | None) -> None:
    """A reason from the server in front, or its silence, is a refusal."""
    with pytest.raises(UnauthorizedError):
        await DelegatedTokens(Front(status)).check("t", [])


async def test_a_token_of_nobody_is_left_to_others() -> None:
    """No user and no reason: some other way may know it."""
    assert await DelegatedTokens(Front({})).check("t", []) is None


def wish(**more: Any) -> AuthorizerAttributes:
    """What alice wants."""
    return AuthorizerAttributes(
        user=ALICE, verb="get", group="g", version="v1", resource="books", namespace="n", **more
    )


async def test_a_wish_is_asked_once() -> None:
    """The whole wish is told; the same wish is not asked again for a while, another one is."""
    front, clock = Front({"allowed": True, "reason": "role"}), ManualClock()
    authorizer = DelegatedAuthorizer(front, clock=clock)
    for _ in range(2):
        decision = await authorizer.authorize(wish())
        assert (decision.allowed, decision.reason) == (True, "role")
    assert [review["spec"] for review in front.asked] == [
        {
            "user": "alice",
            "uid": "u",
            "groups": ["devs"],
            "extra": {"k": ["a", "b"]},
            "resourceAttributes": {
                "namespace": "n", "verb": "get", "group": "g", "version": "v1", "resource": "books",
            },
        }
    ]  # fmt: skip
    await authorizer.authorize(wish(name="x"))
    await clock.advance(REMEMBERED + 1)
    await authorizer.authorize(wish())
    assert len(front.asked) == 3


async def test_no_answer_is_no_yes_and_is_not_remembered() -> None:
    """A server that cannot be asked allows nothing; the next wish is asked anew."""
    front = Front(None)
    authorizer = DelegatedAuthorizer(front, clock=ManualClock())
    decision = await authorizer.authorize(wish())
    assert (decision.allowed, "gone" in decision.error) == (False, True)
    front.status = {"allowed": True}
    assert (await authorizer.authorize(wish())).allowed


async def test_masters_and_health_need_no_review() -> None:
    """Probes must work while the server in front is away."""
    front = Front(None)
    authorizer = DelegatedAuthorizer(front, clock=ManualClock())
    asked = [
        AuthorizerAttributes(user=User(name="root", groups=(MASTERS,)), verb="delete", resource="books"),
        AuthorizerAttributes(user=ALICE, verb="get", resource_request=False, path="/healthz"),
    ]
    assert all([(await authorizer.authorize(attributes)).allowed for attributes in asked])
    other = AuthorizerAttributes(user=ALICE, verb="get", resource_request=False, path="/apis")
    assert not (await authorizer.authorize(other)).allowed
    assert front.asked[0]["spec"]["nonResourceAttributes"] == {"path": "/apis", "verb": "get"}
