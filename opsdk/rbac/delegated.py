"""Authentication and authorization by the API server: TokenReviews and SubjectAccessReviews, with their results cached.

Upstream: k8s.io/apiserver/pkg/authentication/authenticatorfactory/delegating.go, authorizerfactory/delegating.go
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Hashable
from typing import Protocol, TypeVar

import msgspec
from cachetools import TTLCache

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.timeout import timeout
from opsdk.api.authentication.v1 import TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo
from opsdk.api.authorization.v1 import (
    NonResourceAttributes,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from opsdk.apimachinery.object import TypedObject
from opsdk.errors import OpsdkError

# Seconds for which the result of a review holds, and for one attempt of a review.
_TOKEN_SECONDS = 60.0
_ALLOW_SECONDS = 300.0
_DENY_SECONDS = 30.0
_TIMEOUT = 10.0
# Attempts of a review whose request fails, and the waits between them (WebhookRetryBackoff).
_TRIES = 5
_BACKOFF = Backoff(base=0.5, factor=1.5, jitter=0.2)
_MAX_CACHED = 1024

O = TypeVar("O", bound=TypedObject)  # noqa: E741 - an object


class ReviewClient(Protocol):
    """The method of `opsdk.client.client.Client` that sends reviews."""

    def create(self, obj: O, /) -> Awaitable[O]:
        """Send a review, and return it with its status. Raises `OpsdkError`."""
        ...


async def send_review(client: ReviewClient, review: O, clock: Clock) -> O:
    """Return a review with its status. A retryable failure is retried; 5 attempts of at most 10 s each.

    Raises:
        OpsdkError: the last attempt failed, or the failure is not retryable.
        TimeoutError: an attempt took too long. It is not retried.
    """
    waits = _BACKOFF.start()
    for number in range(1, _TRIES + 1):
        try:
            async with timeout(clock, _TIMEOUT):
                return await client.create(review)
        except OpsdkError as error:
            if not error.retryable or number == _TRIES:
                raise
            await clock.sleep(waits.next(clock.now()))
    raise AssertionError  # the last attempt returns or raises


class DelegatedAuth:
    """Lets the API server decide who a token belongs to, and what a user may do.

    The result of a TokenReview holds for `token_seconds`, a permission for `allow_seconds`, a denial for 30 s.

    Args:
        client: sends the reviews; its user needs ``create`` on ``tokenreviews`` and ``subjectaccessreviews``.
        token_seconds: for which the result of a TokenReview holds.
        allow_seconds: for which a permission holds.
        max_cached: results of each kind that are kept.
        clock: source of time.
    """

    def __init__(
        self,
        client: ReviewClient,
        *,
        token_seconds: float = _TOKEN_SECONDS,
        allow_seconds: float = _ALLOW_SECONDS,
        max_cached: int = _MAX_CACHED,
        clock: Clock = LOOP_CLOCK,
    ) -> None:
        self._client = client
        self._clock = clock
        self._tokens: TTLCache[Hashable, TokenReviewStatus] = TTLCache(max_cached, token_seconds, timer=clock.now)
        self._allowed: TTLCache[Hashable, None] = TTLCache(max_cached, allow_seconds, timer=clock.now)
        self._denied: TTLCache[Hashable, None] = TTLCache(max_cached, _DENY_SECONDS, timer=clock.now)

    async def user_of(self, token: str) -> UserInfo | None:
        """Return the user of a token, or None if it is not valid. Raises `OpsdkError` or TimeoutError."""
        # The token itself must not stay in memory.
        key = hashlib.sha256(token.encode()).digest()
        status = self._tokens.get(key)
        if status is None:
            review = TokenReview(spec=TokenReviewSpec(token=token))
            status = self._tokens[key] = (await send_review(self._client, review, self._clock)).status
        return status.user if status.authenticated else None

    async def allows(self, user: UserInfo, attributes: ResourceAttributes | NonResourceAttributes) -> bool:
        """Return whether a user may do something. Raises `OpsdkError` or TimeoutError."""
        extra = tuple((name, *values) for name, values in sorted(user.extra.items()))
        what = type(attributes).__name__, msgspec.json.encode(attributes)
        key = (user.username, user.uid, tuple(user.groups), extra, what)
        if key in self._allowed:
            return True
        if key in self._denied:
            return False
        spec = SubjectAccessReviewSpec(user=user.username, uid=user.uid, groups=user.groups, extra=user.extra)
        if isinstance(attributes, ResourceAttributes):
            spec.resource_attributes = attributes
        else:
            spec.non_resource_attributes = attributes
        review = await send_review(self._client, SubjectAccessReview(spec=spec), self._clock)
        allowed = review.status.allowed and not review.status.denied
        (self._allowed if allowed else self._denied)[key] = None
        return allowed

    def __repr__(self) -> str:
        return f"<DelegatedAuth of {len(self._tokens)} tokens>"
