"""Authentication and authorization by the API server: TokenReviews and SubjectAccessReviews, with their results cached.

Upstream: k8s.io/apiserver/pkg/authentication/authenticatorfactory/delegating.go, authorizerfactory/delegating.go,
pkg/server/options/authentication.go, authorization.go, pkg/util/webhook/webhook.go (v1.36)
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Hashable, Sequence
from typing import Protocol, TypeVar

import msgspec
from cachetools import TLRUCache, TTLCache

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.api.authentication.v1 import TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo
from opsdk.api.authorization.v1 import (
    NonResourceAttributes,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
)
from opsdk.apimachinery.object import TypedObject
from opsdk.errors import OpsdkError

__all__ = ["DelegatedAuth"]

# Seconds for one attempt of a review.
_TIMEOUT = 10.0
# Attempts of a review whose request fails, and the waits between them (WebhookRetryBackoff).
_ATTEMPTS = 5
_BACKOFF = Backoff(base=0.5, factor=1.5, jitter=0.2)

O = TypeVar("O", bound=TypedObject)  # noqa: E741 - an object


class ReviewClient(Protocol):
    """The method of `opsdk.client.client.Client` that sends reviews."""

    def create(self, obj: O, /) -> Awaitable[O]:
        """Send a review, and return it with its status. Raises `OpsdkError`."""
        ...


async def send_review(client: ReviewClient, review: O) -> O:
    """Return a review with its status. A retryable failure is retried; 5 attempts of at most 10 s each.

    Raises:
        OpsdkError: the last attempt failed, or the failure is not retryable.
        TimeoutError: an attempt took too long. It is not retried.
    """
    waits = _BACKOFF.start()
    for number in range(1, _ATTEMPTS + 1):
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await client.create(review)
        except OpsdkError as error:
            if not error.retryable or number == _ATTEMPTS:
                raise
            await asyncio.sleep(waits.next(monotonic()))
    raise AssertionError  # the last attempt returns or raises


class DelegatedAuth:
    """Authenticates tokens with TokenReviews, and authorizes users with SubjectAccessReviews.

    Failures are not cached.

    Args:
        client: sends the reviews; its user needs ``create`` on ``tokenreviews`` and ``subjectaccessreviews``.
        token_seconds: how long the result of a TokenReview is cached.
        allow_seconds: how long a permission is cached.
        deny_seconds: how long a denial is cached.
        max_cached: how many results of each kind are cached.
    """

    def __init__(
        self,
        client: ReviewClient,
        *,
        token_seconds: float = 10.0,
        allow_seconds: float = 10.0,
        deny_seconds: float = 10.0,
        max_cached: int = 4096,
    ) -> None:
        def expiry(_: Hashable, status: SubjectAccessReviewStatus, now: float) -> float:
            return now + (allow_seconds if status.allowed else deny_seconds)

        self._client = client
        self._token_reviews: TTLCache[Hashable, TokenReviewStatus] = TTLCache(
            max_cached, token_seconds, timer=monotonic
        )
        self._access_reviews: TLRUCache[Hashable, SubjectAccessReviewStatus] = TLRUCache(
            max_cached, expiry, timer=monotonic
        )

    async def review_token(self, token: str, audiences: Sequence[str] = ()) -> TokenReviewStatus:
        """Return the status of a TokenReview. Raises `OpsdkError` or TimeoutError.

        Args:
            token: a bearer token.
            audiences: the token must be valid for one of them; by default for the API server.
        """
        # The token itself must not stay in memory.
        key = (hashlib.sha256(token.encode()).digest(), *audiences)
        status = self._token_reviews.get(key)
        if status is None:
            review = TokenReview(spec=TokenReviewSpec(token=token, audiences=list(audiences)))
            status = self._token_reviews[key] = (await send_review(self._client, review)).status
        return status

    async def user_of(self, token: str) -> UserInfo | None:
        """Return the user of a token, or None if it is not valid. Raises `OpsdkError` or TimeoutError."""
        status = await self.review_token(token)
        return status.user if status.authenticated else None

    async def review_access(self, spec: SubjectAccessReviewSpec) -> SubjectAccessReviewStatus:
        """Return the status of a SubjectAccessReview; ``allowed`` is false if it is denied too.

        Raises `OpsdkError` or TimeoutError.
        """
        key = msgspec.json.encode(spec, order="deterministic")
        status = self._access_reviews.get(key)
        if status is None:
            status = (await send_review(self._client, SubjectAccessReview(spec=spec))).status
            status.allowed = status.allowed and not status.denied
            self._access_reviews[key] = status
        return status

    async def allows(self, user: UserInfo, attributes: ResourceAttributes | NonResourceAttributes) -> bool:
        """Return whether a user may do something. Raises `OpsdkError` or TimeoutError."""
        spec = SubjectAccessReviewSpec(user=user.username, uid=user.uid, groups=user.groups, extra=user.extra)
        if isinstance(attributes, ResourceAttributes):
            spec.resource_attributes = attributes
        else:
            spec.non_resource_attributes = attributes
        return (await self.review_access(spec)).allowed

    def __repr__(self) -> str:
        return f"<DelegatedAuth of {len(self._token_reviews)} tokens>"
