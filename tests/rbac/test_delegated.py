"""Reviews by the API server and how long their results hold."""

from __future__ import annotations

from typing import Any

from opsdk.api.authentication.v1 import TokenReview, UserInfo
from opsdk.rbac.delegated import DelegatedAuth
from opsdk.testing.clock import ManualClock


class Reviewer:
    """An API server that answers every review with yes."""

    def __init__(self) -> None:
        self.reviews: list[Any] = []

    async def create(self, review: Any, /) -> Any:
        """Answer at once."""
        self.reviews.append(review)
        if isinstance(review, TokenReview):
            review.status.authenticated, review.status.user = True, UserInfo(username="ada")
        return review


class Ticking(ManualClock):
    """A clock that advances by a second at each reading."""

    def now(self) -> float:
        self._now += 1
        return super().now()


async def test_a_token_may_expire_between_two_readings_of_the_clock() -> None:
    """A valid token is never refused, whenever its cached result expires."""
    for seconds in range(2, 12):
        reviewer = Reviewer()
        auth = DelegatedAuth(reviewer, token_seconds=seconds + 0.5, clock=Ticking())
        users = [await auth.user_of("good") for _ in range(20)]
        assert users == [UserInfo(username="ada")] * 20
        assert 1 < len(reviewer.reviews) < 20
