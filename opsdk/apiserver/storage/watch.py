"""A storage watch with a bounded queue.

Upstream: k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from opsdk.apiserver.storage.ports import StorageChange, WatchInterruptedError


class QueueWatch:
    """A watch that never blocks the writer.

    It ends if its reader is more than `limit` changes behind, or behind the history. So it holds references only.
    """

    def __init__(
        self,
        prefix: str,
        backlog: Iterable[StorageChange],
        *,
        limit: int,
        after: int,
        current: Callable[[], int],
        on_close: Callable[[QueueWatch], object],
    ) -> None:
        self.prefix = prefix
        self.overflowed = False
        self._queue: deque[StorageChange] = deque(backlog)
        # The backlog does not count against the reader.
        self._limit = limit + len(self._queue)
        self.after = after
        self._failure: Exception | None = None
        self._current = current
        self._on_close = on_close
        self._wake = asyncio.Event()
        self._closed = self._interrupted = False

    def __repr__(self) -> str:
        state = "overflowed" if self.overflowed else "closed" if self._closed else "open"
        return f"<QueueWatch of {self.prefix}: {state}, {len(self._queue)} waiting>"

    def offer(self, change: StorageChange) -> None:
        """Add a change; the writer calls it for each change below the prefix."""
        if change.revision <= self.after:
            return  # the watch starts at a later revision
        if len(self._queue) >= self._limit:
            self._overflow()
            return
        self._queue.append(change)
        self._wake.set()

    def check_floor(self, floor: int) -> None:
        """End if a pending change is no longer in the history: the history bounds what all watches hold."""
        if self._queue and self._queue[0].revision <= floor:
            self._overflow()

    def _overflow(self) -> None:
        self.overflowed = True
        self._queue.clear()
        self.close()

    def ready(self, limit: int) -> list[StorageChange]:
        queue = self._queue
        return [queue.popleft() for _ in range(min(limit, len(queue)))]

    def progress(self) -> int | None:
        """See `StorageWatch.progress`: the storage's revision if no change is pending."""
        return None if self._queue or self._failure is not None else self._current()

    def interrupt(self) -> None:
        self._interrupted = True
        self._wake.set()

    def fail(self, error: Exception) -> None:
        """End with an error and drop pending changes."""
        if not self._closed:
            self._failure = error
            self._queue.clear()
            self.close()

    def close(self) -> None:
        """End the iteration after the pending changes."""
        if not self._closed:
            self._closed = True
            self._on_close(self)
            self._wake.set()

    def __aiter__(self) -> QueueWatch:
        return self

    async def __anext__(self) -> StorageChange:
        while not self._queue:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._closed:
                raise StopAsyncIteration
            if self._interrupted:
                self._interrupted = False
                raise WatchInterruptedError
            self._wake.clear()
            await self._wake.wait()
        return self._queue.popleft()
