"""Runs a workload under a schedule, and notes each point and its state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from opsdk.aio.virtual_loop import VirtualLoop
from opsdk.engine.world.disturber import WatchMessage
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.faults import Fault
from opsdk.engine.writes import Entry
from opsdk.event.request import Request
from opsdk.verification.disturbers import ViewHolder
from opsdk.verification.exploration.bounds import DEVIATIONS, Choice, Option
from opsdk.verification.exploration.state import StateTracker, digest_of
from opsdk.verification.exploration.variables import object_state, variables_of

__all__ = ["Chooser", "Replay", "ScheduledRun"]

_LATE: Final = 0.001
"""Virtual seconds that a late event waits: the clock moves when nothing else is ready."""


class Chooser(Protocol):
    """Decides what a run does at its points."""

    def choose(self, number: int, text: str, options: Sequence[Option], state: Callable[[], bytes]) -> Option | None:
        """Return the option that the run takes at a point, or None.

        Args:
            number: of the point, from 0.
            text: what waits there, for readers.
            options: that the run could take.
            state: returns the digest of the present state.
        """
        ...


class Replay:
    """Takes the options of a schedule: a `Chooser`."""

    def __init__(self, schedule: Sequence[Choice]) -> None:
        self._options = {choice.point: choice.option for choice in schedule}

    def choose(self, number: int, text: str, options: Sequence[Option], state: Callable[[], bytes]) -> Option | None:
        """Return the option of the schedule at a point."""
        return self._options.get(number)


class ScheduledRun(ViewHolder):
    """A run with options at its points. Messages take no time, so that all that happens at once is ready at once.

    Args:
        chooser: decides at each point.
        actions: number of actions of the workload.
    """

    max_latency = 0.0

    def __init__(self, chooser: Chooser, actions: int) -> None:
        super().__init__()
        self._chooser, self._actions = chooser, actions
        self._number = 0
        self._armed = False
        self._happened = False
        self._state = StateTracker()
        self._under_way: dict[str, int] = {}
        self._passes: dict[str, bytes] = {}

    @property
    def happened(self) -> bool:
        """Whether an option was taken."""
        return self._happened

    # -------------------------------------------------------------- points
    async def decide(self, exchange: Exchange, number: int) -> Fault | None:
        if exchange.is_watch:
            if "sendInitialEvents=true" in exchange.target:
                self._state.begin_watch(exchange.client, exchange.path)
            return None
        if not _is_of_objects(exchange):
            return None
        text = f"{exchange.method} {exchange.path}"
        options = [Option.LATE, Option.NEXT_ACTION]
        async with self._point(text, [Option.CRASH, *options] if number else options) as option:
            return Fault.CRASH_AFTER_WRITE if option is Option.CRASH else None

    async def delay(self, exchange: Exchange) -> None:
        if not _is_of_objects(exchange):
            return
        text = f"answer {exchange.status} to {exchange.method} {exchange.path}"
        async with self._point(text, [Option.LATE, Option.NEXT_ACTION]):
            self._go_on_with(exchange.client, text)

    async def hold(self, exchange: Exchange, message: WatchMessage, body: bytes) -> bool:
        path = message.path
        if message.keys:
            text = f"message of {path} about {', '.join(message.keys)}"
            async with self._point(text, [Option.STALE, Option.LATE_MESSAGE]) as option:
                if option is Option.STALE:
                    self._views.stop(path, self._run.action, message.keys)
        await self._views.wait(path)
        self._state.deliver(exchange.client, path, body)
        return True

    async def begin(self, request: Request) -> None:
        async with self._point(f"reconcile of {request}", [Option.LATE, Option.NEXT_ACTION]):
            self._passes[str(request)] = digest_of([self._state.view_of(client) for client in self._clients])

    def finish(self, request: Request) -> None:
        self._passes.pop(str(request), None)

    def _go_on_with(self, client: str, text: str) -> None:
        """Note what the reconciles have learnt: their next steps depend on it, and on what the caches hold now.

        A request does not tell which reconcile sent it, so each that runs may have.
        """
        view = self._state.view_of(client)
        self._passes = {name: digest_of(steps, text, view) for name, steps in self._passes.items()}

    @property
    def _clients(self) -> list[str]:
        return [replica.link.client for replica in self._run.cluster.replicas if not replica.link.dead]

    @asynccontextmanager
    async def _point(self, text: str, options: Sequence[Option]) -> AsyncIterator[Option | None]:
        """Stop at a point. Yields the option that is taken, or None."""
        self._under_way[text] = self._under_way.get(text, 0) + 1
        try:
            yield await self._take(text, options) if self._armed else None
        finally:
            self._under_way[text] -= 1
            if not self._under_way[text]:
                del self._under_way[text]

    async def _take(self, text: str, options: Sequence[Option]) -> Option | None:
        number, self._number = self._number, self._number + 1
        run = self._run
        if run.action + 1 >= self._actions or run.hurry.is_set():
            options = [option for option in options if option is not Option.NEXT_ACTION]
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        if not loop.has_ready:
            # Nothing could come first.
            options = [option for option in options if option not in (Option.LATE, Option.LATE_MESSAGE)]
        option = self._chooser.choose(number, text, options, lambda: self._digest(text))
        if option is None:
            return None
        self._happened = True
        if option is Option.NEXT_ACTION:
            run.hurry.set()
        if option in DEVIATIONS:
            await asyncio.sleep(_LATE)
        return option

    def _digest(self, text: str) -> bytes:
        run = self._run
        replicas = run.cluster.replicas
        queues = [
            (controller.name, sorted(map(str, core.queued())), sorted(map(str, core.processing())))
            for replica in replicas
            for controller in replica.controllers
            for core in (controller.queue.core,)
        ]
        return self._state.digest(
            self._clients,
            text,
            sorted(self._under_way.items()),
            sorted(self._passes.items()),
            queues,
            sorted(self._views.names),
            (run.action, run.hurry.is_set()),
            object_state(run.cluster.systems),
            [variables_of(replica.functions) for replica in replicas],
        )

    # -------------------------------------------------------------- the run
    def on_entry(self, entry: Entry, exchange: Exchange | None) -> None:
        self._state.add(entry)
        super().on_entry(entry, exchange)

    async def on_rest(self) -> bool:
        self._armed = True
        return self._views.release_after(self._run.action)

    async def end(self) -> None:
        self._armed = False
        self._views.release()


def _is_of_objects(exchange: Exchange) -> bool:
    """Whether a request reads or changes objects: not discovery, a lease, a review or an Event."""
    return exchange.changes_state or (exchange.method == "GET" and exchange.path.count("/") > 3)
