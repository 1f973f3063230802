"""An operator's process that is killed at one await and started again, as a Deployment does.

    async with supervised(make_operator, env.config, Killer(at=7)):
        ...

An await is one before or after each write to the server; tests of other systems call `Killer.step` at theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from typing import Any

from msgspec.structs import replace

from opsdk import Operator
from opsdk.rest.config import RestConfig


class Process:
    """One process of the operator. Nothing of a dead one reaches another system."""

    def __init__(self) -> None:
        self.dead = False


_PROCESS: ContextVar[Process] = ContextVar("process")


class Killer:
    """Kills the operator at one await.

    Args:
        at: the number of the await, from 1; 0 never kills.

    Attributes:
        count: the awaits until the kill, or of the whole run.
        killed: whether the kill has happened.
    """

    def __init__(self, at: int = 0) -> None:
        self._at = at
        self.count = 0
        self.killed = False
        self.restart: Callable[[], None] = lambda: None

    async def step(self) -> None:
        """Count an await of the running process. Does not return in a dead one."""
        process = _PROCESS.get()
        if not self.killed:
            self.count += 1
            self.killed = process.dead = self.count == self._at
            if self.killed:
                self.restart()
        if process.dead:
            await asyncio.get_running_loop().create_future()


class KillingApp:
    """The server's application as one process reaches it. Counts the writes, before and after each."""

    def __init__(self, app: Any, killer: Killer, process: Process) -> None:
        self._app, self._killer, self._process = app, killer, process

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI 3."""
        if self._process.dead:
            raise ConnectionError("the process is dead")
        if scope["type"] != "http" or scope["method"] == "GET":
            await self._app(scope, receive, send)
            return
        _PROCESS.set(self._process)
        await self._killer.step()

        async def send_after(message: Any) -> None:
            if message["type"] == "http.response.start":
                await self._killer.step()
            await send(message)

        await self._app(scope, receive, send_after)


@asynccontextmanager
async def supervised(make_operator: Callable[[], Operator], config: RestConfig, killer: Killer) -> AsyncIterator[None]:
    """Run an operator, and start another one when it is killed."""
    loop, context = asyncio.get_running_loop(), copy_context()
    tasks: list[asyncio.Task[None]] = []

    def start() -> None:
        for task in tasks:
            task.cancel()
        process = Process()
        own = context.copy()
        own.run(_PROCESS.set, process)
        app = KillingApp(config.app, killer, process)
        tasks.append(loop.create_task(make_operator().start(replace(config, app=app)), context=own))

    def restart() -> None:
        # Not in the context of the dead process, whose fence is not that of the next one.
        loop.call_soon(start, context=context.copy())

    killer.restart = restart
    start()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
