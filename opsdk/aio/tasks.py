"""Background tasks with an owner.

``asyncio.TaskGroup`` ties tasks to a block of code. Informers, queues and elections live longer than a block: one call
starts a task and another call ends it. With `TaskOwner`, no task outlives its owner and no exception is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from opsdk.aio.clock import monotonic
from opsdk.aio.closing import Closing
from opsdk.aio.waiting import wait_ended

log = logging.getLogger(__name__)

T = TypeVar("T")


class TaskOwner(Closing):
    """Owns background tasks until `aclose`.

    When a task raises, `on_error` is called once with the task's name and the exception. Without `on_error`, `aclose`
    raises the first exception. Cancellation is not an error.

    Args:
        name: prefix of the tasks' names.
        on_error: see above.
        grace: seconds that `aclose` waits for tasks that ignore their cancellation.

    >>> async def main():
    ...     async with TaskOwner("example") as tasks:
    ...         tasks.start(asyncio.sleep(0), name="nap")
    >>> asyncio.run(main())
    """

    def __init__(
        self, name: str, *, on_error: Callable[[str, BaseException], None] | None = None, grace: float = 5.0
    ) -> None:
        self.name = name
        self._grace = grace
        self._on_error = on_error
        self._tasks: dict[asyncio.Task[object], None] = {}  # in order, so that runs repeat
        self._first_error: BaseException | None = None
        self._closed = False

    def start(self, coro: Coroutine[object, None, T], *, name: str) -> asyncio.Task[T]:
        """Run `coro` in a task called ``<owner>/<name>``. Raises ``RuntimeError`` after `aclose`."""
        if self._closed:
            coro.close()
            raise RuntimeError(f"{self.name} is closed: it cannot start the task {name!r}")
        task = asyncio.get_running_loop().create_task(coro, name=f"{self.name}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[object]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._on_error is not None:
            self._on_error(task.get_name(), error)
        elif self._first_error is None:
            self._first_error = error

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        names = ", ".join(sorted(t.get_name().removeprefix(f"{self.name}/") for t in self._tasks))
        return f"<TaskOwner {self.name}: {names or 'idle'}{', closed' if self._closed else ''}>"

    async def aclose(self) -> None:
        """Cancel every task and wait until each has ended. Idempotent.

        A task that ignores its cancellation is cancelled again each second. After `grace` seconds it is left behind,
        and logged with its name: user code must not keep the process from ending.

        If the caller is cancelled, the wait still finishes; the cancellation is raised afterwards.
        """
        self._closed = True
        current = asyncio.current_task()
        deadline = monotonic() + self._grace
        interrupted: asyncio.CancelledError | None = None
        while pending := [t for t in self._tasks if t is not current and not t.done()]:
            remaining = deadline - monotonic()
            if remaining <= 0:
                names = ", ".join(sorted(task.get_name() for task in pending))
                log.error("%s: still running %g s after their cancellation: %s", self.name, self._grace, names)
                break
            for task in pending:
                task.cancel()
            try:
                await wait_ended(pending, min(remaining, 1.0))
            except asyncio.CancelledError as error:
                interrupted = error
        try:
            # The callbacks of tasks that have just ended have yet to run; they keep the first exception.
            await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            interrupted = error
        if interrupted is not None:
            raise interrupted
        if self._first_error is not None:
            failed, self._first_error = self._first_error, None
            raise failed


async def until_set(event: asyncio.Event, coro: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of a coroutine, or None if an event is set before. Then the coroutine is cancelled."""
    running = asyncio.ensure_future(coro)
    setting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([running, setting], return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else None
    finally:
        for task in (running, setting):
            task.cancel()
        await asyncio.wait([running, setting])
