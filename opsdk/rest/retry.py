"""When the same request may be sent again: a pure rule over what happened, and a token bucket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from opsdk.errors import ConnectError, ConnectionLostError, TransportError
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse, retry_after

# client-go's number; a server that says "later" ten times is not helped by an eleventh.
MAX_RETRIES = 10
# Nobody listens: a restart of the server takes longer than we should hide, a full accept queue shorter.
_CONNECT_WAITS = (0.1, 0.5)
_READS = frozenset({"GET", "HEAD"})


def retry_delay(
    request: RestRequest, outcome: RestResponse | TransportError, attempt: int, *, now: datetime | None = None
) -> float | None:
    """Seconds to wait before sending `request` again, or None: hand out `outcome`.

    `attempt` counts the repetitions so far. A request is repeated whatever its verb only where it was certainly not
    processed: the server said so, or no connection was made. A connection lost underway repeats reads alone.

    >>> retry_delay(RestRequest("POST", "/x"), RestResponse(429, {"retry-after": "3"}), 0)
    3.0
    """
    if attempt >= MAX_RETRIES:
        return None
    if isinstance(outcome, RestResponse):
        return _answered(outcome, now)
    if isinstance(outcome, ConnectError):
        return _CONNECT_WAITS[attempt] if attempt < len(_CONNECT_WAITS) else None
    if isinstance(outcome, ConnectionLostError) and request.method in _READS:
        # The first is most often a kept connection that the server closed just then: a new one will do at once.
        return 1.0 if attempt else 0.0
    return None


def _answered(response: RestResponse, now: datetime | None) -> float | None:
    """429 always, 5xx where the server says when."""
    delay = retry_after(response, now=now)
    if response.status == 429:
        return 1.0 if delay is None else delay
    return delay if response.status >= 500 else None


@dataclass(slots=True)
class TokenBucket:
    """At most `qps` requests a second over time, `burst` at once; pure, in seconds of any clock."""

    qps: float
    burst: int
    _tokens: float = 0.0
    _at: float | None = None

    def reserve(self, now: float) -> float:
        """Take a token, and return how many seconds to wait until it is valid."""
        if self._at is None:
            self._tokens = float(self.burst)
        else:
            self._tokens = min(float(self.burst), self._tokens + (now - self._at) * self.qps)
        self._at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self.qps)

    def cancel(self) -> None:
        """Return a token that was not used."""
        self._tokens += 1
