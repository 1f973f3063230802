"""Runs parts of a verification in processes of their own."""

from __future__ import annotations

import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, Final, TypeVar

from opsdk.errors import OpsdkError

__all__ = ["become_child", "forking", "run_in_processes"]

S = TypeVar("S")
_REPORT_SECONDS: Final = 0.5
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def forking() -> Iterator[None]:
    """In the block, this process forks. The child calls `become_child`.

    SIGINT and SIGTERM wait for the end of the block: Python prints and drops what a handler raises while the hooks of
    a fork run, so the process would go on. A fork does not warn of other threads, such as those of a test runner:
    copies do not use them.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 and later
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def become_child() -> None:
    """End at SIGINT and SIGTERM. A handler of the parent would raise an exception in the operator's code."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def run_in_processes(
    parts: Sequence[Callable[[Callable[[S], None]], S]], progress: Callable[[Sequence[S]], None]
) -> list[S]:
    """Call functions in copies of this process at the same time. Returns their results, in order.

    Args:
        parts: each is called with a function that takes its state from time to time. Results and states are pickled.
        progress: called here with the last states of all parts that have one.

    Raises:
        OpsdkError: a process ended without a result.
    """
    context = multiprocessing.get_context("fork")
    latest: dict[int, S] = {}
    results: dict[int, S] = {}
    pipes: dict[Connection, int] = {}
    processes = []
    try:
        for number, part in enumerate(parts):
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(part, there), daemon=True)
            with forking():
                process.start()
                processes.append(process)
            there.close()
            pipes[here] = number
        for number, is_result, state in _received(pipes):
            latest[number] = state
            if is_result:
                results[number] = state
            progress(list(latest.values()))
    finally:
        for process in processes:
            process.terminate()
            process.join()
    if len(results) < len(parts):
        raise OpsdkError("a process of the verification ended without a result: see its error above")
    return [results[number] for number in range(len(parts))]


def _run(part: Callable[[Callable[[S], None]], S], pipe: Connection) -> None:
    become_child()
    reported = time.monotonic()

    def report(state: S) -> None:
        nonlocal reported
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            pipe.send((False, state))

    pipe.send((True, part(report)))
    pipe.close()


def _received(pipes: dict[Connection, int]) -> Iterator[tuple[int, bool, Any]]:
    """Yield number and state of a part, and whether it is the result, until all pipes are closed."""
    waiting = dict(pipes)
    while waiting:
        for pipe in wait(list(waiting)):
            assert isinstance(pipe, Connection)
            try:
                is_result, state = pipe.recv()
            except EOFError:
                del waiting[pipe]
                pipe.close()
            else:
                yield waiting[pipe], is_result, state
