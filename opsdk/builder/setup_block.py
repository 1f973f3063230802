"""A setup function with a ``yield``: it runs around the controllers of an operator.

Upstream: none; kopf has ``on.startup`` and ``on.cleanup``.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from opsdk.errors import UsageError
from opsdk.event.handlers import is_async
from opsdk.manager.phases import Phase


def setup_function(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return the plain function of an operator's setup: of an async generator, one that adds its block.

    Raises `UsageError` for another async function.
    """
    name = function.__qualname__
    if is_async(function):
        raise UsageError(f"{name} is async: declare a plain def, or yield once when the controllers may start")
    if not inspect.isasyncgenfunction(function):
        return function
    block = asynccontextmanager(function)
    return lambda operator: operator.manager.add(SetupBlock(name, lambda: block(operator)), phase=Phase.CACHES)


class SetupBlock:
    """A Runnable that enters a block before the controllers start, and leaves it when they have ended.

    Args:
        name: of the function, for messages.
        block: makes the block. An error of its entry ends the operator; one of its exit is logged.
    """

    def __init__(self, name: str, block: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._name = name
        self._block = block
        self._entered = asyncio.Event()

    def needs_leader_election(self) -> bool:
        """Return False: a standby replica is set up too."""
        return False

    async def start(self) -> None:
        """Enter the block, wait for the cancellation, and leave the block."""
        block = self._block()
        await block.__aenter__()
        self._entered.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            # Without the CancelledError: what follows the yield needs no `finally`.
            await block.__aexit__(None, None, None)

    async def wait_ready(self) -> None:
        """Return when the block is entered."""
        await self._entered.wait()

    def __repr__(self) -> str:
        return f"<SetupBlock {self._name}>"
