"""The delegating executor: reads from the cache, everything else from the server.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/client.go (shouldBypassCache)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.watch import WatchEvent
from opsdk.cache.reader import CONTINUE_NOT_SUPPORTED
from opsdk.client.operations import Get, List, ObjectWrite, Operation, Watch
from opsdk.client.ports import OperationExecutor, RemovalObserver, observe_removals
from opsdk.cluster.referenced_objects import ReferencedObjects, is_whole_read


class Delegating:
    """Sends reads to the cache and other operations to the server.

    A read goes to the server if it sets ``uncached``, a resource version, a subresource or a continue token, if its
    kind is in `disable_cache_for`, or if `bypass` returns True for its kind. `referenced` may answer such a read of one
    object from memory.
    """

    def __init__(
        self,
        cached: OperationExecutor,
        direct: OperationExecutor,
        *,
        disable_cache_for: Collection[GroupVersionKind] = (),
        bypass: Callable[[Kind[Any]], bool] = lambda _: False,
        referenced: ReferencedObjects | None = None,
    ) -> None:
        self._bypass = bypass
        self._referenced = referenced
        self.cached = cached
        self.direct = direct
        self.disable_cache_for = frozenset(disable_cache_for)
        self.scheme: Scheme = direct.scheme
        self.mapper: RestMapper = direct.mapper

    # Not async: the executor that it chooses has the coroutine.
    def execute(self, operation: Operation) -> Coroutine[Any, Any, Any]:
        """Execute the operation."""
        if isinstance(operation, ObjectWrite):
            return self.direct.execute(operation)
        if self._is_cached(operation):
            return self.cached.execute(operation)
        if self._referenced is not None and is_whole_read(operation):
            return self._referenced.get(operation, self.direct)
        return self.direct.execute(operation)

    def _is_cached(self, operation: Operation) -> bool:
        if isinstance(operation, Get):
            is_plain = not operation.subresource
        elif isinstance(operation, List):
            # A cache continue token is not valid on the server; the cache returns an error that explains it.
            is_plain = operation.options.continue_token in ("", CONTINUE_NOT_SUPPORTED)
        else:
            return False
        options = operation.options
        if not is_plain or options.uncached or options.resource_version:
            return False
        return operation.kind.gvk not in self.disable_cache_for and not self._bypass(operation.kind)

    def watch(self, operation: Watch) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Watch on the server."""
        return self.direct.watch(operation)

    def observe_removals(self, kind: Kind[Any], observer: RemovalObserver) -> bool:
        cached = kind.gvk not in self.disable_cache_for and not self._bypass(kind)
        return cached and observe_removals(self.cached, kind, observer)

    def __repr__(self) -> str:
        return f"Delegating(reads: {self.cached!r}, writes: {self.direct!r})"
