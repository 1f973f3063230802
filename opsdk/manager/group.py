"""A group of runnables that start together and stop together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.errors import UsageError
from opsdk.lifecycle import Ready, Runnable

log = logging.getLogger(__name__)

# How long a runnable that was cancelled for good may take to notice.
_LAST_WORDS = 1.0


class GroupState(Enum):
    """Where a group is in its life."""

    WAITING = "waiting"
    """Takes runnables; none runs."""
    RUNNING = "running"
    """Takes runnables, and starts them at once."""
    STOPPED = "stopped"


class RunnableGroup:
    """Runs runnables, each in a task of its own.

    Args:
        on_error: called with the first error of each runnable; cancellation is none.
    """

    def __init__(
        self, name: str, *, on_error: Callable[[Runnable, BaseException], None], clock: Clock = LOOP_CLOCK
    ) -> None:
        self.name = name
        self.state = GroupState.WAITING
        self._on_error = on_error
        self._clock = clock
        self._runnables: list[Runnable] = []
        self._tasks: dict[asyncio.Task[None], Runnable] = {}

    def add(self, runnable: Runnable) -> None:
        """Add a runnable; if the group runs already, it is started now."""
        if self.state is GroupState.STOPPED:
            raise UsageError("can't accept new runnable as stop procedure is already engaged")
        self._runnables.append(runnable)
        if self.state is GroupState.RUNNING:
            self._start(runnable)

    def start(self) -> None:
        """Start every runnable; a stopped group stays stopped."""
        if self.state is not GroupState.WAITING:
            return
        self.state = GroupState.RUNNING
        for runnable in self._runnables:
            self._start(runnable)

    def _start(self, runnable: Runnable) -> None:
        task = asyncio.get_running_loop().create_task(self._run(runnable), name=f"{self.name}/{runnable!r}")
        self._tasks[task] = runnable
        task.add_done_callback(self._tasks.pop)

    async def _run(self, runnable: Runnable) -> None:
        try:
            await runnable.start()
        except asyncio.CancelledError:
            if self.state is GroupState.STOPPED:
                raise
            self._on_error(runnable, RuntimeError(f"{runnable!r} was cancelled by itself"))
        except BaseException as error:  # noqa: BLE001 - handed to the manager, which raises it
            self._on_error(runnable, error)

    async def wait_ready(self) -> None:
        """Return when every runnable that can tell says that it is ready."""
        waiting = [r.wait_ready() for r in self._runnables if isinstance(r, Ready)]
        await asyncio.gather(*waiting)

    async def stop(self, seconds: float | None) -> list[str]:
        """Cancel every runnable and wait; after `seconds` (None: for ever) cancel again.

        Returns the names of those that still ran after `seconds`.
        """
        self.state = GroupState.STOPPED
        tasks = dict(self._tasks)
        for task in tasks:
            task.cancel()
        if not tasks:
            return []
        _, late = await asyncio.wait(tasks, timeout=seconds)
        names = [repr(tasks[task]) for task in late]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_LAST_WORDS)
        return names

    def __repr__(self) -> str:
        return f"<RunnableGroup {self.name} {self.state.value}: {len(self._tasks)} of {len(self._runnables)} run>"
