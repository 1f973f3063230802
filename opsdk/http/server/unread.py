"""Clients that do not read: how long they may wait, and how many bytes their responses may hold.

Upstream: k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go (v1.36).
Deviates: a user is limited by the bytes of unread responses, not by the number of requests.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, TypeVar

from opsdk.errors import Details, TooManyRequestsError

Part = TypeVar("Part", bound=bytes | str)

STALL_SECONDS: Final = 60.0
"""Seconds without room for the next part of a response. kube-apiserver ends a list after 60 s in all."""
UNREAD_BYTES: Final = 128 * 1024 * 1024
"""Bytes that the unread responses of one user may hold. Parts that several responses share count once."""
WHOLE_BYTES: Final = 256 * 1024
"""A body of at most so many bytes counts only while its connection is full."""
_RETRY_SECONDS: Final = 1


HeldPart = tuple[str, int, int]
"""The user, and the id and size of a part: responses that share a part have the same one."""


class UnreadBytes:
    """The bytes that responses hold until their clients have read them.

    Attributes:
        held: by user. A user without an entry holds nothing, which a hot path sees without a call.
    """

    def __init__(self, limit: int = UNREAD_BYTES) -> None:
        self._limit = limit
        # Plain dicts: each part of each response changes them.
        self.held: dict[str, int] = {}
        self._holders: dict[HeldPart, int] = {}

    def __repr__(self) -> str:
        return f"<UnreadBytes of {len(self.held)} users>"

    def is_full(self, user: str) -> bool:
        """Whether the responses of a user hold all that they may."""
        return self.held[user] >= self._limit if user in self.held else False

    def check(self, user: str) -> None:
        """Raise `TooManyRequestsError` for a new request of a user whose responses hold too much."""
        if self.is_full(user):
            details = Details(retry_after_seconds=_RETRY_SECONDS)
            raise TooManyRequestsError("Too many requests, please try again later.", details=details)

    def hold(self, user: str, part: bytes | str) -> HeldPart:
        """Count a part that is being sent. `release` takes the result at its end."""
        return self._hold((user, id(part), len(part)))

    def hold_buffer(self, user: str, buffer: UnreadBuffer, size: int) -> HeldPart:
        """Count the bytes of a full write buffer. `release` takes the result."""
        return self._hold((user, id(buffer), size))

    def _hold(self, held: HeldPart) -> HeldPart:
        user, _, size = held
        if held in self._holders:
            self._holders[held] += 1
            return held
        self._holders[held] = 1
        if not size:
            return held
        if user in self.held:
            self.held[user] += size
        else:
            self.held[user] = size
        return held

    def release(self, held: HeldPart) -> None:
        """End one `hold` of a part."""
        if self._holders[held] > 1:
            self._holders[held] -= 1
            return
        del self._holders[held]
        user, _, size = held
        if size:  # an empty part changes nothing
            self.held[user] -= size
            if not self.held[user]:
                del self.held[user]


UNREAD: Final = UnreadBytes()
"""Of the process, as its memory is."""


class UnreadBuffer:
    """A full write buffer: its bytes count for a user until the client reads or leaves.

    Args:
        user: of the response that filled the buffer; empty if the response counts for no user.
        size: bytes in the buffer. The connection writes nothing more while it is full.
        on_stall: called after each `STALL_SECONDS` in which the client has not read.
    """

    def __init__(self, user: str, size: int, on_stall: Callable[[], None]) -> None:
        self._held = UNREAD.hold_buffer(user, self, size) if user else None
        self._on_stall = on_stall
        self._timer = asyncio.get_running_loop().call_later(STALL_SECONDS, self._stall)

    def _stall(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(STALL_SECONDS, self._stall)
        self._on_stall()

    def close(self) -> None:
        """The client has read or left."""
        self._timer.cancel()
        if self._held is not None:
            UNREAD.release(self._held)
            self._held = None


class _Stall:
    """A stream without data has no timer.

    Attributes:
        since: when the part that is being sent began; infinite between two parts.
    """

    __slots__ = ("_cut", "_now", "_timer", "since")

    def __init__(self, cut: Callable[[], None]) -> None:
        self._cut = cut
        self.since = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._now = asyncio.get_running_loop().time

    def begin(self) -> None:
        """A part is being sent."""
        self.since = self._now()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(STALL_SECONDS, self._check)

    def close(self) -> None:
        """The stream has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        remaining = self.since + STALL_SECONDS - self._now()
        if remaining <= 0:
            self._cut()
        elif remaining < math.inf:
            self._timer = asyncio.get_running_loop().call_later(remaining, self._check)


async def until_stalled(
    parts: AsyncGenerator[Part, None], cut: Callable[[], None] | None, user: str, *, ends_when_full: bool = False
) -> AsyncGenerator[Part, None]:
    """Yield the parts of a response, and call `cut` if the client takes longer than `STALL_SECONDS` for one of them.

    Args:
        parts: what is sent.
        cut: closes the connection; None if that is not possible.
        user: whose budget of unread bytes the parts count for.
        ends_when_full: end before a part for which the budget has no room: a watch, which its client opens again.
    """
    stall = None if cut is None else _Stall(cut)
    try:
        async with aclosing(parts):
            async for part in parts:
                if ends_when_full and user in UNREAD.held and UNREAD.is_full(user):
                    return
                if stall is not None:
                    stall.begin()
                held = UNREAD.hold(user, part)
                try:
                    yield part
                finally:
                    UNREAD.release(held)
                if stall is not None:
                    stall.since = math.inf
    finally:
        if stall is not None:
            stall.close()
