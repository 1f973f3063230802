"""The manager: start in order, run, stop in reverse."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.aio.waiting import wait_ended
from opsdk.errors import LeaderElectionLostError, ShutdownTimeoutError, UsageError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.manager.health import Check, Checks
from opsdk.manager.http import Endpoint, HttpServer, is_enabled
from opsdk.manager.runnable_group import RunnableGroup
from opsdk.runnable import NeedsLeaderElection, Runnable
from opsdk.telemetry.prometheus import PrometheusHook
from opsdk.telemetry.records import Hooks, TelemetryHook

log = logging.getLogger(__name__)

# Seconds an election that was cancelled gets to end, and seconds to give its lease back.
_CANCEL_GRACE = 5.0
_RELEASE_SECONDS = 15.0


class Election(Protocol):
    """An election as the manager sees it; `opsdk.leader_election.leader_elector.LeaderElector` is one."""

    async def run(self) -> None:
        """Take part; raise `LeaderElectionLostError` when leadership is lost."""
        ...

    async def wait_elected(self) -> None:
        """Return when elected."""
        ...

    async def release(self) -> None:
        """Give leadership back."""
        ...


class Phase(Enum):
    """In which group a runnable runs; they start in this order and stop in reverse."""

    HTTP = "http servers"
    WEBHOOKS = "webhooks"
    CACHES = "caches"
    OTHERS = "others"
    LEADER = "leader"
    """Only on the elected replica; on all of them where there is no election."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """How the manager runs.

    Attributes:
        health_probe_bind_address: ``host:port`` of ``/healthz`` and ``/readyz``; empty or ``"0"`` for none.
        metrics_bind_address: ``host:port`` of ``/metrics``; empty or ``"0"`` for none.
        shutdown_timeout: seconds that everything together gets to stop; None for ever, 0 not to wait.
    """

    health_probe_bind_address: str = ""
    metrics_bind_address: str = ""
    shutdown_timeout: float | None = 30.0


class Manager:
    """Runs runnables.

    ::

        manager = Manager(ManagerOptions(health_probe_bind_address=":8081"))
        manager.add(cache, phase=Phase.CACHES)
        manager.add(controller)
        await manager.start()
    """

    def __init__(
        self,
        options: ManagerOptions | None = None,
        *,
        election: Election | None = None,
        hooks: Sequence[TelemetryHook] = (),
        clock: Clock = LOOP_CLOCK,
    ) -> None:
        self.options = options or ManagerOptions()
        self.metrics = PrometheusHook(now=clock.now)
        self.hook: TelemetryHook = Hooks([self.metrics, *hooks])
        self.healthz = Checks("/healthz")
        self.readyz = Checks("/readyz")
        self._clock = clock
        self._election = election
        self._groups = {phase: RunnableGroup(phase.value, on_error=self._on_error) for phase in Phase}
        self._failed: list[BaseException] = []
        self._not_stopped: list[str] = []
        self._names: set[str] = set()
        self._ending = asyncio.Event()
        self._elected = asyncio.Event()
        self._started = False
        self._stopping = False
        self._ready = asyncio.Event()
        self._add_servers()

    def use_election(self, election: Election) -> None:
        """Take part in an election; before `start` only."""
        self._check_new("an election")
        self._election = election

    def _add_servers(self) -> None:
        if is_enabled(self.options.health_probe_bind_address):
            endpoints: list[Endpoint] = [self.healthz.handle, self.readyz.handle]
            self.add(HttpServer("health", self.options.health_probe_bind_address, endpoints), phase=Phase.HTTP)
        if is_enabled(self.options.metrics_bind_address):
            self.add(HttpServer("metrics", self.options.metrics_bind_address, [self._expose]), phase=Phase.HTTP)

    async def _expose(self, request: HttpRequest) -> HttpResponse | None:
        if request.path != "/metrics":
            return None
        return HttpResponse(200, [("content-type", self.metrics.content_type)], self.metrics.expose())

    # -------------------------------------------------------------- what runs
    def add(self, runnable: Runnable, *, phase: Phase | None = None) -> None:
        """Add a runnable, before or after the start.

        Without a `phase` it runs on the leader, unless it says that it needs no election. `UsageError` once the
        manager stops.
        """
        if self._stopping:
            raise UsageError("can't accept new runnable as stop procedure is already engaged")
        if phase is None:
            anywhere = isinstance(runnable, NeedsLeaderElection) and not runnable.needs_leader_election()
            phase = Phase.OTHERS if anywhere else Phase.LEADER
        self._groups[phase].add(runnable)

    def add_healthz_check(self, name: str, check: Check) -> None:
        """Add a liveness check; before `start` only."""
        self._check_new("a health check")
        self.healthz.add(name, check)

    def add_readyz_check(self, name: str, check: Check) -> None:
        """Add a readiness check; before `start` only."""
        self._check_new("a readiness check")
        self.readyz.add(name, check)

    def claim_name(self, name: str) -> None:
        """Take a name for something whose metrics carry it; `UsageError` if it is taken in this manager."""
        if name in self._names:
            raise UsageError(
                f"a controller named {name!r} is there already: names must be unique, as metrics carry them"
            )
        self._names.add(name)

    def _check_new(self, what: str) -> None:
        if self._started:
            raise UsageError(f"{what} must be added before the manager starts")

    # -------------------------------------------------------------- life
    @property
    def is_elected(self) -> bool:
        """Whether leader-only runnables run here."""
        return self._elected.is_set()

    async def wait_elected(self) -> None:
        """Return when this replica leads, or at once when there is no election and the caches are ready."""
        await self._elected.wait()

    async def wait_ready(self) -> None:
        """Return when everything that runs on every replica is ready."""
        await self._ready.wait()

    def stop(self) -> None:
        """Begin to stop; `start` returns when all has ended. Idempotent."""
        self._ending.set()

    async def start(self) -> None:
        """Run until `stop` is called, the task is cancelled, or a runnable fails.

        Raises the first failure. A timeout of the stop is a `ShutdownTimeoutError`; after a failure it is a note on
        the failure. Cancelling once begins the stop; cancelling again ends its grace.
        """
        if self._started:
            raise UsageError("the manager was started already: make a new one")
        self._started = True
        election: asyncio.Task[None] | None = None
        try:
            if await self._start_groups(Phase.HTTP, Phase.WEBHOOKS, Phase.CACHES, Phase.OTHERS):
                self._ready.set()
                election = self._start_leading()
                await self._ending.wait()
        finally:
            await self._stop_surely(election)
        if self._failed:
            raise self._failed[0]

    async def _stop_surely(self, election: asyncio.Task[None] | None) -> None:
        """Stop to the end, whatever happens to the task that called `start`."""
        stopping = asyncio.get_running_loop().create_task(self._stop(election), name="manager/stop")
        interrupted: asyncio.CancelledError | None = None
        while not stopping.done():
            try:
                await asyncio.wait([stopping])
            except asyncio.CancelledError as error:
                interrupted = error
                for group in self._groups.values():
                    group.cancel_grace()
        stopping.result()
        if interrupted is not None:
            raise interrupted

    async def _start_groups(self, *phases: Phase) -> bool:
        """Start groups one after the other, each when the one before is ready; False if the end came first."""
        for phase in phases:
            group = self._groups[phase]
            group.start()
            if not await self._unless_ending(group.wait_ready()):
                return False
        return True

    async def _unless_ending(self, waiting: Coroutine[object, None, None]) -> bool:
        """Wait for something, but not beyond the end; False if the end came first."""
        ready = asyncio.get_running_loop().create_task(waiting, name="manager/wait ready")
        ending = asyncio.get_running_loop().create_task(self._wait_ending(), name="manager/wait ending")
        try:
            await asyncio.wait((ready, ending), return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and not ready.cancelled() and (error := ready.exception()) is not None:
                self._on_error(None, error)
            return not self._ending.is_set()
        finally:
            for task in (ready, ending):
                task.cancel()
            await wait_ended((ready, ending), None)

    async def _wait_ending(self) -> None:
        await self._ending.wait()

    def _start_leading(self) -> asyncio.Task[None] | None:
        if self._election is None:
            self._elected.set()
            self._groups[Phase.LEADER].start()
            return None
        return asyncio.get_running_loop().create_task(self._lead(self._election), name="leader election")

    async def _lead(self, election: Election) -> None:
        running = asyncio.get_running_loop().create_task(election.run(), name="elector")
        elected = asyncio.get_running_loop().create_task(election.wait_elected(), name="wait elected")
        try:
            await asyncio.wait((running, elected), return_when=asyncio.FIRST_COMPLETED)
            # Whoever has lost (or failed) already must not begin to lead.
            if not running.done() and not elected.cancelled() and elected.exception() is None:
                if not self._stopping:
                    self._elected.set()
                    self._groups[Phase.LEADER].start()
                await asyncio.wait((running,))
            self._on_error(None, _why_ended(running, elected))
        finally:
            for task in (running, elected):
                task.cancel()
            await wait_ended((running, elected), None)

    def _on_error(self, runnable: Runnable | None, error: BaseException) -> None:
        if self._stopping:
            log.warning("%r failed while stopping: %r", runnable, error)
            if isinstance(error, ShutdownTimeoutError):
                self._not_stopped.append(str(error))
            if isinstance(error, LeaderElectionLostError):
                # Somebody else may lead already: no more grace.
                for group in self._groups.values():
                    group.cancel_grace()
            return
        log.error("%s; stopping", error if runnable is None else f"{runnable!r} failed: {error!r}")
        self._failed.append(error)
        self._ending.set()

    # -------------------------------------------------------------- the end
    async def _stop(self, election: asyncio.Task[None] | None) -> None:
        """Others, leader, caches, webhooks, HTTP; the lease is renewed all the while and given back last."""
        self._stopping = True
        lost = any(isinstance(e, LeaderElectionLostError) for e in self._failed)
        # Who lost the lease must not act a moment longer: somebody else may lead already.
        budget = 0.0 if lost else self.options.shutdown_timeout
        first = (Phase.LEADER, Phase.OTHERS) if lost else (Phase.OTHERS, Phase.LEADER)
        deadline = None if budget is None else self._clock.now() + budget
        late: list[str] = []
        for phase in (*first, Phase.CACHES, Phase.WEBHOOKS, Phase.HTTP):
            remaining = None if deadline is None else max(deadline - self._clock.now(), 0.0)
            late += await self._groups[phase].stop(remaining)
        if election is not None:
            election.cancel()
            await wait_ended((election,), _CANCEL_GRACE)
        late += self._not_stopped
        if not lost:
            await self._release()
        if late and budget != 0:
            self._too_late(late, budget)
        elif late:
            log.warning("no grace was given to %s", ", ".join(late))

    async def _release(self) -> None:
        if self._election is None or not self._elected.is_set():
            return
        if at_work := [*self._not_stopped, *(name for group in self._groups.values() for name in group.running())]:
            log.warning("the lease is kept until it runs out: still at work are %s", ", ".join(at_work))
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._election.release()
        except Exception:
            # It runs out by itself; how the program ends must not depend on it.
            log.exception("the lease could not be given back")

    def _too_late(self, late: list[str], seconds: float | None) -> None:
        within = "" if seconds is None else f" within grace period of {seconds:g} s"
        text = f"failed waiting for all runnables to end{within}: {', '.join(late)}"
        log.error("%s", text)
        if self._failed:
            self._failed[0].add_note(text)
        else:
            self._failed.append(ShutdownTimeoutError(text))

    def __repr__(self) -> str:
        return f"<Manager: {', '.join(repr(g) for g in self._groups.values())}>"


def _why_ended(*tasks: asyncio.Task[None]) -> BaseException:
    """Why an election that should have gone on for ever has ended."""
    errors = (task.exception() for task in tasks if task.done() and not task.cancelled())
    failure = next((error for error in errors if error is not None), None)
    return failure or LeaderElectionLostError("the election ended by itself: this process does not know who leads")
