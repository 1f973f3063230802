"""The workers of a controller: tasks that take requests from its queue and reconcile them."""

from __future__ import annotations

import asyncio
from typing import Any

from opsdk.aio.containment import cancellations, is_contained
from opsdk.aio.tasks import TaskOwner
from opsdk.aio.waiting import wait_ended
from opsdk.controller.request_processor import RequestProcessor
from opsdk.errors import ShutdownTimeoutError
from opsdk.queue.work_queue import ShutDownError, WorkQueue
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds for a cancelled task to end.
_CANCEL_GRACE = 5.0


class WorkerPool:
    """Runs workers until the first of them ends.

    A worker ends only by shutdown, or by an exception that is more than its request's. Any other end is a bug.

    Args:
        name: of the controller, for tasks and logs.
        queue: of the controller.

    Attributes:
        tasks: one for each worker; the name of a busy one has its request.
    """

    def __init__(self, name: str, queue: WorkQueue[Any]) -> None:
        self._name = name
        self._queue = queue
        self.tasks: list[asyncio.Task[None]] = []
        self._are_cancelled = False

    def start(self, limit: int, owner: TaskOwner, requests: RequestProcessor) -> None:
        """Start the workers, in tasks of `owner`."""
        self.tasks = [owner.start(self._work(requests), name=f"worker {number}") for number in range(limit)]

    async def wait(self) -> None:
        """Wait until the first worker ends, and raise its error."""
        done, _ = await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
        for worker in done:
            worker.result()

    async def stop(self, patience: float) -> None:
        """Take no more work, and wait until the workers have ended.

        Args:
            patience: seconds before they are cancelled. A cancellation of this call cancels them at once.

        Raises:
            ShutdownTimeoutError: reconciles ignore their cancellation.
        """
        self._queue.shut_down()
        try:
            if pending := [worker for worker in self.tasks if not worker.done()]:
                await asyncio.wait(pending, timeout=patience)
        finally:
            await self._cancel()

    async def _cancel(self) -> None:
        pending = [worker for worker in self.tasks if not worker.done()]
        if not pending:
            return
        log.warning("controller %s cancels reconciles that did not finish in time: %s", self._name, self._processing())
        self._are_cancelled = True
        for worker in pending:
            worker.cancel()
        if await wait_ended(pending, _CANCEL_GRACE):
            raise ShutdownTimeoutError(
                f"controller {self._name}: reconciles ignore their cancellation: {self._processing()}"
            )

    def _processing(self) -> str:
        return ", ".join(map(str, self._queue.core.processing()))

    async def _work(self, requests: RequestProcessor) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            before = cancellations(task)
            try:
                queue_item = await self._queue.get()
            except ShutDownError:
                return
            except asyncio.CancelledError as error:
                # A timer of the last reconcile that was not removed must not end the worker.
                if not self.is_contained(error, task, before):
                    raise
                continue
            try:
                try:
                    # For the watchdog and the debug page.
                    task.set_name(f"{self._name}/reconcile {queue_item.item}")
                    if queue_item.item not in requests.hot_loops.own_passes or not requests.wait_in_hot_loop(
                        queue_item
                    ):
                        await requests.reconcile(queue_item)
                except BaseException as error:
                    if not self.is_contained(error, task, before):
                        raise
                    requests.retry_after_error(queue_item, error)
                finally:
                    self._queue.done(queue_item.item)
            except BaseException as error:
                if not self.is_contained(error, task, before):
                    raise
                requests.recover(queue_item, error)

    def is_contained(self, error: BaseException, task: asyncio.Task[Any] | None, before: int) -> bool:
        """Whether an exception stays with its request, see `opsdk.aio.containment`."""
        # Nothing but this class cancels workers: a library that cancels its own task must not end one.
        is_foreign = task in self.tasks and not self._are_cancelled
        return (is_foreign and isinstance(error, asyncio.CancelledError)) or is_contained(
            error, task=task, cancelling=before
        )
