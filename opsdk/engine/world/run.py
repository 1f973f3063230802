"""Runs a declared operator once: what happens to it, what goes wrong, and what came of it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from opsdk.aio.garbage import OFTEN_REPEATED
from opsdk.builder.operator import Operator
from opsdk.engine.connections import refusal_of
from opsdk.engine.world.cluster import SimulatedCluster
from opsdk.engine.world.declaration import SimulatedOperator
from opsdk.engine.world.disturber import Disturber, WatchMessage
from opsdk.engine.world.exchange import CURRENT_EXCHANGE, Exchange
from opsdk.engine.world.faults import Fault
from opsdk.engine.world.masks import parse_ignored
from opsdk.engine.world.outcome import Outcome
from opsdk.engine.world.replica import Observer
from opsdk.engine.world.rest_state import StateRecorder
from opsdk.engine.world.runner import WorldRunner
from opsdk.engine.world.senders import Sender, ServerVersions, sender_of
from opsdk.engine.world.watch_events import watched_objects
from opsdk.engine.writes import Entry
from opsdk.rest.config import RestConfig

__all__ = ["WorldRun"]


class WorldRun(ABC):
    """One run of a declared operator. Subclasses say what happens in it.

    Args:
        declared: the operator, its environment and its invariants.
        seed: of every random number.
        order: the seed of the order in which tasks run that are ready at once; None for first in, first out.
        disturber: what goes wrong; None for nothing.
        record: see `Observer.record`.
        with_senders: find the code that sends each write, for a report. It takes a millisecond each.

    Attributes:
        cluster: the environment and the replicas.
        state: the objects that the operator wrote.
        writes: requests of the operator that change objects.
        problems: violations that were seen before the end.
        action: number of the action that was taken last, from 0; -1 before the first.
        is_over: no action follows that could meet an old view.
    """

    subject = "the simulation"
    """What does not reach the hosts outside, in messages."""

    def __init__(
        self,
        declared: SimulatedOperator,
        *,
        seed: int,
        order: int | None = None,
        disturber: Disturber | None = None,
        record: Callable[[Operator, RestConfig], Callable[[], None]] | None = None,
        with_senders: bool = False,
    ) -> None:
        self.declared, self.seed = declared, seed
        self.disturber = disturber if disturber is not None else Disturber()
        observer = Observer(decide=self._decide, hold=self._hold, disturber=self.disturber, record=record)
        self.cluster = SimulatedCluster(declared, observer)
        self.state = StateRecorder([parse_ignored(each) for each in declared.ignored])
        self.state.has_systems = self.cluster.systems is not None
        self.writes: list[Exchange] = []
        self.problems: list[str] = []
        self.action = -1
        self.is_over = False
        self._senders: dict[int, Sender] = {}
        self._versions = ServerVersions() if with_senders else None
        self._messages: list[WatchMessage] = []
        self._counts: dict[str, int] = {}
        self._runner = WorldRunner[list[str]](
            seed=seed,
            order=order,
            allowed_hosts=declared.allowed_hosts,
            subject=self.subject,
            collections=OFTEN_REPEATED,
        )

    # -------------------------------------------------------------- what subclasses say
    @abstractmethod
    async def play(self) -> list[str]:
        """Take all steps, and return the violations that are seen at the end."""

    def complete(self, outcome: Outcome) -> Outcome:
        """Return the result with the parts that the subclass adds."""
        return outcome

    def on_write(self, exchange: Exchange) -> None:
        """Note a request that changes objects, when it leaves its replica."""
        self.writes.append(exchange)

    # -------------------------------------------------------------- the run
    def execute(self) -> Outcome:
        """Run in virtual time. Must not be called from a running event loop."""
        violations = self._runner.run(self._run()) or []
        end = self._runner.end
        return self.outcome([*violations, str(end)] if end.is_early else violations)

    async def _run(self) -> list[str]:
        async with self.cluster as cluster:
            cluster.env.journal.subscribe(self._on_entry)
            return await cluster.until_exhausted(self.play())

    def outcome(self, violations: Sequence[str]) -> Outcome:
        """Return the result of the run, as it is now."""
        runner, observer = self._runner, self.cluster.observer
        problems = tuple(f"outside: {refusal_of(each, self.subject)}" for each in runner.connections)
        outcome = Outcome(
            seed=self.seed,
            violations=problems or self.cluster.violations([*violations, *self.problems, *self.state.violations]),
            exchanges=observer.exchanges,
            writes=self.writes,
            senders=self._senders,
            messages=self._messages,
            user_writes=self.cluster.user_writes,
            happened=self.disturber.happened,
            records=self.cluster.records,
            reconciles=observer.reconciles,
            seconds=runner.seconds,
            draws_random=runner.draws_random,
            connections=tuple(runner.connections),
        )
        return self.complete(outcome)

    # -------------------------------------------------------------- what the replicas do
    async def _decide(self, exchange: Exchange) -> Fault | None:
        if not exchange.changes_state:
            return await self.disturber.decide(exchange, 0)
        self.on_write(exchange)
        if self._versions is not None and (sender := sender_of(asyncio.current_task(), self._versions)) is not None:
            self._senders[len(self.writes)] = sender
        return await self.disturber.decide(exchange, len(self.writes))

    async def _hold(self, exchange: Exchange, body: bytes) -> bool:
        """Count a message of a watch; returns whether it is delivered."""
        if self.is_over:
            return True
        path = exchange.path
        number = self._counts[path] = self._counts.get(path, 0) + 1
        standby = self.cluster.is_standby(exchange.client)
        keys = tuple(each.key for each in watched_objects(body))
        message = WatchMessage(path=path, number=number, keys=keys, action=self.action, standby=standby)
        self._messages.append(message)
        return await self.disturber.hold(exchange, message, body)

    def _on_entry(self, entry: Entry) -> None:
        """Note a stored write: its request, and what it does to the state."""
        exchange = CURRENT_EXCHANGE.get()
        if exchange is not None:
            exchange.revision = entry.revision
        if self._versions is not None:
            self._versions.add(entry)
        self.state.add(entry, own=exchange is not None, client=exchange.client if exchange is not None else "")
        self.disturber.on_entry(entry, exchange)
