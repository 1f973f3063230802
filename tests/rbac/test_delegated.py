"""Reviews by the API server and how long their results hold."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from opsdk.api.authentication.v1 import TokenReview, UserInfo
from opsdk.rbac.delegated import DelegatedAuth


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


async def test_a_token_may_expire_between_two_readings_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid token is never refused, whenever its cached result expires."""
    seconds_read = count(1.0)  # a second passes at each reading
    monkeypatch.setattr("opsdk.rbac.delegated.monotonic", lambda: next(seconds_read))
    for seconds in range(2, 12):
        reviewer = Reviewer()
        auth = DelegatedAuth(reviewer, token_seconds=seconds + 0.5)
        users = [await auth.user_of("good") for _ in range(20)]
        assert users == [UserInfo(username="ada")] * 20
        assert 1 < len(reviewer.reviews) < 20
