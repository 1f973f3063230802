"""The namespaces in which a user has a right: SelfSubjectRulesReviews, with their results cached.

Upstream: none. A SubjectAccessReview has one namespace; a rules review answers for all resources of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable
from typing import Literal

import msgspec
from cachetools import TLRUCache

from opsdk.aio.clock import monotonic
from opsdk.api.authentication.v1 import UserInfo
from opsdk.api.authorization.v1 import SelfSubjectRulesReview, SelfSubjectRulesReviewSpec
from opsdk.errors import ForbiddenError
from opsdk.rbac.delegated import ReviewClient, send_review
from opsdk.rbac.permissions import Permission, RuleSet

__all__ = ["UserNamespaces"]

# Seconds for which the rules of a namespace hold: with one of the rights, and without.
_ALLOW_SECONDS = 10.0
_DENY_SECONDS = 30.0
# Reviews in flight at a time.
_CONCURRENCY = 8
_MAX_CACHED = 16_384
# Only rules with these verbs are kept.
_REVIEWED_VERBS = frozenset({"list", "create", "*"})


class UserNamespaces:
    """Finds the namespaces in which a user may list a resource, or create objects of it.

    Each namespace takes one review for all resources. Its result holds for 10 s, or 30 s if the user may do neither
    there. The rules of authorizers that cannot list rules, such as webhooks, are not seen.

    Args:
        client_for: returns the client that sends the reviews as a user.
        namespaces: returns the names of all namespaces.
        max_namespaces: only the first ones in the order of their names are reviewed.
    """

    def __init__(
        self,
        client_for: Callable[[UserInfo], ReviewClient],
        namespaces: Callable[[], Awaitable[Iterable[str]]],
        *,
        max_namespaces: int = 200,
    ) -> None:
        self._client_for = client_for
        self._namespaces = namespaces
        self._max_namespaces = max_namespaces
        self._rules: TLRUCache[Hashable, RuleSet] = TLRUCache(_MAX_CACHED, ttu=_expiry, timer=monotonic)

    async def allowing(
        self, user: UserInfo, verb: Literal["list", "create"], group: str, resource: str
    ) -> Collection[str]:
        """Return the names, sorted. Raises `OpsdkError` or TimeoutError."""
        names = sorted(await self._namespaces())[: self._max_namespaces]
        allowing: list[str] = []
        for first in range(0, len(names), _CONCURRENCY):
            chunk = names[first : first + _CONCURRENCY]
            # With `return_exceptions`: otherwise the other reviews would continue after the first error.
            results = await asyncio.gather(*(self._rules_review(user, name) for name in chunk), return_exceptions=True)
            for name, rules in zip(chunk, results, strict=True):
                if isinstance(rules, BaseException):
                    raise rules
                if rules.covers(Permission(verb, group, resource, namespace=name)):
                    allowing.append(name)
        return allowing

    async def _rules_review(self, user: UserInfo, namespace: str) -> RuleSet:
        key = (msgspec.json.encode(user, order="deterministic"), namespace)
        rules = self._rules.get(key)
        if rules is None:
            review = SelfSubjectRulesReview(spec=SelfSubjectRulesReviewSpec(namespace=namespace))
            try:
                review = await send_review(self._client_for(user), review)
            except ForbiddenError:
                rules = RuleSet()
            else:
                answer = RuleSet.from_review(review.status, namespace)
                rules = RuleSet(each for each in answer.permissions if each.verb in _REVIEWED_VERBS)
            self._rules[key] = rules
        return rules

    def __repr__(self) -> str:
        return f"<UserNamespaces with {len(self._rules)} results>"


def _expiry(_: Hashable, rules: RuleSet, now: float) -> float:
    return now + (_ALLOW_SECONDS if len(rules) else _DENY_SECONDS)
