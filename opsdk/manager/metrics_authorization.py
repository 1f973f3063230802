"""Authentication and authorization of the readers of the metrics endpoint.

Upstream: sigs.k8s.io/controller-runtime/pkg/metrics/filters/filters.go
Deviates: a token that the API server refuses is 401; controller-runtime answers 500, because the review has an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol, TypeVar

from cachetools import TTLCache

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.timeout import timeout
from opsdk.api.authentication.v1 import TokenReview, TokenReviewSpec, UserInfo
from opsdk.api.authorization.v1 import NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from opsdk.apimachinery.object import TypedObject
from opsdk.errors import OpsdkError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, text_response
from opsdk.telemetry.describe import describe
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

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


class MetricsAuthorization:
    """Lets a request pass if its bearer token belongs to a user who may access the path.

    The token is checked with a TokenReview, whose result holds for a minute. The user is checked with a
    SubjectAccessReview for the path and the method in lower case; a permission holds for 5 minutes, a denial for 30 s.
    Grant it with a ClusterRole: ``nonResourceURLs: ["/metrics"], verbs: ["get"]``.

    Args:
        client: sends the reviews; its user needs ``create`` on ``tokenreviews`` and ``subjectaccessreviews``.
        clock: source of time.
    """

    def __init__(self, client: ReviewClient, *, clock: Clock = LOOP_CLOCK) -> None:
        self._client = client
        self._clock = clock
        self._users: TTLCache[Hashable, UserInfo | None] = TTLCache(_MAX_CACHED, _TOKEN_SECONDS, timer=clock.now)
        self._allowed: TTLCache[Hashable, None] = TTLCache(_MAX_CACHED, _ALLOW_SECONDS, timer=clock.now)
        self._denied: TTLCache[Hashable, None] = TTLCache(_MAX_CACHED, _DENY_SECONDS, timer=clock.now)

    async def check(self, request: HttpRequest) -> HttpResponse | None:
        """Return None to let the request pass, or the response: 401, 403, or 500 if a review fails."""
        scheme, _, token = request.header("authorization").partition(" ")
        if scheme.lower() != "bearer" or not (token := token.strip()):
            return text_response("Unauthorized\n", status=401)
        try:
            user = await self._user_of(token)
        except (OpsdkError, TimeoutError) as error:
            log.error("the token of a reader of %s cannot be checked: %s", request.path, describe(error)[0])  # noqa: TRY400 - one line
            return text_response("Authentication failed\n", status=500)
        if user is None:
            return text_response("Unauthorized\n", status=401)
        name = user.username or ""
        try:
            allowed = await self._may_access(user, request.path, request.method.lower())
        except (OpsdkError, TimeoutError) as error:
            log.error("the access of %s to %s cannot be checked: %s", name, request.path, describe(error)[0])  # noqa: TRY400 - one line
            return text_response(f"Authorization for user {name} failed\n", status=500)
        return None if allowed else text_response(f"Authorization denied for user {name}\n", status=403)

    async def _user_of(self, token: str) -> UserInfo | None:
        # The token itself must not stay in memory.
        key = hashlib.sha256(token.encode()).digest()
        if key not in self._users:
            review = await self._create(lambda: TokenReview(spec=TokenReviewSpec(token=token)))
            self._users[key] = review.status.user if review.status.authenticated else None
        return self._users.get(key)

    async def _may_access(self, user: UserInfo, path: str, verb: str) -> bool:
        extra = tuple((name, *values) for name, values in sorted(user.extra.items()))
        key = (user.username, user.uid, tuple(user.groups), extra, path, verb)
        if key in self._allowed:
            return True
        if key in self._denied:
            return False
        spec = SubjectAccessReviewSpec(
            user=user.username,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
            non_resource_attributes=NonResourceAttributes(path=path, verb=verb),
        )
        review = await self._create(lambda: SubjectAccessReview(spec=spec))
        allowed = review.status.allowed and not review.status.denied
        (self._allowed if allowed else self._denied)[key] = None
        return allowed

    async def _create(self, review: Callable[[], O]) -> O:
        """Send a review, again after failures that may pass. Raises `OpsdkError` or TimeoutError."""
        waits = _BACKOFF.start()
        for number in range(1, _TRIES + 1):
            try:
                async with timeout(self._clock, _TIMEOUT):
                    return await self._client.create(review())
            except OpsdkError as error:
                if not error.retryable or number == _TRIES:
                    raise
                await self._clock.sleep(waits.next(self._clock.now()))
        raise AssertionError  # the last attempt returns or raises

    def __repr__(self) -> str:
        return f"<MetricsAuthorization of {len(self._users)} tokens>"
