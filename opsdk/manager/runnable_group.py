"""A group of runnables that start and stop together.

Upstream: sigs.k8s.io/controller-runtime/pkg/manager/runnable_group.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from enum import Enum

from opsdk.aio.fence import FENCE, Fence
from opsdk.aio.waiting import wait_ended
from opsdk.base.runnable import Ready, Runnable
from opsdk.errors import UsageError
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds for a runnable to end after its second cancellation.
_CANCEL_GRACE = 1.0


class GroupState(Enum):
    """State of a group."""

    WAITING = "waiting"
    """Accepts runnables; none runs."""
    RUNNING = "running"
    """Accepts runnables and starts them at once."""
    STOPPED = "stopped"


class RunnableGroup:
    """Runs runnables, each in its own task.

    Args:
        name: for logs.
        on_error: called with the first error of each runnable; cancellation is not an error.

    Attributes:
        fence: checks the writes of the runnables, and of all tasks that they start.
    """

    def __init__(self, name: str, *, on_error: Callable[[Runnable, BaseException], None]) -> None:
        self.name = name
        self.state = GroupState.WAITING
        self.fence: Fence | None = None
        self._on_error = on_error
        self._runnables: list[Runnable] = []
        self._tasks: dict[asyncio.Task[None], Runnable] = {}
        self._grace_cancelled = asyncio.Event()

    def add(self, runnable: Runnable) -> None:
        """Add a runnable. If the group runs, start it now. Raises `UsageError` after the stop."""
        if self.state is GroupState.STOPPED:
            raise UsageError("can't accept new runnable as stop procedure is already engaged")
        self._runnables.append(runnable)
        if self.state is GroupState.RUNNING:
            self._start(runnable)

    def start(self) -> None:
        """Start every runnable. A stopped group stays stopped."""
        if self.state is not GroupState.WAITING:
            return
        self.state = GroupState.RUNNING
        for runnable in self._runnables:
            self._start(runnable)

    def _start(self, runnable: Runnable) -> None:
        # Do not inherit the fence of the caller, which may be a task of another group.
        context = copy_context()
        context.run(FENCE.set, self.fence)
        name = f"{self.name}/{runnable!r}"
        task = asyncio.get_running_loop().create_task(self._run(runnable), name=name, context=context)
        self._tasks[task] = runnable
        task.add_done_callback(self._tasks.pop)

    async def _run(self, runnable: Runnable) -> None:
        try:
            await runnable.start()
        except asyncio.CancelledError:
            if self.state is GroupState.STOPPED:
                raise
            self._on_error(runnable, RuntimeError(f"{runnable!r} was cancelled, but not by its group"))
        except BaseException as error:  # noqa: BLE001 - handed to the manager, which raises it
            self._on_error(runnable, error)

    async def wait_ready(self) -> None:
        """Wait until every runnable with `Ready` is ready or has ended.

        A runnable that cannot become ready is reported to `on_error`; the caller must then cancel the wait.
        """
        waited_for: set[int] = set()
        # Repeat for runnables that were added in the meantime.
        while waiting := [r for r in self._runnables if isinstance(r, Ready) and id(r) not in waited_for]:
            waited_for |= {id(r) for r in waiting}
            async with asyncio.TaskGroup() as group:
                for runnable in waiting:
                    group.create_task(self._wait_one(runnable), name=f"{self.name}/ready {runnable!r}")

    async def _wait_one(self, runnable: Runnable) -> None:
        """Return when a runnable is ready or has ended. Its error goes to `on_error`."""
        assert isinstance(runnable, Ready)
        running = [task for task, owner in self._tasks.items() if owner is runnable]
        if not running:
            return  # It has ended, so it cannot become ready. `_run` has reported its error.
        ready: asyncio.Task[None] = asyncio.create_task(_wait_ready(runnable), name=f"{runnable!r}/ready")
        try:
            await asyncio.wait([ready, *running], return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and not ready.cancelled() and (error := ready.exception()) is not None:
                self._on_error(runnable, error)
                await asyncio.get_running_loop().create_future()
        finally:
            ready.cancel()
            if await wait_ended((ready,), _CANCEL_GRACE):
                log.error("%r: wait_ready ignores its cancellation", runnable)

    async def stop(self, seconds: float | None) -> list[str]:
        """Cancel every runnable and wait. After `seconds` (None: no limit) or `cancel_grace`, cancel again.

        Returns the names of the runnables that needed the second cancellation. `running` names those that ignore it.
        """
        self.state = GroupState.STOPPED
        tasks = dict(self._tasks)
        for task in tasks:
            task.cancel()
        late = await self._wait_for_end(set(tasks), seconds)
        names = [repr(tasks[task]) for task in late]
        for task in late:
            task.cancel()
        if late:
            await wait_ended(late, _CANCEL_GRACE)
        return names

    async def _wait_for_end(self, tasks: set[asyncio.Task[None]], seconds: float | None) -> set[asyncio.Task[None]]:
        grace_cancelled = asyncio.ensure_future(self._grace_cancelled.wait())
        try:
            async with asyncio.timeout(seconds):
                while (pending := {t for t in tasks if not t.done()}) and not grace_cancelled.done():
                    await asyncio.wait({*pending, grace_cancelled}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            pass  # the caller cancels what still runs
        finally:
            grace_cancelled.cancel()
        return {t for t in tasks if not t.done()}

    def cancel_grace(self) -> None:
        """End the wait of `stop` now; if called before, `stop` does not wait."""
        self._grace_cancelled.set()

    def running(self) -> list[str]:
        """Return the names of the running runnables."""
        return [repr(runnable) for runnable in self._tasks.values()]

    def __repr__(self) -> str:
        return f"<RunnableGroup {self.name} {self.state.value}: {len(self._tasks)} of {len(self._runnables)} run>"


async def _wait_ready(runnable: Ready) -> None:
    await runnable.wait_ready()
