"""The sources of one controller: started concurrently, awaited, and closed together.

Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller/controller.go (startEventSources)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from opsdk.aio.containment import cancellations, contain
from opsdk.aio.tasks import TaskOwner
from opsdk.aio.waiting import finish, wait_ended
from opsdk.apimachinery.gvk import GroupKind
from opsdk.controller.options import ControllerOptions
from opsdk.errors import CacheSyncError, OpsdkError
from opsdk.event.sources import EventSource, SyncPolicy
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.failures import FunctionFailure
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds for a late source to report its own error, and for a cancelled task to end.
_GRACE = 5.0


class SourceGroup:
    """Starts the sources of a controller and waits for them by its `SyncPolicy`.

    Args:
        controller: name of the controller, for errors and logs.
        sources: the first sources.
        queue: the queue that the sources feed.
        options: timeout and policy.
        tasks: runs the waits for sources that sync late.
    """

    def __init__(
        self,
        controller: str,
        sources: Sequence[EventSource],
        *,
        queue: WorkQueue[Any],
        options: ControllerOptions,
        tasks: TaskOwner,
    ) -> None:
        self._controller = controller
        self._sources = list(sources)
        self._queue = queue
        self._timeout = options.sync_timeout
        self._policy = options.effective_sync_policy
        self._tasks = tasks
        self._started: set[int] = set()
        self._unsynced: dict[int, CacheSyncError | None] = {}
        self._late: dict[int, asyncio.Task[None]] = {}
        """The tasks that wait for sources while the workers run."""

    @property
    def started(self) -> bool:
        """Whether a source was started."""
        return bool(self._started)

    @property
    def is_idle(self) -> bool:
        """See `EventSource.is_idle`."""
        return all(source.is_idle for source in self._sources)

    def is_watched(self, kind: GroupKind) -> bool:
        """Whether one of the sources has events of a kind, in any version and representation."""
        return any(source.watches(kind) for source in self._sources)

    def add(self, source: EventSource) -> None:
        """Add a source; `sync` or `start` starts it."""
        self._sources.append(source)

    async def remove(self, source: EventSource) -> None:
        """Close a source and forget it. Idempotent."""
        if source in self._sources:
            self._sources.remove(source)
            self._stop_waiting(id(source))
            self._unsynced.pop(id(source), None)
            self._started.discard(id(source))  # another source may get the same id
            await source.aclose()

    async def start(self, source: EventSource) -> None:
        """Start a source."""
        # By identity: a source that is added while others sync must not start twice.
        if id(source) not in self._started:
            self._started.add(id(source))
            await source.start(self._queue)

    async def sync(self) -> None:
        """Start all sources concurrently and wait until each has synced. Raises the first failure at once."""
        syncing = [
            asyncio.get_running_loop().create_task(self._sync(source), name=f"{self._controller}/sync {source!r}")
            for source in self._sources
        ]
        try:
            for next_done in asyncio.as_completed(syncing):
                await next_done
        except Exception as error:
            error.add_note(f"while controller {self._controller} waited for its sources")
            raise
        finally:
            for task in syncing:
                task.cancel()
            await wait_ended(syncing, _GRACE)

    def wait_late(self, source: EventSource) -> None:
        """Wait for a source while the workers run, until it is removed or the group is closed."""
        self._late[id(source)] = self._tasks.start(self._sync_late(source), name=f"sync {source!r}")

    def _stop_waiting(self, source: int) -> None:
        if (task := self._late.pop(source, None)) is not None:
            task.cancel()

    async def _sync_late(self, source: EventSource) -> None:
        self._unsynced.setdefault(id(source), None)
        while True:
            try:
                await self._wait_synced(source)
                break
            except CacheSyncError as error:
                log.error("controller %s: a source has not synced yet: %s", self._controller, error)
                self._unsynced[id(source)] = error
            except OpsdkError as error:
                log.error("controller %s runs without %r, which failed to sync: %s", self._controller, source, error)
                self._late.pop(id(source), None)
                return
        self._late.pop(id(source), None)
        self._unsynced.pop(id(source), None)

    async def _sync(self, source: EventSource) -> None:
        """Start a source and wait for its sync, as its policy requires. Raises `CacheSyncError`."""
        self._unsynced.setdefault(id(source), None)
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                await self.start(source)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise CacheSyncError(
                f"controller {self._controller}: {source!r} did not start within {self._timeout:g} s: "
                "its start() must not block"
            ) from error
        while True:
            try:
                await self._wait_synced(source)
                break
            except CacheSyncError as error:
                policy = source.sync_policy or self._policy
                if policy is SyncPolicy.FAIL:
                    raise CacheSyncError(f"controller {self._controller} cannot start: {error}") from (
                        error.__cause__ or error
                    )
                log.error("controller %s waits for a source: %s", self._controller, error)
                self._unsynced[id(source)] = error
                if policy is SyncPolicy.DEGRADE:
                    self.wait_late(source)
                    return
        self._unsynced.pop(id(source), None)

    async def _wait_synced(self, source: EventSource) -> None:
        """Wait for a source. Raises `CacheSyncError` after the timeout."""
        # The source's own error is more precise: wait a little longer for it.
        limit = asyncio.timeout(self._timeout + _GRACE)
        try:
            async with limit:
                await source.wait_synced(self._timeout)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise CacheSyncError(
                f"controller {self._controller}: {source!r} did not sync within {self._timeout:g} s"
            ) from error

    def problems(self) -> list[str]:
        """Return why the controller does not follow all its sources now: kinds, namespaces, permissions that miss."""
        details = []
        for source in self._sources:
            detail = source.problem()
            if not detail and id(source) in self._unsynced:
                detail = str(self._unsynced[id(source)] or f"{source!r} has not synced")
            if detail:
                details.append(detail)
        return details

    def failing_functions(self) -> list[FunctionFailure]:
        """Return the functions of the user that raise now."""
        return [failure for source in self._sources for failure in source.failing_functions()]

    async def close(self) -> None:
        """Close every source, also after a cancellation. Errors are logged."""
        await finish(self._close(), name=f"controller {self._controller}/close sources")

    async def _close(self) -> None:
        for waited in tuple(self._late):
            self._stop_waiting(waited)
        for source in self._sources:
            task = asyncio.current_task()
            before = cancellations(task)
            try:
                await source.aclose()
            except BaseException as error:
                contain(error, task=task, cancelling=before)
                log.exception("controller %s: %r raised an error while it closed", self._controller, source)
