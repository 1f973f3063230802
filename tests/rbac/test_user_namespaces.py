"""The namespaces in which a user has a right."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from opsdk.api.authentication.v1 import UserInfo
from opsdk.api.authorization.v1 import ResourceRule, SelfSubjectRulesReview
from opsdk.errors import ForbiddenError, ServiceUnavailableError, UnauthorizedError
from opsdk.rbac.user_namespaces import UserNamespaces

LIST = ResourceRule(verbs=["list"], api_groups=["apps"], resources=["deployments"])
ADMIN = ResourceRule(verbs=["*"], api_groups=["*"], resources=["*"])
READ = ResourceRule(verbs=["get", "watch"], api_groups=["apps"], resources=["deployments"])
NAMED = ResourceRule(verbs=["list"], api_groups=["apps"], resources=["deployments"], resource_names=["a"])


class Reviews:
    """Answers for one user at a time, and counts."""

    def __init__(self, rules: Mapping[str, ResourceRule | Exception]) -> None:
        self.rules = dict(rules)
        self.asked: Counter[str] = Counter()
        self.open = self.most = 0

    async def create(self, review: SelfSubjectRulesReview, /) -> SelfSubjectRulesReview:
        """Answer after a while."""
        namespace = review.spec.namespace or ""
        self.asked[namespace] += 1
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0.1)
        self.open -= 1
        rule = self.rules.get(namespace)
        if isinstance(rule, Exception):
            raise rule
        review.status.resource_rules = [rule] if rule is not None else []
        return review

    def namespaces(self, *names: str, **options: int) -> UserNamespaces:
        """Return what is tested, over the given namespaces."""

        async def namespaces() -> list[str]:
            return list(names) or sorted(self.rules)

        return UserNamespaces(lambda _: self, namespaces, **options)


ADA = UserInfo(username="ada", groups=["dev"])


async def test_only_rules_for_all_objects_count() -> None:
    """Wildcards count; rules for names, for other verbs and for other resources do not."""
    reviews = Reviews({"a": LIST, "b": ADMIN, "c": READ, "d": NAMED, "e": ForbiddenError("no")})
    namespaces = reviews.namespaces()
    assert await namespaces.allowing(ADA, "list", "apps", "deployments") == ["a", "b"]
    assert await namespaces.allowing(ADA, "list", "", "secrets") == ["b"]
    assert await namespaces.allowing(ADA, "create", "apps", "deployments") == ["b"]
    assert set(reviews.asked.values()) == {1}


async def test_results_hold_for_a_while() -> None:
    """A right that is taken away ends after ten seconds, one that is granted is seen after thirty."""
    reviews = Reviews({"a": LIST, "b": READ})
    namespaces = reviews.namespaces()
    assert await namespaces.allowing(ADA, "list", "apps", "deployments") == ["a"]
    reviews.rules = {"a": READ, "b": LIST}
    assert await namespaces.allowing(ADA, "list", "apps", "deployments") == ["a"]
    await asyncio.sleep(10.5)
    assert await namespaces.allowing(ADA, "list", "apps", "deployments") == []
    await asyncio.sleep(20)
    assert await namespaces.allowing(ADA, "list", "apps", "deployments") == ["b"]


async def test_each_user_has_own_results() -> None:
    """Groups are a part of the user."""
    reviews = Reviews({"a": LIST})
    namespaces = reviews.namespaces()
    await namespaces.allowing(ADA, "list", "apps", "deployments")
    reviews.rules = {"a": READ}
    assert await namespaces.allowing(UserInfo(username="ada"), "list", "apps", "deployments") == []


async def test_reviews_are_bounded() -> None:
    """At most eight are in flight, and a cluster with many namespaces has a limit."""
    names = [f"n{number:02}" for number in range(30)]
    reviews = Reviews(dict.fromkeys(names, LIST))
    namespaces = reviews.namespaces(*reversed(names), max_namespaces=20)
    assert await namespaces.allowing(ADA, "list", "apps", "deployments") == names[:20]
    assert (reviews.most, len(reviews.asked)) == (8, 20)


async def test_a_review_that_fails_is_an_error() -> None:
    """A user must not take a part of the objects for all of them. No review outlives the call."""
    reviews = Reviews({"a": ServiceUnavailableError("down"), "b": LIST, "c": UnauthorizedError("expired")})
    with pytest.raises(ServiceUnavailableError):
        await reviews.namespaces().allowing(ADA, "list", "apps", "deployments")
    assert reviews.asked == {"a": 5, "b": 1, "c": 1}
    assert reviews.open == 0


async def test_a_failure_that_may_pass_is_retried() -> None:
    """The result is that of the next attempt."""
    reviews = Reviews({"a": ServiceUnavailableError("down")})
    asyncio.get_running_loop().call_later(0.3, reviews.rules.__setitem__, "a", LIST)
    assert await reviews.namespaces().allowing(ADA, "list", "apps", "deployments") == ["a"]
    assert reviews.asked == {"a": 2}
