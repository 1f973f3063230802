"""The context of functions that block: the methods of `Context`, without ``await``.

Upstream: none; a reconciler of controller-runtime blocks its goroutine.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from opsdk.aio.blocking import BlockingPool, current_call
from opsdk.controller.context import Context
from opsdk.controller.generated_blocking import BlockingContextMethods
from opsdk.errors import UsageError

__all__ = ["BlockingContext"]

T = TypeVar("T")


class BlockingContext(BlockingContextMethods):
    """The second argument of a reconciler, finalizer or daemon that is a plain ``def``. It runs in a thread.

    It has the attributes and methods of `Context`; `event` writes Events instead of ``recorder``, which is not safe in
    threads. The methods block instead of being awaited, and raise ``asyncio.CancelledError`` when the function should
    end: after ``reconciliation_timeout``, when the object of a daemon is being deleted, or when the controller stops.
    Let it pass, as async code does. Threads that the function starts may use the context, too.

    >>> def reconcile(site: Object[Any, Any], ctx: BlockingContext) -> None:
    ...     with ctx.status(site) as patch:
    ...         patch.status.replicas = 3

    Args:
        target: the context whose methods are waited for.
        call: the call whose thread waits; None for the one of the running function.
    """

    def sleep(self, seconds: float) -> None:
        """Wait. Unlike ``time.sleep``, it ends at the deadline and when the controller stops, with `CancelledError`."""
        self._wait(asyncio.sleep(seconds))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run any coroutine in the event loop, and return its result, for functions that have no blocking form.

        >>> def reconcile(site: Object[Any, Any], ctx: BlockingContext) -> None:
        ...     ctx.run(asyncio.sleep(0.1))
        """
        return self._wait(coroutine)

    def __repr__(self) -> str:
        return f"<BlockingContext of {self.request} in {self.controller}>"


async def run_in_thread(
    function: Callable[..., Any], argument: Any, ctx: Context, threads: BlockingPool, *, takes_context: bool = True
) -> Any:
    """Run a plain function of the user in a thread, with a `BlockingContext`.

    Raises what the function raises, and `UsageError` for one that returns an awaitable.
    """

    def call() -> Any:
        return function(argument, BlockingContext(ctx, current_call())) if takes_context else function(argument)

    result = await threads.run(call)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(f"{name} returned an awaitable: declare the function itself with `async def`")
    return result
