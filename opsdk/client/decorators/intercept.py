"""A client that passes its operations through a function, for tests.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/interceptor/intercept.go
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from opsdk.apimachinery.watch import WatchEvent
from opsdk.client.client import Client
from opsdk.client.decorators.wrapper import Wrapper, executor_of
from opsdk.client.operations import Operation, Watch
from opsdk.client.ports import OperationExecutor

Handler = Callable[[Operation], Awaitable[Any]]
Interceptor = Callable[[Operation, Handler], Awaitable[Any]]
Stream = AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]
WatchInterceptor = Callable[[Watch, Callable[[Watch], Stream]], Stream]


class Intercepting(Wrapper):
    """Passes every operation to a function, with the next executor."""

    def __init__(
        self, inner: OperationExecutor, interceptor: Interceptor | None = None, watch: WatchInterceptor | None = None
    ) -> None:
        super().__init__(inner)
        self._interceptor = interceptor
        self._watch = watch

    async def execute(self, operation: Operation) -> Any:
        """Return the function's result."""
        if self._interceptor is None:
            return await self.inner.execute(operation)
        return await self._interceptor(operation, self.inner.execute)

    def watch(self, operation: Watch) -> Stream:
        """Return the watch function's result."""
        return self.inner.watch(operation) if self._watch is None else self._watch(operation, self.inner.watch)


def intercept(
    client: Client | OperationExecutor, interceptor: Interceptor | None = None, *, watch: WatchInterceptor | None = None
) -> Client:
    """Return a client whose operations pass through `interceptor(operation, proceed)`.

    Await ``proceed(operation)`` to execute the operation or another one, raise to reject it, or return a result. ::

        async def no_deletes(operation, proceed):
            if isinstance(operation, Delete):
                raise ForbiddenError("not in this test")
            return await proceed(operation)
    """
    return Client(Intercepting(executor_of(client), interceptor, watch))
