"""The starts of an operator in one run: each has a link of its own to the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.faults import Fault
from opsdk.engine.world.link import Link
from opsdk.http.asgi_types import App, Receive, Scope, Send
from opsdk.verification.foreign.child import ForeignOperator, OperatorProcess
from opsdk.verification.foreign.errors import ForeignOperatorError

__all__ = ["Launches"]

_CLIENT: Final = "operator"


class Launches(Closing):
    """Starts the operator, kills it, and starts it again. An async context manager.

    Args:
        app: the server's application.
        decide: see `Link.decide`.
        hold: see `Link.hold`.
        on_exchange: see `Link.on_exchange`.
        on_end: see `Link.on_end`.

    Attributes:
        link: of the present start.
        contacted: set when the present start sent its first request.
        watching: set when the first start opened its first watch.
        failed: set when the operator ended by itself, or could not be started.
        status: its exit status then; None while it runs.
        error: why it could not be started.
        watched: paths that the present start watches, or watched.
    """

    def __init__(
        self,
        app: App,
        *,
        decide: Callable[[Exchange], Awaitable[Fault | None]],
        hold: Callable[[Exchange, bytes], Awaitable[bool]],
        on_exchange: Callable[[Exchange], None],
        on_end: Callable[[Exchange], None],
    ) -> None:
        self._app, self._decide, self._hold, self._report = app, decide, hold, on_exchange
        self._on_end = on_end
        self._operator: ForeignOperator | None = None
        self._process: OperatorProcess | None = None
        self._tasks = TaskOwner("launches")
        self.link = self._new_link()
        self.contacted = asyncio.Event()
        self.watching = asyncio.Event()
        self.failed = asyncio.Event()
        self.status: int | None = None
        self.error: ForeignOperatorError | None = None
        self.watched: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the link of the present start."""
        await self.link(scope, receive, send)

    async def begin(self, operator: ForeignOperator) -> None:
        """Start the operator for the first time. Raises `ForeignOperatorError` if that is not possible."""
        self._operator = operator
        await self._start()

    def restart(self) -> None:
        """Kill the operator at once, and start it again."""
        self.kill()
        self.contacted.clear()
        self.watched.clear()
        self._tasks.start(self._start_again(), name="start")

    def kill(self) -> None:
        """Kill the operator at once."""
        process, self._process = self._process, None
        self.link.kill()
        if process is not None:
            process.kill()

    async def aclose(self) -> None:
        """Kill the operator, and end what waits for it."""
        self.kill()
        await self._tasks.aclose()

    async def _start_again(self) -> None:
        try:
            await self._start()
        except ForeignOperatorError as error:
            self.error = error
            self.failed.set()

    async def _start(self) -> None:
        assert self._operator is not None
        self.link = self._new_link()
        process = self._process = await self._operator.start()
        self._tasks.start(self._watch_end(process), name="end")

    async def _watch_end(self, process: OperatorProcess) -> None:
        status = await process.wait()
        if process is self._process:
            self.status = status
            self.failed.set()

    def _new_link(self) -> Link:
        return Link(
            self._app,
            client=_CLIENT,
            decide=self._decide,
            hold=self._hold,
            on_exchange=self._on_exchange,
            on_end=self._on_end,
            on_crash=self.restart,
            max_latency=0.0,
            hot_requests=0,
        )

    def _on_exchange(self, exchange: Exchange) -> None:
        self.contacted.set()
        if exchange.is_watch:
            self.watched.add(exchange.path)
            self.watching.set()
        self._report(exchange)
