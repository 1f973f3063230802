"""Manager: starts runnables in order, runs them, stops them in reverse order.

Upstream: sigs.k8s.io/controller-runtime/pkg/manager/internal.go
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Protocol

from opsdk.aio.clock import monotonic
from opsdk.aio.fence import Fence
from opsdk.aio.task_stacks import TaskAges
from opsdk.aio.waiting import wait_ended
from opsdk.base.runnable import Debuggable, NeedsLeaderElection, Runnable, ServesWebhooks, Warmup
from opsdk.errors import LeaderElectionLostError, ShutdownTimeoutError, UsageError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.http.server.serving_certificate import ServingCertificate, self_signed_context
from opsdk.manager.address import is_enabled, is_loopback, parse_address
from opsdk.manager.debug import DebugPages, memory_page, tasks_page
from opsdk.manager.health import Check, Checks
from opsdk.manager.http import Endpoint, HttpServer
from opsdk.manager.metrics_authorization import MetricsAuthorization
from opsdk.manager.options import ManagerOptions
from opsdk.manager.runnable_group import RunnableGroup
from opsdk.rbac.delegated import ReviewClient
from opsdk.telemetry.context import add_context_to_records
from opsdk.telemetry.prometheus import PrometheusHook
from opsdk.telemetry.queue_monitor import QueueMonitor
from opsdk.telemetry.records import Hooks, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

__all__ = ["Election", "Manager", "ManagerOptions", "Phase"]

log = SafeLogger(__name__)

# Seconds for cancelled tasks of the manager's own to end, for a cancelled election, and for the release of its lease.
_CANCEL_GRACE = 1.0
_ELECTION_GRACE = 5.0
_RELEASE_SECONDS = 5.0


class Election(Protocol):
    """Leader election as the manager uses it; see `opsdk.manager.leader_election.leader_elector.LeaderElector`.

    An election that is also a `Fence` ends writes by its own clock. Otherwise they end when the manager stops leading.
    """

    async def run(self) -> None:
        """Take part in the election. Raises `LeaderElectionLostError` when leadership is lost."""
        ...

    async def wait_elected(self) -> None:
        """Return when elected."""
        ...

    async def release(self) -> None:
        """Release the lease."""
        ...


class _LeaderFence:
    """Allows writes while the manager leads and the election agrees."""

    def __init__(self, election: Election) -> None:
        self.leading = False
        self._election_fence: Fence | None = election if isinstance(election, Fence) else None

    def check(self, action: str) -> None:
        """See `Fence`."""
        if self._election_fence is not None:
            self._election_fence.check(action)
        if not self.leading:
            raise LeaderElectionLostError(f"{action} was not sent: this replica does not lead")

    def __repr__(self) -> str:
        return f"<_LeaderFence {'leading' if self.leading else 'closed'}>"


class _WarmupRunnable:
    """Runs the warm-up of a runnable."""

    def __init__(self, target: Warmup) -> None:
        self._target = target

    async def start(self) -> None:
        """Run the warm-up."""
        await self._target.warmup()

    def __repr__(self) -> str:
        return f"<warm-up of {self._target!r}>"


class Phase(Enum):
    """The group of a runnable. Groups start in this order and stop in reverse."""

    HTTP = "http servers"
    WEBHOOKS = "webhooks"
    CACHES = "caches"
    OTHERS = "others"
    LEADER = "leader"
    """Only on the elected replica; without an election, on every replica."""


class Manager:
    """Runs runnables.

    ::

        manager = Manager(ManagerOptions(health_probe_bind_address=":8081"))
        manager.add(cache, phase=Phase.CACHES)
        manager.add(controller)
        await manager.start()

    Args:
        options: see `ManagerOptions`.
        election: runs the LEADER group only while elected; None runs it on every replica.
        hooks: receive telemetry records, besides the Prometheus metrics.

    Attributes:
        healthz: liveness checks.
        readyz: readiness checks.
        metrics: the Prometheus metrics; ``metrics.registry`` takes metrics of your own.
        debug: the debug pages; ``debug.add`` takes pages of your own.
        hook: passes records to the metrics and to `hooks`.
    """

    def __init__(
        self,
        options: ManagerOptions | None = None,
        *,
        election: Election | None = None,
        hooks: Sequence[TelemetryHook] = (),
    ) -> None:
        self.options = options or ManagerOptions()
        self.metrics = PrometheusHook(now=monotonic)
        self.debug = DebugPages()
        self._queues = QueueMonitor(monotonic)
        debugs = is_enabled(self.options.debug_bind_address)
        self._task_ages = TaskAges() if debugs else None
        monitors = [self._queues] if debugs else []
        self.hook: TelemetryHook = Hooks([self.metrics, *monitors, *hooks])
        self.healthz = Checks("/healthz")
        self.readyz = Checks("/readyz")
        self._election: Election | None = None
        self._fence: _LeaderFence | None = None
        self._groups = {phase: RunnableGroup(phase.value, on_error=self._on_error) for phase in Phase}
        self._warmups = RunnableGroup("warm-up", on_error=self._on_error)
        self._failed: list[BaseException] = []
        self._stop_failures: list[str] = []
        self._controller_names: set[str] = set()
        self._stop_requested = asyncio.Event()
        self._elected = asyncio.Event()
        self._on_stop: list[Callable[[], None]] = []
        self._started = False
        self._stopping = False
        self._ready = asyncio.Event()
        self._authorization: MetricsAuthorization | None = None
        add_context_to_records()
        self._add_servers()
        if election is not None:
            self.use_election(election)

    def use_election(self, election: Election) -> None:
        """Set the election. Raises `UsageError` after the start."""
        self._check_new("an election")
        self._election = election
        # Tasks that a warm-up starts continue while this replica leads, so it has the leader's fence.
        self._fence = self._groups[Phase.LEADER].fence = self._warmups.fence = _LeaderFence(election)

    def _add_servers(self) -> None:
        if is_enabled(self.options.health_probe_bind_address):
            endpoints: list[Endpoint] = [self.healthz.handle, self.readyz.handle]
            self.add(HttpServer("health", self.options.health_probe_bind_address, endpoints), phase=Phase.HTTP)
        if is_enabled(self.options.metrics_bind_address):
            self.add(self._metrics_server(), phase=Phase.HTTP)
        address = self.options.debug_bind_address
        if (ages := self._task_ages) is not None:
            if not is_loopback(address):
                log.warning("the debug pages at %s need no authentication: bind them to 127.0.0.1", address)
            self.debug.add("tasks", lambda: tasks_page(ages), description="tasks with age and await stack")
            self.debug.add("queues", self._queues.states, description="queue and workers of each controller")
            self.debug.add("memory", memory_page, description="memory, garbage collector, objects by type")
            self.add(HttpServer("debug", address, [self.debug.handle]), phase=Phase.HTTP)

    def _metrics_server(self) -> HttpServer:
        o = self.options
        guard = self._authorize if o.metrics_authentication else None
        tls = self._metrics_tls if o.metrics_secure_serving else None
        return HttpServer("metrics", o.metrics_bind_address, [self._serve_metrics], tls=tls, guard=guard)

    def _metrics_tls(self) -> ssl.SSLContext:
        o = self.options
        if o.metrics_cert_file:
            files = (o.metrics_cert_file, o.metrics_key_file)
            return ServingCertificate(*files, hook=self.hook).context
        return self_signed_context(parse_address(o.metrics_bind_address)[0])

    def use_client(self, client: ReviewClient) -> None:
        """Set the client that reviews metrics requests. Raises `UsageError` after the start."""
        self._check_new("the client for metrics_authentication")
        if self.options.metrics_authentication:
            self._authorization = MetricsAuthorization(client)

    async def _authorize(self, request: HttpRequest) -> HttpResponse | None:
        assert self._authorization is not None  # checked by `start`
        return await self._authorization.check(request)

    async def _serve_metrics(self, request: HttpRequest) -> HttpResponse | None:
        if request.path != "/metrics":
            return None
        return HttpResponse(200, [("content-type", self.metrics.content_type)], self.metrics.expose())

    # -------------------------------------------------------------- runnables
    def add(self, runnable: Runnable, *, phase: Phase | None = None) -> None:
        """Add a runnable, before or after the start.

        Without `phase`, it runs in WEBHOOKS if it has `opsdk.base.runnable.ServesWebhooks`, in OTHERS if its
        ``needs_leader_election`` returns False, else in the LEADER group. A runnable of the LEADER group with
        `opsdk.base.runnable.Warmup` is warmed up while this replica waits for the lease.

        Raises:
            UsageError: the manager is stopping.
        """
        if self._stopping:
            raise UsageError("can't accept new runnable as stop procedure is already engaged")
        if phase is None and isinstance(runnable, ServesWebhooks):
            phase = Phase.WEBHOOKS
        if phase is None:
            anywhere = isinstance(runnable, NeedsLeaderElection) and not runnable.needs_leader_election()
            phase = Phase.OTHERS if anywhere else Phase.LEADER
        self._groups[phase].add(runnable)
        if isinstance(runnable, Debuggable):
            for page, rows in runnable.debug_pages().items():
                self.debug.extend(page, rows)
        if phase is Phase.LEADER and isinstance(runnable, Warmup) and not self._elected.is_set():
            self._warmups.add(_WarmupRunnable(runnable))

    def add_healthz_check(self, name: str, check: Check) -> None:
        """Add a liveness check. Raises `UsageError` after the start."""
        self._check_new("a health check")
        self.healthz.add(name, check)

    def add_readyz_check(self, name: str, check: Check) -> None:
        """Add a readiness check. Raises `UsageError` after the start."""
        self._check_new("a readiness check")
        self.readyz.add(name, check)

    def claim_name(self, name: str) -> None:
        """Reserve the name of a controller. Raises `UsageError` if it is taken, because metrics use it as a label."""
        if name in self._controller_names:
            raise UsageError(
                f"a controller named {name!r} exists already: names must be unique, because metrics use them"
            )
        self._controller_names.add(name)

    def _check_new(self, what: str) -> None:
        if self._started:
            raise UsageError(f"{what} must be added before the manager starts")

    # -------------------------------------------------------------- life cycle
    @property
    def is_elected(self) -> bool:
        """Whether this replica leads: its LEADER group runs, and it has not lost the lease by its own clock."""
        try:
            if self._fence is not None:
                self._fence.check("")
        except LeaderElectionLostError:
            return False
        return self._elected.is_set()

    async def wait_elected(self) -> None:
        """Wait until this replica leads; without an election, until HTTP servers, webhooks and caches are ready."""
        await self._elected.wait()

    async def wait_ready(self) -> None:
        """Wait until all runnables without leader election are ready."""
        await self._ready.wait()

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the stop begins, for any reason. It must not raise."""
        self._on_stop.append(callback)

    def stop(self) -> None:
        """Begin to stop. `start` returns when all runnables have ended. Idempotent."""
        self._stop_requested.set()
        callbacks, self._on_stop = self._on_stop, []
        for callback in callbacks:
            callback()

    async def start(self) -> None:
        """Run until `stop` is called, the task is cancelled, or a runnable fails.

        The first cancellation begins the stop; a second one ends the shutdown timeout at once.

        Raises:
            Exception: the first failure of a runnable. A timeout of the stop is added to it as a note.
            ShutdownTimeoutError: a runnable did not stop within `shutdown_timeout`.
            LeaderElectionLostError: this replica lost the lease.
            UsageError: the manager was started before, or has no client for `metrics_authentication`.
        """
        if self._started:
            raise UsageError("the manager was already started: create a new one")
        if self.options.metrics_authentication and self._authorization is None:
            raise UsageError("metrics_authentication needs a client: call use_client(cluster.uncached) first")
        self._started = True
        if self._task_ages is not None:
            self._task_ages.install()
        election: asyncio.Task[None] | None = None
        others: asyncio.Task[None] | None = None
        try:
            if await self._start_groups(Phase.HTTP, Phase.WEBHOOKS, Phase.CACHES):
                self._groups[Phase.OTHERS].start()
                # Unready runnables of the OTHERS group do not prevent leadership.
                others = asyncio.get_running_loop().create_task(self._wait_others(), name="manager/others ready")
                if self._election is None:
                    self._elected.set()
                    self._groups[Phase.LEADER].start()
                else:
                    self._warmups.start()
                    loop = asyncio.get_running_loop()
                    election = loop.create_task(self._run_election(self._election), name="leader election")
                await self._stop_requested.wait()
        finally:
            try:
                await self._stop_completely(election, others)
            finally:
                if self._task_ages is not None:
                    self._task_ages.uninstall()
        if self._failed:
            raise self._failed[0]

    async def _wait_others(self) -> None:
        await self._groups[Phase.OTHERS].wait_ready()
        self._ready.set()

    async def _stop_completely(self, *helpers: asyncio.Task[None] | None) -> None:
        """Stop completely, even if the task that called `start` is cancelled."""
        tasks = [task for task in helpers if task is not None]
        stopping = asyncio.get_running_loop().create_task(self._stop(tasks), name="manager/stop")
        interrupted: asyncio.CancelledError | None = None
        while not stopping.done():
            try:
                await asyncio.wait([stopping])
            except asyncio.CancelledError as error:
                interrupted = error
                for group in self._all_groups():
                    group.cancel_grace()
        stopping.result()
        if interrupted is not None:
            raise interrupted

    async def _start_groups(self, *phases: Phase) -> bool:
        """Start groups in order, each when the previous one is ready. Returns False if the manager stops first."""
        for phase in phases:
            group = self._groups[phase]
            group.start()
            if not await self._wait_unless_stopping(group.wait_ready()):
                return False
        return True

    async def _wait_unless_stopping(self, waiting: Coroutine[object, None, None]) -> bool:
        """Await `waiting`. Returns False if the manager stops first."""
        ready = asyncio.get_running_loop().create_task(waiting, name="manager/wait ready")
        ending = asyncio.get_running_loop().create_task(self._stop_requested.wait(), name="manager/wait ending")
        try:
            await asyncio.wait((ready, ending), return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and not ready.cancelled() and (error := ready.exception()) is not None:
                self._on_error(None, error)
            return not self._stop_requested.is_set()
        finally:
            for task in (ready, ending):
                task.cancel()
            await wait_ended((ready, ending), _CANCEL_GRACE)

    async def _run_election(self, election: Election) -> None:
        running = asyncio.get_running_loop().create_task(election.run(), name="elector")
        elected = asyncio.get_running_loop().create_task(election.wait_elected(), name="wait elected")
        try:
            await asyncio.wait((running, elected), return_when=asyncio.FIRST_COMPLETED)
            # An election that has already ended must not start the LEADER group.
            if not running.done() and not elected.cancelled() and elected.exception() is None:
                if not self._stopping and self._fence is not None:
                    self._fence.leading = True
                    self._elected.set()
                    self._groups[Phase.LEADER].start()
                await asyncio.wait((running,))
            self._end_leadership()
            errors = (task.exception() for task in (running, elected) if task.done() and not task.cancelled())
            failure = next((error for error in errors if error is not None), None)
            self._on_error(None, failure or LeaderElectionLostError("the leader election ended unexpectedly"))
        finally:
            for task in (running, elected):
                task.cancel()
            await wait_ended((running, elected), _ELECTION_GRACE)

    def _all_groups(self) -> Sequence[RunnableGroup]:
        return (*self._groups.values(), self._warmups)

    def _end_leadership(self) -> None:
        """Reject the writes of all runnables of the LEADER group, even if they ignore their cancellation."""
        self._elected.clear()
        if self._fence is not None:
            self._fence.leading = False

    def _on_error(self, runnable: Runnable | None, error: BaseException) -> None:
        if self._stopping:
            log.warning("%r failed while stopping: %r", runnable, error)
            if isinstance(error, ShutdownTimeoutError):
                self._stop_failures.append(str(error))
            if isinstance(error, LeaderElectionLostError):
                # Another replica may already lead: stop without delay.
                for group in self._all_groups():
                    group.cancel_grace()
            return
        log.error("%s; stopping", error if runnable is None else f"{runnable!r} failed: {error!r}")
        self._failed.append(error)
        self.stop()

    # -------------------------------------------------------------- stop
    async def _stop(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        """Stop OTHERS, LEADER, CACHES, WEBHOOKS, HTTP. The lease is renewed meanwhile, and released last."""
        self.stop()
        self._stopping = True
        lost = any(isinstance(e, LeaderElectionLostError) for e in self._failed)
        # After losing the lease, stop without delay: another replica may already lead.
        budget = 0.0 if lost else self.options.shutdown_timeout
        first = (Phase.LEADER, Phase.OTHERS) if lost else (Phase.OTHERS, Phase.LEADER)
        deadline = None if budget is None else monotonic() + budget
        late: list[str] = []
        for phase in (*first, Phase.CACHES, Phase.WEBHOOKS, Phase.HTTP):
            remaining = None if deadline is None else max(deadline - monotonic(), 0.0)
            groups = [self._groups[phase]]
            if phase is Phase.OTHERS:
                groups.append(self._warmups)
            stopped = await asyncio.gather(*(group.stop(remaining) for group in groups))
            late += [name for names in stopped for name in names]
        for helper in helpers:
            helper.cancel()
        await wait_ended(helpers, _ELECTION_GRACE)
        late += self._stop_failures
        elected = self.is_elected
        self._end_leadership()
        if elected and not lost:
            await self._release()
        if late and budget != 0:
            within = "" if budget is None else f" within grace period of {budget:g} s"
            text = f"failed waiting for all runnables to end{within}: {', '.join(late)}"
            log.error("%s", text)
            if self._failed:
                self._failed[0].add_note(text)
            else:
                self._failed.append(ShutdownTimeoutError(text))
        elif late:
            log.warning("cancelled without shutdown timeout: %s", ", ".join(late))

    async def _release(self) -> None:
        if self._election is None:
            return
        if running := [*self._stop_failures, *(name for group in self._all_groups() for name in group.running())]:
            log.warning(
                "the lease is not released and will expire, because runnables are still running: %s", ", ".join(running)
            )
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._election.release()
        except Exception:
            # The lease expires anyway, so the exit must not depend on its release.
            log.exception("cannot release the lease, it will expire")

    def __repr__(self) -> str:
        return f"<Manager: {', '.join(repr(g) for g in self._groups.values())}>"
