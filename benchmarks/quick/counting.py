"""Counts calls, bytecodes and memory blocks of the client side, and compares them with checked-in counts."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    from _typeshed import TraceFunction

T = TypeVar("T")
TOLERANCE = 0.1
"""The share by which a count may grow. A test run differs by less than 2 %."""

_COUNTED: ContextVar[bool] = ContextVar("counted", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Figures of one operation.

    Attributes:
        calls: calls of Python and of built-in functions.
        bytecodes: instructions of Python that ran. CPU follows them: calls, and machine instructions too, have changed
            by a fifth while it stayed.
        blocks: memory blocks that are still allocated afterwards, with the garbage collector off: what is kept, and
            cycles. The in-process server's history counts too.
    """

    calls: float
    bytecodes: float
    blocks: float

    @property
    def compared(self) -> dict[str, float]:
        """The figures that must not grow."""
        return {"calls": round(self.calls, 1), "bytecodes": round(self.bytecodes, 1)}


class Profiler:
    """Counts what runs in tasks that `in_counted_task` started, and in the tasks that these start.

    The server in the same process runs each request in an empty context, so its calls do not count; neither do the
    event loop's own.
    """

    functions: ClassVar[Counter[str]] = Counter()
    """Bytecodes by function since the last `start`."""

    def __init__(self) -> None:
        self._calls = self._bytecodes = self._blocks = 0

    def _count(self, _frame: FrameType, event: str, _function: object) -> None:
        if event in {"call", "c_call"} and _COUNTED.get():
            self._calls += 1

    def _trace(self, frame: FrameType, event: str, _: object) -> TraceFunction | None:
        if event == "call":
            if not _COUNTED.get():
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
        elif event == "opcode":
            self._bytecodes += 1
            self.functions[f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"] += 1
        return self._trace

    def start(self) -> None:
        """Begin to count."""
        gc.collect()
        gc.disable()
        self.functions.clear()
        self._calls = self._bytecodes = 0
        self._blocks = sys.getallocatedblocks()
        sys.setprofile(self._count)
        sys.settrace(self._trace)

    def stop(self, operations: int) -> Counts:
        """End, and return the figures of one of so many operations."""
        sys.settrace(None)
        sys.setprofile(None)
        blocks = sys.getallocatedblocks() - self._blocks
        gc.enable()
        return Counts(
            calls=self._calls / operations, bytecodes=self._bytecodes / operations, blocks=blocks / operations
        )


async def in_counted_task(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` in a task whose calls count."""
    context = copy_context()
    context.run(_COUNTED.set, True)

    async def run() -> T:
        return await work()

    return await asyncio.create_task(run(), context=context)


def compare(
    counts: Mapping[str, Counts], expected: Mapping[str, Mapping[str, float]], *, tolerance: float = TOLERANCE
) -> list[str]:
    """Return a sentence for each count that grew by more than `tolerance`, or that is not expected at all.

    >>> compare({"get": Counts(calls=120, bytecodes=90, blocks=0)}, {"get": {"calls": 100, "bytecodes": 100}})
    ['get: 120.0 calls, more than 100.0 and 10 %']
    >>> compare({"get": Counts(calls=109, bytecodes=90, blocks=0)}, {"get": {"calls": 100, "bytecodes": 100}})
    []
    """
    problems = []
    for name, count in counts.items():
        if name not in expected:
            problems.append(f"{name}: no expected count; run with --update")
            continue
        for unit, figure in count.compared.items():
            limit = expected[name][unit]
            if figure > limit * (1 + tolerance):
                problems.append(f"{name}: {figure:,.1f} {unit}, more than {limit:,.1f} and {100 * tolerance:.0f} %")
    return problems
