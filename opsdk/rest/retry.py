"""Decides whether a request is sent again. Pure.

Upstream: k8s.io/client-go/rest/with_retry.go (v1.36)
"""

from __future__ import annotations

from datetime import datetime

from opsdk.errors import ConnectError, ConnectionLostError, TransportError
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse, retry_after

# The value of client-go (maxRetries in rest/request.go).
MAX_RETRIES = 10
# Waits after a refused connection: long enough for a full accept queue, too short to hide a server restart.
_CONNECT_WAITS = (0.1, 0.5)
_READ_METHODS = frozenset({"GET", "HEAD"})


def retry_delay(
    request: RestRequest, outcome: RestResponse | TransportError, attempt: int, *, now: datetime | None = None
) -> float | None:
    """Return the seconds before `request` is sent again, or None to return `outcome` to the caller.

    A request is repeated if the server certainly did not process it: its answer states that, or no connection was made.
    After a connection breaks, only reads are repeated. A `BodyStream` that was started is never sent again.

    Args:
        request: the request.
        outcome: its response or error.
        attempt: the number of repetitions so far.
        now: for ``Retry-After`` dates.

    >>> retry_delay(RestRequest("POST", "/x"), RestResponse(429, {"retry-after": "3"}), 0)
    3.0
    """
    if attempt >= MAX_RETRIES or not request.is_repeatable:
        return None
    if isinstance(outcome, RestResponse):
        delay = retry_after(outcome, now=now)
        if outcome.status == 429:  # always; 5xx only with Retry-After
            return 1.0 if delay is None else delay
        return delay if outcome.status >= 500 else None
    if isinstance(outcome, ConnectError):
        return _CONNECT_WAITS[attempt] if attempt < len(_CONNECT_WAITS) else None
    if isinstance(outcome, ConnectionLostError) and request.method in _READ_METHODS:
        # Usually the server has just closed an idle connection: retry at once on a new one.
        return 1.0 if attempt else 0.0
    return None
