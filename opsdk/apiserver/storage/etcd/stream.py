"""A bidirectional gRPC stream that leaves no task behind."""

from __future__ import annotations

import asyncio
from typing import Any

from opsdk.aio.closing import Closing
from opsdk.aio.waiting import wait_ended

_GRACE = 2.0


class GrpcStream(Closing):
    """A call of a streaming method.

    grpcio reads each stream in an internal task, which ends some time after the cancellation. This class finds the
    task: no other code runs between the three callbacks that the constructor schedules.

    Attributes:
        abandoned: whether `abandon` ended the stream.
    """

    def __init__(self, method: Any, metadata: Any) -> None:
        loop = asyncio.get_running_loop()
        self.abandoned = False
        self._tasks: set[asyncio.Task[object]] = set()
        self._begun: Any = loop.create_future()
        loop.call_soon(self._before)
        self.call = method(metadata=metadata)
        loop.call_soon(self._after)

    def __repr__(self) -> str:
        return f"<GrpcStream {self.call!r}>"

    def _before(self) -> None:
        self._tasks = _watchers()

    def _after(self) -> None:
        self._tasks = _watchers() - self._tasks
        self._begun.set_result(None)

    def abandon(self) -> None:
        """End the stream for its reader, because the member does not respond to other requests."""
        self.abandoned = True
        self.call.cancel()

    def read_cancelled(self) -> bool:
        """Report whether a ``CancelledError`` of a read comes from `abandon` and not from its caller."""
        task = asyncio.current_task()
        return self.abandoned and task is not None and not task.cancelling()

    async def aclose(self) -> None:
        """Cancel the stream and wait for grpcio's task. Idempotent.

        A cancellation of the caller does not end the wait; it is raised afterwards.
        """
        self.call.cancel()
        try:
            await wait_ended([self._begun], None)
        finally:
            await wait_ended(self._tasks, _GRACE)


def _watchers() -> set[asyncio.Task[object]]:
    tasks: set[asyncio.Task[object]] = asyncio.all_tasks()
    return {task for task in tasks if getattr(task.get_coro(), "__name__", "") == "_handle_status_once_received"}
