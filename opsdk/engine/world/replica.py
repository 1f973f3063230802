"""One replica of the simulated operator: start, observation, crash and restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from opsdk.aio.randomness import loop_random
from opsdk.builder.operator import Operator
from opsdk.controller.controller import Controller
from opsdk.controller.journal import Journal
from opsdk.controller.outcome import ReconcileAttempt
from opsdk.controller.steps.step import Proceed, ReconcilePass
from opsdk.engine.webhooks import webhook_app, without_sockets
from opsdk.engine.world.disturber import Disturber
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.faults import Fault
from opsdk.engine.world.invariants import LeaseLedger, WriteBudget
from opsdk.engine.world.link import Link
from opsdk.errors import OpsdkError
from opsdk.event.request import Request
from opsdk.http.asgi_types import App
from opsdk.rest.config import RestConfig

_RESTART_DELAY = 1.0
"""Seconds until an operator that ended without a fault is restarted."""
_MAX_SLOWNESS = 3.0


@dataclass(eq=False)
class Observer:
    """The recorded activity of all replicas of a run.

    Attributes:
        exchanges: every request, in order.
        violations: broken invariants that are detected during the run.
        reconciles: number of reconciles that ended.
        budget: of writes for each object.
        exhausted: set when the budget is exceeded: the run ends then.
        decide: see `Link.decide`.
        hold: see `Link.hold`.
        disturber: of answers and reconciles.
        absence: seconds until a replica that a fault of `decide` ended is back.
        record: called before each start, in the context of the operator; it returns what is called at the stop.
    """

    exchanges: list[Exchange] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    reconciles: int = 0
    budget: WriteBudget = field(default_factory=WriteBudget)
    exhausted: asyncio.Event = field(default_factory=asyncio.Event)
    decide: Callable[[Exchange], Awaitable[Fault | None]] | None = None
    hold: Callable[[Exchange, bytes], Awaitable[bool]] | None = None
    disturber: Disturber = field(default_factory=Disturber)
    absence: float = 1.0
    record: Callable[[Operator, RestConfig], Callable[[], None]] | None = None


class _ObservedReconciles:
    """A step that reports a key that is reconciled twice at the same time."""

    def __init__(self, observer: Observer, link: Link) -> None:
        self._observer, self._link = observer, link
        self._busy: set[Request] = set()

    async def around(self, proceed: Proceed, work: ReconcilePass) -> ReconcileAttempt:
        observer, request = self._observer, work.ctx.request
        if request in self._busy:
            observer.violations.append(f"one at a time: {self._link.client} reconciles {request} twice at once")
        self._busy.add(request)
        try:
            await observer.disturber.begin(request)
            if (rng := self._link.window(Fault.SLOW_RECONCILE)) is not None:
                await asyncio.sleep(rng.uniform(0, _MAX_SLOWNESS))
            return await proceed(work)
        finally:
            observer.reconciles += 1
            observer.disturber.finish(request)
            self._busy.discard(request)


class Replica:
    """Runs an operator, and restarts it when it ends, as a Deployment does.

    Args:
        number: of the replica, from 0.
        factory: creates a new operator for each start.
        config: the client configuration; a `Link` wraps its `app`.
        observer: records the activity.
        ledger: checks leadership.
    """

    def __init__(
        self,
        number: int,
        factory: Callable[[], Operator],
        config: RestConfig,
        observer: Observer,
        ledger: LeaseLedger,
    ) -> None:
        self.number = number
        self.observer = observer
        self._factory, self._config, self._ledger = factory, config, ledger
        self._starts = 0
        self._task: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._operator: Operator | None = None
        self.journals: list[Journal] = []
        """The journals of the operator, one for each start."""
        self.controllers: list[Controller] = []
        """The controllers of the present start."""
        self._on_stop: Callable[[], None] = lambda: None
        self.link = self._new_link()

    def __repr__(self) -> str:
        return f"<Replica {self.number}, start {self._starts}>"

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        """The functions that the operator declares for its controllers: reconcilers, finalizers, daemons."""
        return [function for controller in self.controllers for function in controller.chain.functions]

    @property
    def running_operator(self) -> Operator | None:
        """The operator while the replica runs; else None."""
        return self._operator if self._task is not None and not self.link.dead else None

    @property
    def is_connected(self) -> bool:
        """Whether each started informer has a watch; True for a replica that does not run."""
        operator = self.running_operator
        if operator is None:
            return True
        informers = (each for cache in operator.cluster.caches() for each in cache.informers())
        return not any(each.health().seconds_without_watch for each in informers if each.started)

    @property
    def webhook_app(self) -> App | None:
        """The application of the webhooks while the replica runs; else None."""
        operator = self.running_operator
        return webhook_app(operator) if operator is not None else None

    def _new_link(self) -> Link:
        self._starts += 1
        assert self._config.app is not None
        return Link(
            self._config.app,
            client=f"replica-{self.number}.{self._starts}",
            seed=loop_random().getrandbits(30),
            decide=self.observer.decide,
            hold=self.observer.hold,
            delay=self.observer.disturber.delay,
            max_latency=self.observer.disturber.max_latency,
            on_crash=self._on_crash,
            on_exchange=self._on_exchange,
            on_response=self._on_response,
            on_hot_loop=self._on_hot_loop,
        )

    def _on_exchange(self, exchange: Exchange) -> None:
        self.observer.exchanges.append(exchange)
        self._ledger.sent(exchange)

    def _on_crash(self) -> None:
        coro = self.restart(self.observer.absence, crash=True)
        self._restarting = asyncio.get_running_loop().create_task(coro, name=f"restart of replica {self.number}")

    def _on_hot_loop(self, what: str) -> None:
        problem = f"hot loop: replica {self.number} sends {what} without a pause"
        if problem not in self.observer.violations:
            self.observer.violations.append(problem)

    def _on_response(self, exchange: Exchange) -> None:
        self._ledger.accepted(exchange)
        if (problem := self.observer.budget.written(exchange)) is not None:
            self.observer.violations.append(problem)
            self.observer.exhausted.set()

    def start(self) -> None:
        """Run the operator until `stop` or `crash`."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"replica {self.number}")

    async def _run(self) -> None:
        """Run one operator after the other: it is restarted when it ends, as a container is."""
        while True:
            operator = self._operator = self._factory()
            self.journals.append(operator.journal)
            without_sockets(operator)
            operator.follows_definitions = False
            config = replace(self._config, app=self.link)
            if self.observer.record is not None:
                self._on_stop = self.observer.record(operator, config)
            try:
                operator.prepare(config)
                self._observe(operator)
                await operator.start_prepared()
            except OpsdkError:
                pass  # as after a lost lease: the process ends and is restarted
            except Exception as error:  # noqa: BLE001 - a bug of the operator or of the SDK
                self.observer.violations.append(f"crash: {self.link.client} ended with {error!r}")
            self.link.kill()
            await asyncio.sleep(_RESTART_DELAY)
            self.link = self._new_link()

    def _observe(self, operator: Operator) -> None:
        """Observe the reconciles of every controller of a prepared operator, and of those that it builds later."""
        link = self.link

        def observe(runnable: object) -> None:
            if isinstance(runnable, Controller):
                runnable.chain.observe(_ObservedReconciles(self.observer, link))
                self.controllers.append(runnable)

        self.controllers = []
        for controller in operator.controllers.values():
            observe(controller)
        operator.manager.on_add(observe)

    async def crash(self) -> None:
        """End the operator as SIGKILL does: its later requests do not reach the server."""
        self.link.kill()
        await self.stop(patience=0.0)

    async def stop(self, *, patience: float = 60.0) -> None:
        """End the operator as SIGTERM does, and as SIGKILL does after `patience` seconds."""
        task, self._task = self._task, None
        if task is None:
            return
        self._on_stop()
        # The end of the faults may start the operator anew meanwhile, with another link.
        link = self.link
        task.cancel()
        if patience:
            await asyncio.wait([task], timeout=patience)
        while not task.done():
            link.kill()
            task.cancel()
            await asyncio.wait([task], timeout=1.0)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OpsdkError):
            self.observer.violations.append(f"crash: {link.client} ended with {error!r} while it stopped")

    async def aclose(self) -> None:
        """End the operator for good."""
        if self._restarting is not None:
            self._restarting.cancel()
        await self.stop()

    async def restart(self, absence: float, *, crash: bool) -> None:
        """Crash or stop, and restart after `absence` seconds."""
        if self._task is None:
            return  # absent already
        await (self.crash() if crash else self.stop())
        await asyncio.sleep(absence)
        self.wake()

    def wake(self) -> None:
        """Start the operator if it is absent."""
        if self._task is None:
            self.link = self._new_link()
            self.start()
