"""The Protocol between the client and the executors of its operations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.rest_mapper import RestMapper, RestMapping
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.watch import WatchEvent
from opsdk.client.operations import Operation, Watch

RemovalObserver = Callable[[GroupVersionKind, ObjectKey], None]
"""Gets kind and key of an object. Must not block or raise."""


class WriteObserver(Protocol):
    """Receives the result of every write, and the keys of objects that the server does not have. It must not block."""

    def sending(self, operation: Operation, mapping: RestMapping) -> Any:
        """Called before a write is sent. Return what `written` needs to know of this moment."""
        ...

    def written(
        self, operation: Operation, mapping: RestMapping, *, request: bytes, response: bytes, sent: Any
    ) -> None:
        """Called before a write returns, with both bodies and the result of `sending`."""
        ...

    def failed(self, operation: Operation, mapping: RestMapping, *, request: bytes, error: BaseException) -> None:
        """Called before a write raises `error`, which may be a cancellation. The server may have carried it out."""
        ...

    def missing(self, mapping: RestMapping, key: ObjectKey) -> None:
        """Called when the server returns 404 for an object that is read or written. Must not block."""
        ...


class OperationExecutor(Protocol):
    """Carries out operations: the direct client, the cached reader, decorators, fakes."""

    scheme: Scheme
    mapper: RestMapper

    def execute(self, operation: Operation) -> Coroutine[Any, Any, Any]:
        """Return the result: an object, an `ObjectList` for lists, None for deletions.

        An async function, or one that returns the coroutine of another executor.
        """
        ...

    def watch(self, operation: Watch) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Return a context manager of watch events. Entering it raises the server's error."""
        ...


@runtime_checkable
class RemovalFeed(Protocol):
    """An executor that reads from a cache."""

    def observe_removals(self, kind: Kind[Any], observer: RemovalObserver) -> bool:
        """See `observe_removals`."""
        ...


def observe_removals(executor: OperationExecutor, kind: Kind[Any], observer: RemovalObserver) -> bool:
    """Call `observer`, a bound method, for each object of `kind` that leaves the cache of an executor.

    The method's object is referenced weakly. Returns False, and does nothing, if the kind is not cached.
    """
    return isinstance(executor, RemovalFeed) and executor.observe_removals(kind, observer)
