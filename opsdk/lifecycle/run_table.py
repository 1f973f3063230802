"""Decides which handlers of an object run now and which later. Pure.

The queue has two kinds of items: a `Request` runs all handlers of an object, a `HandlerRequest` only one. The table
prevents both from running at the same time for one object, without blocking a worker, and limits the workers for
retries. An item that cannot run now is remembered and returned by a later `RunTable.end`.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import NamedTuple, Self

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.event.request import Request


class HandlerRequest(NamedTuple):
    """A request to call one handler for one object. Prints as ``namespace/name [handler]``.

    Attributes:
        namespace: as in `Request`.
        name: as in `Request`.
        cluster: as in `Request`.
        handler: name of the handler.
    """

    namespace: str
    name: str
    cluster: str
    handler: str

    @property
    def key(self) -> ObjectKey:
        """The key of the object."""
        return ObjectKey(self.namespace, self.name)

    @classmethod
    def of(cls, request: Request, handler: str) -> Self:
        """Return the request for one handler of an object."""
        return cls(request.namespace, request.name, request.cluster, handler)

    def __str__(self) -> str:
        return f"{request_of(self)} [{self.handler}]"


AnyRequest = Request | HandlerRequest


def request_of(item: AnyRequest) -> Request:
    """Return the request for the object of an item."""
    return Request(item.namespace, item.name, item.cluster)


class RunVerdict(Enum):
    """The decision for a queue item that a worker took."""

    RUN = "run"
    """Nothing else runs for the object."""
    BUSY = "busy"
    """The object is being handled. The item is queued again when that ends."""
    PARKED = "parked"
    """Too many retries run. The item is queued again when one of them ends."""
    SETTLED = "settled"
    """The handler has succeeded since the item was queued."""


class KeyRuns(msgspec.Struct):
    """One object.

    Attributes:
        running: the items that run now.
        waiting: the items to queue when they end.
        due: handlers that must be called again; True for those whose last call timed out.
    """

    running: AnyRequest | None = None
    waiting: dict[AnyRequest, None] = msgspec.field(default_factory=dict)
    due: dict[str, bool] = msgspec.field(default_factory=dict)


class RunTable:
    """The runs of one controller.

    Args:
        retry_limit: how many `HandlerRequest`s run at the same time.

    >>> table = RunTable(retry_limit=1)
    >>> site = Request("default", "site")
    >>> table.begin(site), table.begin(site)
    (<RunVerdict.RUN: 'run'>, <RunVerdict.BUSY: 'busy'>)
    >>> table.end(site)
    [Request(namespace='default', name='site', cluster='')]
    """

    def __init__(self, *, retry_limit: int) -> None:
        self._limit = retry_limit
        self._retries = 0
        self._parked: deque[HandlerRequest] = deque()
        self._keys: dict[Request, KeyRuns] = {}

    # -------------------------------------------------------------- runs
    def begin(self, item: AnyRequest) -> RunVerdict:
        """Begin a run if the verdict is RUN. `end` must follow then, and only then."""
        key = request_of(item)
        runs = self._keys.get(key)
        if isinstance(item, HandlerRequest) and (runs is None or item.handler not in runs.due):
            return RunVerdict.SETTLED
        if runs is None:
            runs = self._keys[key] = KeyRuns()
        if runs.running is not None:
            runs.waiting[item] = None
            return RunVerdict.BUSY
        if isinstance(item, HandlerRequest):
            if self._retries >= self._limit:
                if item not in self._parked:
                    self._parked.append(item)
                return RunVerdict.PARKED
            self._retries += 1
        runs.running = item
        return RunVerdict.RUN

    def end(self, item: AnyRequest) -> list[AnyRequest]:
        """End a run, and return the items to queue now."""
        key = request_of(item)
        runs = self._keys[key]
        assert runs.running == item, f"{item} does not run"
        runs.running = None
        queued: list[AnyRequest] = list(runs.waiting)
        runs.waiting.clear()
        if not runs.due:
            del self._keys[key]
        if isinstance(item, HandlerRequest):
            self._retries -= 1
        return [*queued, *self.unpark()]

    def unpark(self) -> list[AnyRequest]:
        """Return parked items for which there is room now, to queue them.

        Call it after a `HandlerRequest` whose verdict is BUSY or SETTLED: it may have been unparked, and leaves its
        place to the next one. `end` includes it.
        """
        room = min(self._limit - self._retries, len(self._parked))
        return [self._parked.popleft() for _ in range(room)]

    # -------------------------------------------------------------- handlers
    def failed(self, key: Request, handler: str, *, timed_out: bool = False) -> None:
        """Record that a handler must be called again: it failed, or it was added after the start."""
        self._keys.setdefault(key, KeyRuns()).due[handler] = timed_out

    def succeeded(self, key: Request, handler: str) -> bool:
        """Record that a handler need not be called again. Returns False if that was already recorded."""
        runs = self._keys.get(key)
        if runs is None or runs.due.pop(handler, None) is None:
            return False
        if not runs.due and runs.running is None:
            del self._keys[key]
        return True

    def timed_out(self, key: Request, handler: str) -> bool:
        """Whether the last call of the handler timed out."""
        runs = self._keys.get(key)
        return runs is not None and runs.due.get(handler, False)

    def forget_handler(self, handler: str) -> None:
        """Forget the pending calls of a removed handler."""
        for key in [key for key, runs in self._keys.items() if handler in runs.due]:
            self.succeeded(key, handler)

    def __len__(self) -> int:
        """Return the number of objects that are handled, or have handlers to call again."""
        return len(self._keys)

    def __repr__(self) -> str:
        return f"<RunTable: {len(self)} objects, {self._retries} retries run, {len(self._parked)} wait>"
