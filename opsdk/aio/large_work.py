"""CPU work on large documents: a thread does it, so that the event loop serves other requests in the meantime.

The interpreter runs one thread at a time. The loop gives its turn away with each system call, and gets it back after
`TURN_SECONDS`. One thread for all documents keeps it so: with several, the loop would wait for each of them.
"""

from __future__ import annotations

import asyncio
import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import cache, partial
from threading import local
from time import perf_counter, thread_time
from typing import Any, Final, ParamSpec, TypeVar

from opsdk.aio.clock import is_virtual
from opsdk.errors import TooLargeError

P = ParamSpec("P")
T = TypeVar("T")

LARGE_BYTES: Final = 16 * 1024
"""Bytes of JSON or YAML from which on a document is large: the loop reads, checks and merges so many in 10 ms."""

TURN_SECONDS: Final = 0.00003
"""Seconds after which the thread lets the loop continue: the loop waits so long after each of its system calls.

A response of ``/healthz`` has dozens of them before it, where ten clients send 3 MB each. The latest one of a run came
after 71 to 134 ms; with 500 us, after 121 to 186 ms. The thread's own work takes as long as before."""

ATTEMPT_SECONDS: Final = 0.01
"""Seconds of work after which `attempt` leaves the event loop."""
EVALUATION_SECONDS: Final = 5.0
"""CPU seconds of the thread for one attempt: the expressions of one object. The thread's other work waits."""
REQUEST_SECONDS: Final = 10.0
"""CPU seconds for all attempts of one request: of each policy, webhook and object that it concerns."""
_SORTED_AT_ONCE: Final = 10_000
"""Items that are sorted in a few milliseconds."""
_PARTS: Final = 100


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="large-work")


def release_thread() -> None:
    """Let the thread end after the work that it has. The next large document starts a new one.

    A program calls it before it exits: an executor's idle thread waits for more work and blocks the exit.
    """
    if _thread.cache_info().currsize:
        _thread().shutdown(wait=False)
        _thread.cache_clear()


def leaves_loop() -> bool:
    """Whether the thread does large work for the running loop: not in virtual time, where sizes do not matter."""
    return not is_virtual()


