"""The seam of the client: who carries operations out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.watch import WatchEvent
from opsdk.client.operations import Operation, Watch


class OperationExecutor(Protocol):
    """Carries operations out. The direct client, the cached reader, wrappers and fakes are executors."""

    scheme: Scheme
    mapper: RestMapper

    async def execute(self, operation: Operation) -> Any:
        """The result: the object for one that has it, an `ObjectList` for lists, None for deletes."""
        ...

    def watch(self, operation: Watch) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """A stream of changes; entering it raises what the server says no with."""
        ...
