"""Runs a program's event loop so that the process exits even if user code hangs.

``asyncio.run`` waits without limit for tasks that ignore their cancellation, and for threads of ``asyncio.to_thread``;
the interpreter waits for threads at its exit. `run_program` waits for a limited time, and logs what it abandons.

Upstream: controller-runtime returns from ``main`` after the shutdown timeout, and Go ends a process with its ``main``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn

from opsdk.aio.blocking import release_threads
from opsdk.aio.large_work import release_thread
from opsdk.aio.waiting import wait_ended
from opsdk.aio.watchdog import place, stack

log = logging.getLogger(__name__)

# Seconds for tasks to end after their cancellation, for threads to end, and for the log to be written.
_TASK_SECONDS = 2.0
_THREAD_SECONDS = 2.0
_FLUSH_SECONDS = 2.0


class ExitGuard:
    """Ends the process with status 1 if it still runs `seconds` after `arm`, for example because the loop is blocked.

    Args:
        seconds: None disables the guard.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._watched_thread = threading.main_thread().ident or 0
        self._timer: threading.Timer | None = None

    def arm(self) -> None:
        """Start the timer. Later calls do nothing. Works in a signal handler."""
        if self._timer is None and self.seconds is not None:
            self._watched_thread = threading.main_thread().ident or 0
            self._timer = threading.Timer(self.seconds, self._on_timeout)
            self._timer.daemon = True
            self._timer.start()

    def disarm(self) -> None:
        """Cancel the timer, because the process exits normally."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timeout(self) -> None:
        text = (
            f"still running {self.seconds:g} s after the stop began, in {place(self._watched_thread)}; exiting at once"
        )
        _exit_now(1, lambda: log.critical("%s\n%s", text, stack(self._watched_thread)))

    def __repr__(self) -> str:
        return f"<ExitGuard of {self.seconds} s{', armed' if self._timer else ''}>"


def run_program(
    main: Coroutine[object, None, None],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> None:
    """Run `main` in a new event loop, and exit the process if a thread would block the exit of the interpreter.

    Tasks that are left are cancelled, and have two seconds to end. Threads that `main` started have two seconds,
    too. Abandoned ones are logged with name and position.

    * If only tasks are left, the function returns, or raises the error of `main`: they die with the loop.
    * If non-daemon threads are left, the process exits here: with status 0 if `main` returned and no task was left,
      otherwise with status 1 after logging the error of `main`. Exit handlers do not run.
    """
    before = set(threading.enumerate())
    error: BaseException | None = None
    tasks: list[asyncio.Task[Any]] = []
    loop = loop_factory()
    try:
        asyncio.set_event_loop(loop)
        task = loop.create_task(main, name="main")
        try:
            loop.run_until_complete(task)
        except BaseException as caught:  # noqa: BLE001 - raised below
            error = caught
        tasks = loop.run_until_complete(_cancel_remaining_tasks(loop))
    finally:
        asyncio.set_event_loop(None)
        # Does not wait for the threads of the default executor.
        loop.close()
        release_thread()
        release_threads()
    threads = _wait_for_threads(before)
    if threads:
        _exit_now(1 if error is not None or tasks else 0, lambda: _log_threads(threads, error))
    if error is not None:
        raise error


async def _cancel_remaining_tasks(loop: asyncio.AbstractEventLoop) -> list[asyncio.Task[Any]]:
    """Cancel every other task, and return those that still run after two seconds."""
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    abandoned = list(await wait_ended(tasks, _TASK_SECONDS))
    for task in abandoned:
        log.error("the task %r ignores its cancellation and is abandoned in %s", task.get_name(), _position(task))
        task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - logged here with more detail
    closing = loop.create_task(loop.shutdown_asyncgens(), name="close generators")
    if await wait_ended((closing,), _TASK_SECONDS):
        log.error("an asynchronous generator ignores its cancellation")
    return abandoned


def _position(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    return f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "an unknown position"


def _wait_for_threads(before: Iterable[threading.Thread]) -> list[threading.Thread]:
    """Wait for threads that were started in the meantime, and return those that still run and would block the exit."""
    until = time.monotonic() + _THREAD_SECONDS
    started = [thread for thread in threading.enumerate() if thread not in set(before) and not thread.daemon]
    for thread in started:
        thread.join(max(until - time.monotonic(), 0.0))
    return [thread for thread in started if thread.is_alive()]


def _log_threads(threads: Iterable[threading.Thread], error: BaseException | None) -> None:
    for thread in threads:
        where, calls = place(thread.ident or 0), stack(thread.ident or 0)
        log.error("the thread %r does not end and is abandoned in %s\n%s", thread.name, where, calls)
    if error is not None:
        log.critical("the program exits with an error", exc_info=error)


def _exit_now(status: int, last_words: Callable[[], None]) -> NoReturn:
    """Log, flush, and exit the process within two seconds."""

    def flush() -> None:
        last_words()
        for handler in logging.getLogger().handlers:
            handler.flush()
        sys.stdout.flush()
        sys.stderr.flush()

    # Another thread may never release the lock of a log handler.
    writer = threading.Thread(target=flush, name="last words", daemon=True)
    writer.start()
    writer.join(_FLUSH_SECONDS)
    os._exit(status)