async def compute(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `work`, in the thread if its documents have more than `LARGE_BYTES` bytes, and return its result.

    `work` must not use the event loop. It shares nothing that changes with code of the loop, except caches whose
    operations are atomic. Work that has not begun is dropped with its cancelled caller; work that has begun ends.

    In virtual time the loop does all work itself, so that a run repeats exactly.
    """
    if size <= LARGE_BYTES:
        return work(*args, **kwargs)
    if not leaves_loop():
        return work(*args, **kwargs)
    loop = asyncio.get_running_loop()
    bound = partial(_in_short_turns, work, *args, **kwargs)
    return await loop.run_in_executor(_thread(), copy_context().run, bound)


def _in_short_turns(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `work` in the thread. The interpreter's own interval is back at the end: it counts for all threads."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN_SECONDS))
    try:
        return work(*args, **kwargs)
    finally:
        sys.setswitchinterval(before)


class RequestBudget:
    """The CPU time that the expressions of one request take.

    Attributes:
        on_loop: seconds in the event loop. After `ATTEMPT_SECONDS`, all further expressions go to the thread.
        in_thread: CPU seconds in the thread.
    """

    # Each request has one, and few use it: an ``__init__`` would cost more.
    on_loop = 0.0
    in_thread = 0.0

    def __repr__(self) -> str:
        return f"<RequestBudget: {self.on_loop + self.in_thread:.3f} s>"

    @property
    def remaining(self) -> float:
        """Seconds for further expressions."""
        return REQUEST_SECONDS - self.on_loop - self.in_thread


REQUEST: Final[ContextVar[RequestBudget | None]] = ContextVar("request_budget", default=None)
"""The budget of the request that the current task serves. A server sets a new one for each request."""


class LeavesLoopError(BaseException):
    """Work takes too long for the event loop: `attempt` begins it again in the thread.

    It is no ``Exception``, so that the work does not take it for an error of its own.
    """


_clocks = local()
"""For each thread: when the work that it does has to leave the loop, and when its budget of time is spent."""


def check_time() -> None:
    """Raise `LeavesLoopError` if the caller is work of `attempt` that takes too long for the event loop.

    Work calls it between steps. It costs 0.1 us.
    """
    if perf_counter() > getattr(_clocks, "end", math.inf):
        raise LeavesLoopError


def is_spent() -> bool:
    """Whether the caller is work of `evaluate` or `attempt` whose budget of time is spent."""
    spent: float = getattr(_clocks, "spent", math.inf)
    return spent < math.inf and thread_time() > spent


async def evaluate(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call work that evaluates expressions of users, in the thread: after `EVALUATION_SECONDS`, `is_spent` is true.

    Upstream's limits of cost are a tenth of a second in Go. Here the same cost takes some seconds. Virtual time has no
    such limit, so that a run repeats exactly.

    Raises:
        TooLargeError: the request has taken `REQUEST_SECONDS` for other expressions.
    """
    bound = partial(work, *args, **kwargs)
    if not leaves_loop():
        return bound()
    budget = REQUEST.get() or RequestBudget()
    if budget.remaining <= 0:
        text = f"the expressions that check the request have taken {REQUEST_SECONDS:.0f} seconds"
        raise TooLargeError(f"Request entity too large: {text}: send a smaller object, or simplify the expressions")
    return await compute(LARGE_BYTES + 1, _in_budget, bound, budget)


def _in_budget(work: Callable[[], T], budget: RequestBudget) -> T:
    begin = thread_time()
    _clocks.spent = begin + min(EVALUATION_SECONDS, budget.remaining)
    try:
        return work()
    finally:
        del _clocks.spent
        budget.in_thread += thread_time() - begin


async def attempt(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call work whose time cannot be told from the size of its documents, such as expressions of users.

    The event loop begins it. After `ATTEMPT_SECONDS`, `check_time` ends it, and the thread begins it again. So `work`
    may run twice: until it is done it changes nothing but caches. In the thread it has a budget, see `evaluate`. All
    attempts of a request share those seconds.
    """
    if not leaves_loop() or hasattr(_clocks, "end"):
        return work(*args, **kwargs)
    budget = REQUEST.get() or RequestBudget()
    if budget.on_loop < ATTEMPT_SECONDS:
        try:
            return _on_loop(partial(work, *args, **kwargs), budget)
        except LeavesLoopError:
            pass  # the thread begins it again below
    return await evaluate(work, *args, **kwargs)


async def attempt_output(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call work of `attempt` that writes output from documents of `size` bytes. Large ones begin in the thread.

    When `is_spent` is true, `work` leaves out what it has not evaluated: a spent budget is not an error.
    """
    bound = partial(work, *args, **kwargs)
    if not leaves_loop() or hasattr(_clocks, "end"):
        return bound()
    budget = REQUEST.get() or RequestBudget()
    if size <= LARGE_BYTES and budget.on_loop < ATTEMPT_SECONDS:
        try:
            return _on_loop(bound, budget)
        except LeavesLoopError:
            pass  # the thread begins it again below
    return await compute(LARGE_BYTES + 1, _in_budget, bound, budget)


def _on_loop(work: Callable[[], T], budget: RequestBudget) -> T:
    """Call work of `attempt` in the event loop. Raises `LeavesLoopError`."""
    begin = perf_counter()
    _clocks.end = begin + ATTEMPT_SECONDS - budget.on_loop
    try:
        return work()
    finally:
        del _clocks.end
        budget.on_loop += perf_counter() - begin


def sort_in_parts(items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """Return the items in the order of `key`, as `sorted` does. The event loop waits for a part, not for the whole.

    Python lets no other thread run during a sort of plain values: for 400,000 it takes half a second.
    """
    items = list(items)
    if len(items) <= _SORTED_AT_ONCE:
        return sorted(items, key=key)
    bounds = sorted(map(key, items[:: len(items) // _PARTS]))
    parts: list[list[T]] = [[] for _ in range(len(bounds) + 1)]
    for item in items:
        parts[bisect_left(bounds, key(item))].append(item)
    return [item for part in parts for item in sorted(part, key=key)]
