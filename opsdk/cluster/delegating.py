"""The delegating performer: reads from the cache, everything else from the server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.watch import WatchEvent
from opsdk.cache.reader import CONTINUE_NOT_SUPPORTED
from opsdk.client.operations import Get, List, Operation, Watch
from opsdk.client.ports import Performer


class Delegating:
    """Routes operations.

    A read goes to the cache unless it asks for ``live``, names a revision, a subresource or a continue token, or is
    of a kind in `live_kinds`.
    """

    def __init__(self, cached: Performer, direct: Performer, *, live_kinds: Collection[GroupVersionKind] = ()) -> None:
        self.cached = cached
        self.direct = direct
        self.live_kinds = frozenset(live_kinds)
        self.scheme: Scheme = direct.scheme
        self.mapper: RestMapper = direct.mapper

    async def perform(self, operation: Operation) -> Any:
        """Hand it to the one who answers it."""
        return await (self.cached if self._is_cached(operation) else self.direct).perform(operation)

    def _is_cached(self, operation: Operation) -> bool:
        if not isinstance(operation, Get | List) or operation.kind.gvk in self.live_kinds:
            return False
        options = operation.options
        if options.live or options.resource_version:
            return False
        if isinstance(operation, Get):
            return not operation.subresource
        # The cache's own token is no server's: the cache says what to do instead.
        return operation.options.continue_ in ("", CONTINUE_NOT_SUPPORTED)

    def watch(self, operation: Watch) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Always from the server."""
        return self.direct.watch(operation)

    def __repr__(self) -> str:
        return f"Delegating(reads: {self.cached!r}, writes: {self.direct!r})"
