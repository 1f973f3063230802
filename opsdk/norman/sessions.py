"""Limits the open subscriptions of each user.

Upstream: none; Rancher has no limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from opsdk.errors import NormanError
from opsdk.http.server.response import StreamResponse, UpgradeResponse

MAX_SESSIONS = 50
"""Subscriptions of one user at a time: a page has one or two."""

SEND_SECONDS = 60.0
"""Seconds after which a subscription ends whose client does not read."""


class SessionLimit:
    """Counts the open subscriptions of each user.

    Args:
        per_user: most subscriptions of one user.
    """

    def __init__(self, per_user: int = MAX_SESSIONS) -> None:
        self._per_user = per_user
        self._open: Counter[str] = Counter()

    def count(self, response: StreamResponse | UpgradeResponse, user: str) -> None:
        """Count a subscription until its response ends. One that exceeds the limit is released.

        Args:
            response: the stream or the upgrade.
            user: a name, or the address of a client without one.

        Raises:
            NormanError: TooManyRequests, with status 429.
        """
        release, is_full = response.release, self._open[user] >= self._per_user
        if is_full:
            _release(release)
            text = f"{self._per_user} subscriptions are open: close one first"
            raise NormanError(text, status=429, code="TooManyRequests")
        self._open[user] += 1

        def end() -> None:
            self._open -= Counter({user: 1})  # drops a user without subscriptions
            _release(release)

        response.release = end

    def __repr__(self) -> str:
        return f"<SessionLimit: {self._open.total()} open>"


def _release(release: Callable[[], None] | None) -> None:
    if release is not None:
        release()
