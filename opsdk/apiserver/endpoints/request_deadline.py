"""The deadline of a request: its ``timeout`` parameter, limited by the server.

Upstream: k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go (v1.36).
"""

from __future__ import annotations

import asyncio
import re
from fractions import Fraction
from typing import Final

from opsdk.aio.large_work import REQUEST, RequestBudget
from opsdk.apiserver import api_errors
from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.apiserver.endpoints.request_info import RequestInfo
from opsdk.errors import ServerTimeoutError
from opsdk.http.server.response import HttpResponse

LONGEST: Final = 60.0
"""Default deadline in seconds; long-running requests have none."""
LONGEST_WRITE: Final = 34.0
"""Deadline in seconds of a write to one object."""
_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_LONG_RUNNING: Final = frozenset({"attach", "exec", "proxy", "log", "portforward"})
_PART = re.compile(r"([0-9]*)(\.?)([0-9]*)([^0-9.]*)")
_UNITS: Final = {
    "ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "µs": Fraction(1, 10**6), "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600),
}  # fmt: skip
_MOST: Final = Fraction(2**63 - 1, 10**9)


def read_duration(text: str) -> float:
    """Parse a Go duration to seconds. Raises `ValueError` with Go's message.

    >>> read_duration("1h1.5s"), read_duration("-1ms")
    (3601.5, -0.001)
    """
    sign = -1 if text[:1] == "-" else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0.0
    quoted_text = api_errors.quoted(text)
    total = Fraction(0)
    while rest or not total:
        match = _PART.match(rest)
        whole, _, part, unit = match.groups() if match else ("", "", "", "")
        if not rest or not (whole or part):
            raise ValueError(f"time: invalid duration {quoted_text}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {quoted_text}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {api_errors.quoted(unit)} in duration {quoted_text}")
        total += Fraction(f"{whole or 0}.{part or 0}") * _UNITS[unit]
        if total > _MOST:
            raise ValueError(f"time: invalid duration {quoted_text}")
        rest = rest[len(whole) + len(part) + len(unit) + (1 if match and match[2] else 0) :]
        if not rest:
            break
    return sign * float(total)


def long_running(info: RequestInfo) -> bool:
    """Report whether a request has no deadline."""
    return info.verb == "watch" or (info.is_resource and info.subresource in _LONG_RUNNING)


def seconds_of(call: Call) -> float:
    """Return the deadline of a request in seconds. Raises a 400 for an invalid timeout."""
    most = LONGEST_WRITE if call.info.is_resource and call.info.verb in _WRITES else LONGEST
    text = call.http.query.get("timeout")
    if not text:
        return most
    try:
        timeout = read_duration(text)
    except ValueError as error:
        raise api_errors.bad_request(f"invalid timeout specified in the request URL - {error}") from None
    return min(timeout, most) if timeout > 0 else most


async def deadline(call: Call, handler: Handler) -> HttpResponse:
    """Cancel a request after its deadline, with a 504. Its expressions have a budget of their own."""
    REQUEST.set(RequestBudget())
    if long_running(call.info):
        return await handler(call)
    task = asyncio.current_task()
    assert task is not None
    late = False

    def ring() -> None:
        nonlocal late
        late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds_of(call), ring)
    try:
        return await handler(call)
    except asyncio.CancelledError:
        if not late or task.uncancel() > 0:
            raise
        writing = call.info.is_resource and call.info.verb in _WRITES
        reason = "requested timeout - context deadline exceeded" if writing else "the allotted timeout"
        raise ServerTimeoutError(
            f"Timeout: request did not complete within {reason}", code=504, reason="Timeout"
        ) from None
    finally:
        timer.cancel()
