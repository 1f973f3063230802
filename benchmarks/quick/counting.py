"""Counts function calls and memory blocks of the client side, and compares them with checked-in counts."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from types import FrameType
from typing import ClassVar, TypeVar

T = TypeVar("T")
TOLERANCE = 0.1
"""The share by which a count may grow. A test run differs by less than 2 %."""

_COUNTED: ContextVar[bool] = ContextVar("counted", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Figures of one operation.

    Attributes:
        calls: calls of Python and of built-in functions.
        blocks: memory blocks that are still allocated afterwards, with the garbage collector off: what is kept, and
            cycles. The in-process server's history counts too.
    """

    calls: float
    blocks: float


class Profiler:
    """Counts what runs in tasks that `in_counted_task` started, and in the tasks that these start.

    The server in the same process runs each request in an empty context, so its calls do not count; neither do the
    event loop's own.
    """

    functions: ClassVar[Counter[str]] = Counter()
    """Calls by function since the last `start`; built-in functions stand below their caller."""

    def __init__(self) -> None:
        self._calls = self._blocks = 0

    def _count(self, frame: FrameType, event: str, function: object) -> None:
        if event in {"call", "c_call"} and _COUNTED.get():
            self._calls += 1
            name = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
            self.functions[name if event == "call" else f"{name} -> {getattr(function, '__name__', '')}"] += 1

    def start(self) -> None:
        """Begin to count."""
        gc.collect()
        gc.disable()
        self.functions.clear()
        self._calls, self._blocks = 0, sys.getallocatedblocks()
        sys.setprofile(self._count)

    def stop(self, operations: int) -> Counts:
        """End, and return the figures of one of so many operations."""
        sys.setprofile(None)
        blocks = sys.getallocatedblocks() - self._blocks
        gc.enable()
        return Counts(calls=self._calls / operations, blocks=blocks / operations)


async def in_counted_task(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` in a task whose calls count."""
    context = copy_context()
    context.run(_COUNTED.set, True)

    async def run() -> T:
        return await work()

    return await asyncio.create_task(run(), context=context)


def compare(counts: Mapping[str, Counts], expected: Mapping[str, float], *, tolerance: float = TOLERANCE) -> list[str]:
    """Return a sentence for each count that grew by more than `tolerance`, or that is not expected at all.

    >>> compare({"get": Counts(calls=120, blocks=0)}, {"get": 100})
    ['get: 120.0 calls, more than 100.0 and 10 %']
    >>> compare({"get": Counts(calls=109, blocks=0)}, {"get": 100})
    []
    """
    problems = []
    for name, count in counts.items():
        if name not in expected:
            problems.append(f"{name}: no expected count; run with --update")
        elif count.calls > expected[name] * (1 + tolerance):
            problems.append(
                f"{name}: {count.calls:.1f} calls, more than {expected[name]:.1f} and {100 * tolerance:.0f} %"
            )
    return problems
