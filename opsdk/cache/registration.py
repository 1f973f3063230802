"""A handler of an informer, and the deltas that wait for it.

Upstream: k8s.io/client-go/tools/cache/shared_informer.go (processorListener, v1.36)
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from enum import Enum

from opsdk.aio.slicer import Slicer
from opsdk.cache.store import Delta

# Up to this number, deltas are delivered at once, without slices.
_MAX_UNSLICED = 2

Handler = Callable[[Delta], None]
"""Called for every delta, in order, from the event loop. It must not block."""


class _Marker(Enum):
    INITIAL_END = "end of the initial list"
    """Stands in the backlog behind the last delta of the initial list, or of a replay."""


class HandlerRegistration:
    """The registration of a handler at an informer.

    Deltas are delivered in order. Many at once are delivered in slices, between which other tasks run.

    Args:
        handler: called with each delta; it must not raise.
        name: of the delivery of the initial list, which happens once, see `Slicer`.
        resync: whether the handler gets resyncs.
        start_task: runs a coroutine as long as the informer.
        on_remove: called once by `remove`.

    Attributes:
        handler: see above.
        resync: see above.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        name: str,
        resync: bool,
        start_task: Callable[[Coroutine[object, None, None]], object],
        on_remove: Callable[[HandlerRegistration], object],
    ) -> None:
        self.resync = resync
        self.handler = handler
        self._name = name
        self._start_task = start_task
        self._on_remove = on_remove
        # Iterators, so that the deltas of ten thousand objects are made slice by slice.
        self._backlog: deque[Iterator[Delta] | _Marker] = deque()
        self._removed = False
        self._initial_pending = True
        self._synced: asyncio.Future[None] | None = None

    @property
    def has_synced(self) -> bool:
        """Whether the handler has received every object of the initial list."""
        return not self._initial_pending

    async def wait_synced(self) -> None:
        """Return when the handler has received every object of the initial list, or is removed."""
        while self._initial_pending and not self._removed:
            if self._synced is None:
                self._synced = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._synced])

    def deliver(self, deltas: Iterable[Delta]) -> None:
        """Call the handler for each delta, after those that still wait."""
        if isinstance(deltas, tuple) and len(deltas) <= _MAX_UNSLICED and not self._backlog and not self._removed:
            for delta in deltas:  # an event of a watch: no slices are needed
                self.handler(delta)
        else:
            self._enqueue(iter(deltas))

    def complete_initial(self) -> None:
        """All deltas of the initial list were passed to `deliver`."""
        self._enqueue(_Marker.INITIAL_END)

    def replay(self, deltas: Iterable[Delta]) -> None:
        """Deliver the existing objects once more: `has_synced` is False until the handler has received them."""
        self._initial_pending = True
        if self._synced is not None and self._synced.done():
            self._synced = None
        self._enqueue(iter(deltas))
        self.complete_initial()

    def _enqueue(self, more: Iterator[Delta] | _Marker) -> None:
        if self._removed:
            return
        self._backlog.append(more)
        if len(self._backlog) == 1 and self._deliver_slice():
            self._start_task(self._drain())

    async def _drain(self) -> None:
        while self._backlog:
            await asyncio.sleep(0)
            self._deliver_slice()

    def _deliver_slice(self) -> bool:
        """Deliver one slice. Returns whether deltas are left."""
        slicer = Slicer(once=self._name if self._initial_pending else "")
        while self._backlog:
            first = self._backlog[0]
            if first is _Marker.INITIAL_END:
                self._backlog.popleft()
                self._initial_pending = _Marker.INITIAL_END in self._backlog  # of a replay
                if not self._initial_pending:
                    self._wake()
            elif (delta := next(first, None)) is None:
                self._backlog.popleft()
            else:
                self.handler(delta)
                if slicer.add(delta.entry.size):
                    break
        return bool(self._backlog)

    def remove(self) -> None:
        """Remove the handler. Idempotent."""
        if self._removed:
            return
        self._removed = True
        self._backlog.clear()
        self._wake()
        self._on_remove(self)

    def _wake(self) -> None:
        if self._synced is not None and not self._synced.done():
            self._synced.set_result(None)
