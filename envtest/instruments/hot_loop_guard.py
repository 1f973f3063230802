"""Fails a test in virtual time when one client sends requests without end while the clock does not advance.

A reconciler that causes its own next event never lets the loop become idle, so virtual time cannot advance. The test
would hang until its real timeout. In real time the clock always advances, so nothing is counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import NamedTuple

from opsdk.aio.clock import monotonic
from opsdk.apiserver.endpoints.call import Call
from opsdk.http.server.response import HttpResponse
from opsdk.testing.loop import HotLoopError, VirtualLoop

LIMIT = 2_000
"""Maximum requests of one user for one object at one time."""
_UNNAMED = 10
"""Factor of the limit for lists and creates in one namespace: they concern many objects."""
_SHOWN = 6


class _Source(NamedTuple):
    """The sender of a request, and its target."""

    user: str
    program: str
    verb: str
    path: str

    def __str__(self) -> str:
        who = f"{self.user} (as {self.program})" if self.program and self.program != self.user else self.user
        return f"{who} repeats {self.verb} {self.path}"


class HotLoopGuard:
    """Counts requests while the clock does not advance; a hook of the server.

    Args:
        limit: requests of one user for one object without time passing; 0 turns the guard off.
    """

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._limit = limit
        self._time = -1.0
        self._counts: Counter[_Source] = Counter()
        self._last: deque[str] = deque(maxlen=_SHOWN)
        self._reported = False

    def __repr__(self) -> str:
        return f"<HotLoopGuard: {self._counts.total()} requests at {self._time:g} s>"

    def __call__(self, call: Call, response: HttpResponse, seconds: float) -> None:
        """Count a request; only in virtual time, because real time always passes."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            return
        now = monotonic()
        if now != self._time:
            self._time = now
            self._counts.clear()
            self._last.clear()
        info = call.info
        if not info.is_resource or not self._limit:
            return
        program = call.http.query.get("fieldManager") or call.http.header("user-agent").partition("/")[0]
        source = _Source(call.user.name, program, info.verb, info.path)
        self._counts[source] += 1
        limit = self._limit if info.name else self._limit * _UNNAMED
        count = self._counts[source]
        if count > limit - _SHOWN:
            self._last.append(f"{info.verb} {info.path}: {response.status}")
        if count > limit and not self._reported:
            self._reported = True
            counts = "".join(f"\n  {n} times: {s}" for s, n in self._counts.most_common(_SHOWN))
            last = "".join(f"\n  {line}" for line in self._last)
            loop.fail(
                HotLoopError(
                    f"hot loop: {source} and no time passes; requests at this moment:{counts}\nthe last ones:{last}"
                )
            )
