"""Calls user functions with a timeout, and contains their exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Generic, TypeVar

from opsdk.aio.containment import cancellations, contain
from opsdk.errors import TooLargeError
from opsdk.http.server.request import HttpRequest
from opsdk.telemetry.describe import text_of
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

T = TypeVar("T")

PANICKED = "opsdk.webhook.panicked"
"""Key of ``HttpRequest.state``: ``admission`` or ``conversion`` when a user function raised an unexpected exception."""


@dataclass(frozen=True, slots=True)
class CallResult(Generic[T]):
    """The result of a call, or the reason of its failure.

    Attributes:
        value: the returned value; None after a failure.
        failure: the reason, without a traceback; empty after a success.
        panicked: the function raised.
    """

    value: T | None = None
    failure: str = ""
    panicked: bool = False


async def call_user_function(call: Awaitable[T], *, name: str, seconds: float | None) -> CallResult[T]:
    """Await `call` for at most `seconds` (None: no limit), and log its exception.

    A cancellation of the caller is raised. One that `call` raises on its own counts as an exception.
    """
    scope: asyncio.Timeout | None = None
    task = asyncio.current_task()
    before = cancellations(task)
    try:
        async with asyncio.timeout(seconds) as scope:
            return CallResult(await call)
    except BaseException as error:
        contain(error, task=task, cancelling=before)
        if isinstance(error, TimeoutError) and scope is not None and scope.expired():
            log.error("%s did not return within %g s", name, seconds)
            return CallResult(failure=f"the webhook did not return within {seconds:g} s")
        log.exception("%s raised", name)
        text = f"{type(error).__name__}: {text_of(error)}".removesuffix(": ")
    return CallResult(failure=f"panic: {text} [recovered]", panicked=True)


async def read_body(request: HttpRequest, limit: int) -> bytes:
    """Return the body of a request. Raises `TooLargeError` if it has `limit` bytes or more."""
    try:
        return await request.body(limit - 1)
    except TooLargeError as error:
        raise TooLargeError(f"request entity is too large; limit is {limit} bytes") from error
