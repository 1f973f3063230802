"""Wait for conditions. Writes and the clock trigger each check; there is no fixed poll interval."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from opsdk.aio.alarm import Alarm
from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.apiserver.storage.ports import LocalStorage, StorageChange
from opsdk.errors import ApiError
from opsdk.testing.clock import ManualClock

T = TypeVar("T")
Question = Callable[[], "T | Awaitable[T]"]
"""A check. It passes if it returns None or a true value, and raises neither `AssertionError` nor `ApiError`."""

EVERY = 0.05
"""Seconds between two checks without a write: caches lag behind the server."""
_TURNS = 10
"""Iterations of the event loop until informers have processed a write."""


class _PollTimer:
    """Triggers the next check: after a write, or after an interval."""

    def __init__(self, clock: Clock, storage: LocalStorage | None, every: float) -> None:
        self._clock, self._storage, self._every = clock, storage, every
        self._alarm: Alarm | None = None

    def __enter__(self) -> Self:
        if self._storage is not None:
            self._storage.subscribe(self._on_change)
        return self

    def __exit__(self, *_: object) -> None:
        if self._storage is not None:
            self._storage.unsubscribe(self._on_change)

    def _on_change(self, _: StorageChange) -> None:
        if self._alarm is not None and not self._alarm.future.done():
            self._alarm.future.set_result(None)

    async def wait(self, end: float) -> None:
        """Wait for a write, an interval or `end`. A manual clock is advanced."""
        now = self._clock.now()
        seconds = min(self._every, max(end - now, 0.0))
        if isinstance(self._clock, ManualClock):
            await self._clock.advance(seconds)
            return
        self._alarm = Alarm(self._clock, now + seconds)
        try:
            await self._alarm.future
        finally:
            self._alarm.cancel()
        for _ in range(_TURNS):
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class _Passed(Generic[T]):
    value: T


async def _evaluate(question: Question[T], check: Callable[[T], object] | None) -> _Passed[T] | Exception:
    try:
        answer = question()
        value: T = await answer if inspect.isawaitable(answer) else answer
        passed = value if check is None else check(value)
        if inspect.isawaitable(passed):
            passed = await passed
    except (AssertionError, ApiError) as error:
        return error
    if passed is None or passed:
        return _Passed(value)
    return AssertionError(f"{_name(check or question)} gave {value!r}")


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", repr(function)))


async def eventually(
    question: Question[T],
    check: Callable[[T], object] | None = None,
    *,
    within: float = 5.0,
    every: float = EVERY,
    clock: Clock = LOOP_CLOCK,
    storage: LocalStorage | None = None,
) -> T:
    """Call `question` until its result passes (`check`, if given, must pass it), and return the result.

    Raises:
        AssertionError: no result passed within `within` seconds; the text names the last problem.
    """
    end, attempts = clock.now() + within, 0
    with _PollTimer(clock, storage, every) as pace:
        while True:
            attempts += 1
            outcome = await _evaluate(question, check)
            if isinstance(outcome, _Passed):
                return outcome.value
            if clock.now() >= end:
                raise AssertionError(f"not within {within:g} s (asked {attempts} times): {outcome}") from outcome
            await pace.wait(end)


async def consistently(
    question: Question[T],
    check: Callable[[T], object] | None = None,
    *,
    during: float = 1.0,
    every: float = EVERY,
    clock: Clock = LOOP_CLOCK,
    storage: LocalStorage | None = None,
) -> None:
    """Call `question` repeatedly for some seconds, and after each write; every result has to pass.

    Raises:
        AssertionError: a result did not pass.
    """
    begin = clock.now()
    with _PollTimer(clock, storage, every) as pace:
        while True:
            outcome = await _evaluate(question, check)
            passed = clock.now() - begin
            if not isinstance(outcome, _Passed):
                raise AssertionError(  # noqa: TRY004 - an assertion of the test failed
                    f"not any more after {passed:.3g} s: {outcome}"
                ) from outcome
            if passed >= during:
                return
            await pace.wait(begin + during)
