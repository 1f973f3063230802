"""`RequestContext` of a registry call: namespace, user, options."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import ParamSpec, TypeVar

import msgspec

from opsdk.aio.clock import utc_now
from opsdk.aio.large_work import LARGE_BYTES, attempt, compute, evaluate, leaves_loop
from opsdk.aio.randomness import loop_random, uuid4_of
from opsdk.apiserver.auth.user import LOOPBACK, User
from opsdk.apiserver.storage.large_objects import LARGE_OBJECTS
from opsdk.structured_merge.value import JsonObject

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["Context"]


class Context(msgspec.Struct, kw_only=True):
    """The context of a registry call.

    Attributes:
        namespace: the namespace of the path; empty for cluster-scoped objects and for all namespaces.
        dry_run: run all steps except the write.
        warn: adds a warning to the response.
        manager: the field manager of fields that a store writes for the request.
        size: bytes of the largest document of the call so far.
    """

    user: User = LOOPBACK
    namespace: str = ""
    dry_run: bool = False
    warn: Callable[[str], None] = lambda _: None
    manager: str = "kube-apiserver"
    rng: random.Random = msgspec.field(default_factory=loop_random)
    size: int = 0

    def measure(self, stored: JsonObject) -> None:
        """Count a stored object: a small patch of a large object is large work too."""
        if leaves_loop():
            self.size = max(self.size, LARGE_OBJECTS.size(stored) or LARGE_OBJECTS.measure(stored))

    @property
    def is_large(self) -> bool:
        """Whether a document of the call is large."""
        return self.size > LARGE_BYTES

    async def compute(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `work`, outside the event loop if a document of the call is large (see `opsdk.aio.large_work`)."""
        if self.size <= LARGE_BYTES:  # as `compute` does, without a call
            return work(*args, **kwargs)
        return await compute(self.size, work, *args, **kwargs)

    async def attempt(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `work` that evaluates expressions of users: a small document may take seconds too.

        It may run twice, see `opsdk.aio.large_work.attempt`.
        """
        if self.size <= LARGE_BYTES:
            return await attempt(work, *args, **kwargs)
        return await evaluate(work, *args, **kwargs)

    def timestamp(self) -> str:
        """Return the current time in whole seconds, in RFC 3339."""
        return rfc3339(utc_now())

    def new_uid(self) -> str:
        """Return a random UID."""
        return uuid4_of(self.rng)


def rfc3339(moment: datetime) -> str:
    """Return a UTC time in whole seconds.

    >>> from datetime import UTC, datetime
    >>> rfc3339(datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC))
    '2026-01-02T03:04:05Z'
    """
    return f"{moment.isoformat()[:19]}Z"  # strftime takes five times as long
