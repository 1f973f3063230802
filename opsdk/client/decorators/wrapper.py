"""Base class of the wrapping executors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec.structs import replace

from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.watch import WatchEvent
from opsdk.client.client import Client
from opsdk.client.operations import ObjectWrite, Operation, Watch
from opsdk.client.options import WriteOptions
from opsdk.client.ports import OperationExecutor, RemovalObserver, observe_removals


class Wrapper:
    """Passes changed operations to another executor. Override `transform`, and `transform_watch` if watches change."""

    def __init__(self, inner: OperationExecutor) -> None:
        self.inner = inner
        self.scheme: Scheme = inner.scheme
        self.mapper: RestMapper = inner.mapper

    async def transform(self, operation: Operation) -> Operation:
        """Return the operation to execute instead. Raise to reject it."""
        return operation

    def transform_watch(self, operation: Watch) -> Watch:
        """Return the watch to start instead. Raise to reject it."""
        return operation

    async def execute(self, operation: Operation) -> Any:
        """Transform the operation and pass it on."""
        return await self.inner.execute(await self.transform(operation))

    def watch(self, operation: Watch) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Transform the watch and pass it on."""
        return self.inner.watch(self.transform_watch(operation))

    def observe_removals(self, kind: Kind[Any], observer: RemovalObserver) -> bool:
        return observe_removals(self.inner, kind, observer)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"


def executor_of(client: Client | OperationExecutor) -> OperationExecutor:
    """Return the executor of a client, or the executor itself."""
    return client.executor if isinstance(client, Client) else client


def with_write_options(operation: Operation, **changes: Any) -> Operation:
    """Return the operation with changed `WriteOptions`. Other operations are returned unchanged."""
    if isinstance(operation, ObjectWrite):
        options: WriteOptions = replace(operation.options, **changes)
        return replace(operation, options=options)
    return operation
