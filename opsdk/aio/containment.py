"""Decides which exceptions of user code stay with the object that they are raised for.

One object must not take the others down. User code may raise anything: a native library raises exceptions that derive
from BaseException (PyO3's PanicException), a TaskGroup a BaseExceptionGroup, an awaited task its CancelledError.
Only these end more than the call: KeyboardInterrupt, SystemExit, and the cancellation of the task that runs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from opsdk.errors import NotReadyError, PanicError


def leaf_errors(error: BaseException) -> Iterator[BaseException]:
    """Iterate over an error, or over the errors in a group that are not groups, at any depth."""
    pending = [error]
    while pending:
        current = pending.pop()
        if isinstance(current, BaseExceptionGroup):
            pending += reversed(current.exceptions)
        else:
            yield current


def without_waits(error: BaseException) -> BaseException | None:
    """Return an error, or a group without its `NotReadyError`s; None if nothing else is in it."""
    leaves = list(leaf_errors(error))
    failures = [leaf for leaf in leaves if not isinstance(leaf, NotReadyError)]
    if not failures:
        return None
    if len(failures) == len(leaves):
        return error
    # A flat group: `BaseExceptionGroup.split` fails for deep ones.
    return BaseExceptionGroup("failures besides a child that is not ready", failures)


def cancellations(task: asyncio.Task[Any] | None) -> int:
    """Return how often a task was cancelled so far: pass it to `is_contained` after the call of user code."""
    return task.cancelling() if task is not None else 0


def is_contained(error: BaseException, *, task: asyncio.Task[Any] | None = None, cancelling: int = 0) -> bool:
    """Whether an exception of user code stays with its object; if not, raise it again.

    Args:
        error: the exception.
        task: the task that awaited the user code; None for a plain function.
        cancelling: the `cancellations` of the task before the call. A library may have cancelled the task earlier, and
            caught that: then the count stays above 0.
    """
    if isinstance(error, Exception):
        return True
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() <= cancelling
    if isinstance(error, GeneratorExit):
        return task is None or _is_running(task)
    return not any(isinstance(leaf, KeyboardInterrupt | SystemExit) for leaf in leaf_errors(error))


def contain(error: BaseException, *, task: asyncio.Task[Any] | None = None, cancelling: int = 0) -> Exception:
    """Return an exception of user code as an ``Exception``: itself, or a `PanicError` with it as the cause.

    Raises the exception if `is_contained` is False.
    """
    if isinstance(error, Exception):
        return error
    if not is_contained(error, task=task, cancelling=cancelling):
        raise error
    panic = PanicError(f"user code raised {type(error).__name__}")
    panic.__cause__ = error
    return panic


def is_panic(error: BaseException) -> bool:
    """Whether the error, or one of its group, is no ``Exception``: controller-runtime would call it a panic."""
    return any(isinstance(leaf, PanicError) or not isinstance(leaf, Exception) for leaf in leaf_errors(error))


def _is_running(task: asyncio.Task[Any]) -> bool:
    """Whether the task runs now. A coroutine that is closed from outside gets a GeneratorExit too."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs: the interpreter collects the coroutine
        return False
