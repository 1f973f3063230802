"""Waiting and assertions of tests: states, conditions, Events.

Upstream: github.com/onsi/gomega (Eventually, Consistently), which tests of Go controllers use for the same task
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, overload

from opsdk.aio.clock import monotonic
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.object import AnyObject
from opsdk.client.client import Client
from opsdk.errors import ApiError
from opsdk.recipes.conditions import get_condition

__all__ = ["Eventually", "assert_condition", "consistently", "events_of", "eventually"]

T = TypeVar("T")


Pause = Callable[[float], Awaitable[None]]
"""Waits at most some seconds. An environment's ends after each write, too."""
# The server may give another answer to the same request.
_RETRIED_CODES = frozenset({404, 409, 429})


class _Passed(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value


def _is_assertion(function: Callable[..., object]) -> bool:
    """Whether a function is declared to return None: then it passes unless it raises."""
    while isinstance(function, functools.partial):
        function = function.func
    declared = getattr(function, "__annotations__", {})
    return "return" in declared and declared["return"] in (None, "None")


async def _call(function: Callable[..., object], *arguments: object) -> tuple[bool, Any]:
    """Return whether the function passes, and its value."""
    value = function(*arguments)
    if inspect.isawaitable(value):
        value = await value
    return _is_assertion(function) if value is None else bool(value), value


async def _evaluate(probe: Callable[[], object], check: Callable[[Any], object] | None) -> _Passed[Any] | Exception:
    """Call probe and check once. Return the value that passed, or the error to raise at the timeout."""
    try:
        passed, value = await _call(probe)
        result = value
        if check is not None:
            passed, result = await _call(check, value)
    except AssertionError as error:
        return error
    except ApiError as error:
        if error.code in _RETRIED_CODES or error.code >= 500:
            return error
        raise
    if passed:
        return _Passed(value)
    name = getattr(check or probe, "__qualname__", repr(check or probe))
    if result is None:
        hint = "return a value, or declare `-> None` for a function of assertions, which a lambda cannot be"
        return AssertionError(f"{name} returned None: {hint}")
    return AssertionError(f"{name} returned {result!r}" + (f" for {value!r}" if check is not None else ""))


class Eventually:
    """The type of `eventually`, and of the methods of this name. `pause` waits between two calls."""

    def __init__(self, pause: Pause = asyncio.sleep) -> None:
        self._pause = pause

    def __repr__(self) -> str:
        return f"Eventually({self._pause!r})"

    # Four signatures: mypy infers no type for a lambda that may return a value or an awaitable, and None passes only
    # with a check.
    @overload
    async def __call__(
        self, probe: Callable[[], Awaitable[T | None]], check: None = ..., *, within: float = ..., interval: float = ...
    ) -> T: ...
    @overload
    async def __call__(
        self, probe: Callable[[], T | None], check: None = ..., *, within: float = ..., interval: float = ...
    ) -> T: ...
    @overload
    async def __call__(
        self,
        probe: Callable[[], Awaitable[T]],
        check: Callable[[T], object],
        *,
        within: float = ...,
        interval: float = ...,
    ) -> T: ...
    @overload
    async def __call__(
        self, probe: Callable[[], T], check: Callable[[T], object], *, within: float = ..., interval: float = ...
    ) -> T: ...
    async def __call__(
        self,
        probe: Callable[[], object],
        check: Callable[[Any], object] | None = None,
        *,
        within: float = 30.0,
        interval: float = 0.05,
    ) -> Any:
        """Call `probe` until it passes, and return its value.

        A probe passes with a true value. A function that is declared to return None (``-> None``) passes unless it
        raises. False, None, 0, empty values, an AssertionError, and API errors that may pass (404, 409, 429, 5xx)
        are retried. Other exceptions are raised immediately. In virtual time the waits take no time.

        Args:
            probe: a function or a coroutine function without arguments.
            check: gets the value of `probe`; then `check` must pass, not `probe`.
            within: seconds.
            interval: seconds between two calls.

        Raises:
            AssertionError: no call passed in time; the cause is the last failure.

        >>> import asyncio
        >>> numbers = iter([0, None, 7])
        >>> asyncio.run(eventually(lambda: next(numbers), interval=0))
        7
        """
        deadline, attempts = monotonic() + within, 0
        while True:
            attempts += 1
            outcome = await _evaluate(probe, check)
            if isinstance(outcome, _Passed):
                return outcome.value
            remaining = deadline - monotonic()
            if remaining <= 0:
                reason = str(outcome) or type(outcome).__name__
                raise AssertionError(f"not true within {within:g} s ({attempts} attempts): {reason}") from outcome
            await self._pause(min(interval, remaining))


eventually = Eventually()
"""Calls a probe until it passes, and returns its value: see `Eventually.__call__`. It waits with ``asyncio.sleep``."""


async def consistently(
    probe: Callable[[], object],
    check: Callable[[Any], object] | None = None,
    *,
    during: float = 1.0,
    interval: float = 0.05,
    pause: Pause = asyncio.sleep,
) -> None:
    """Call `probe` repeatedly for `during` seconds; each call must pass. `pause` waits between two calls.

    Raises:
        AssertionError: a call did not pass; the message says after how many seconds.
    """
    begin = monotonic()
    while True:
        outcome = await _evaluate(probe, check)
        passed = monotonic() - begin
        if not isinstance(outcome, _Passed):
            raise AssertionError(  # noqa: TRY004 - an assertion of the test failed
                f"no longer true after {passed:.3g} s: {str(outcome) or type(outcome).__name__}"
            ) from outcome
        if passed >= during:
            return
        await pause(min(interval, during - passed))


def assert_condition(obj: Any, type: str, status: bool | str = True, *, reason: str | None = None) -> None:
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
    # A recorder writes Events in parallel; the names have the order in which they were recorded.
    return sorted(own, key=_recorded_at)


def _recorded_at(event: Event) -> tuple[Any, str]:
    return event.event_time or event.metadata.creation_timestamp, event.metadata.name
