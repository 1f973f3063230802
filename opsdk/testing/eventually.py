"""Waiting and assertions of tests: states, conditions, Events.

Upstream: github.com/onsi/gomega (Eventually), which tests of Go controllers use for the same task
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.object import AnyObject
from opsdk.client.client import Client
from opsdk.errors import ConflictError, NotFoundError
from opsdk.recipes.conditions import get_condition

T = TypeVar("T")


# Two signatures: mypy infers no type for a lambda that may return a value or an awaitable.
@overload
async def eventually(
    check: Callable[[], Awaitable[T]], *, within: float = ..., interval: float = ..., clock: Clock = ...
) -> T: ...
@overload
async def eventually(
    check: Callable[[], T], *, within: float = ..., interval: float = ..., clock: Clock = ...
) -> T: ...
async def eventually(
    check: Callable[[], Awaitable[T] | T], *, within: float = 30.0, interval: float = 0.05, clock: Clock = LOOP_CLOCK
) -> T:
    """Call `check` until it succeeds, and return its value.

    An AssertionError, a `NotFoundError`, a `ConflictError`, and the results None and False are retried. Other
    exceptions are raised immediately. In virtual time the waits take no time.

    Args:
        check: a function or a coroutine function without arguments.
        within: seconds.
        interval: seconds between two calls.
        clock: source of time.

    Raises:
        AssertionError: `check` did not succeed in time; the cause is the last failure.

    >>> import asyncio
    >>> numbers = iter([0, None, 7])
    >>> asyncio.run(eventually(lambda: next(numbers) or None, interval=0))
    7
    """
    deadline, attempts = clock.now() + within, 0
    while True:
        attempts += 1
        failure: Exception | None = None
        value: T | None = None
        try:
            outcome = check()
            value = await outcome if inspect.isawaitable(outcome) else outcome
            if value is not None and value is not False:
                return value
        except (AssertionError, NotFoundError, ConflictError) as error:
            failure = error
        if clock.now() >= deadline:
            reason = f"it returned {value!r}" if failure is None else str(failure) or type(failure).__name__
            raise AssertionError(f"not within {within:g} s ({attempts} attempts): {reason}") from failure
        await clock.sleep(interval)


def assert_condition(obj: Any, type: str, status: bool | str = True, *, reason: str | None = None) -> None:  # noqa: A002 - the field's name
    """Assert that a condition of ``obj.status.conditions`` has a status, and a reason if one is given.

    The message has all conditions of the object.
    """
    conditions = obj.status.conditions if obj.status is not None else []
    condition = get_condition(conditions, type)
    expected = status if isinstance(status, str) else str(bool(status))
    listed = ", ".join(f"{c.type}={c.status} ({c.reason}: {c.message})" for c in conditions) or "none"
    name = f"{obj.kind} {obj.metadata.namespace}/{obj.metadata.name}"
    assert condition is not None, f"{name} has no condition {type}; its conditions: {listed}"
    assert condition.status == expected, f"{name} should have {type}={expected}; its conditions: {listed}"
    assert reason in (None, condition.reason), f"{name}: the reason of {type} should be {reason}; conditions: {listed}"


async def events_of(client: Client, obj: AnyObject) -> list[Event]:
    """Return the Events about an object, oldest first, read from the server.

    Tests compare ``[(event.type, event.reason) for event in await events_of(client, site)]``.
    """
    events = await client.list(Event, namespace=obj.metadata.namespace, uncached=True)
    own = [event for event in events if event.regarding.uid == obj.metadata.uid]
    return sorted(own, key=lambda event: int(event.metadata.resource_version))
