"""Manager: starts runnables in order, runs them, stops them in reverse order.

Upstream: sigs.k8s.io/controller-runtime/pkg/manager/internal.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING

from opsdk.aio.clock import monotonic
from opsdk.aio.task_stacks import TaskAges
from opsdk.aio.waiting import wait_ended
from opsdk.base.runnable import Debuggable, Enqueues, NeedsLeaderElection, Runnable, ServesWebhooks, Warmup
from opsdk.errors import BadRequestError, LeaderElectionLostError, NotFoundError, ShutdownTimeoutError, UsageError
from opsdk.manager.address import is_enabled
from opsdk.manager.debug import DebugPages, memory_page, tasks_page
from opsdk.manager.health import Check, Checks
from opsdk.manager.leadership import ELECTION_GRACE, Election, ManagerLeadership
from opsdk.manager.options import ManagerOptions
from opsdk.manager.phases import ManagerState, Phase, StopPlan, plan_stop
from opsdk.manager.runnable_group import RunnableGroup
from opsdk.manager.servers import IssuedContext, MetricsEndpoint, http_servers
from opsdk.telemetry.context import add_context_to_records
from opsdk.telemetry.prometheus import PrometheusHook, export_metrics
from opsdk.telemetry.queue_monitor import QueueMonitor
from opsdk.telemetry.records import Hooks, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

if TYPE_CHECKING:  # start-up time: tests serve nothing, and few metrics are authorized
    from opsdk.manager.http import HttpServer
    from opsdk.rbac.delegated import ReviewClient

__all__ = ["Manager", "ManagerOptions"]

log = SafeLogger(__name__)

# Seconds for cancelled tasks of the manager's own to end.
_CANCEL_GRACE = 1.0


class _WarmupRunnable:
    """Runs the warm-up of a runnable."""

    def __init__(self, target: Warmup) -> None:
        self._target = target

    async def start(self) -> None:
        """Run the warm-up."""
        await self._target.warmup()

    def __repr__(self) -> str:
        return f"<warm-up of {self._target!r}>"


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
        state: see `ManagerState`.
        healthz: liveness checks.
        readyz: readiness checks.
        metrics: the Prometheus metrics; ``metrics.registry`` accepts your own metrics.
        debug: the debug pages; ``debug.add`` accepts your own pages.
        http_servers: the servers of probes, metrics and debug pages whose addresses are set, in this order. With port
            0, ``port`` of a server is the selected one once the server is ready.
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
        self.state: ManagerState = ManagerState.NEW
        self.metrics = PrometheusHook(now=monotonic)
        self.debug = DebugPages()
        queues = QueueMonitor(monotonic)
        debugs = is_enabled(self.options.debug_bind_address)
        self._task_ages = TaskAges() if debugs else None
        self.hook = Hooks([self.metrics, *([queues] if debugs else []), *hooks])
        self.healthz = Checks("/healthz")
        self.readyz = Checks("/readyz")
        self.leadership = ManagerLeadership(None)
        self._groups = {phase: RunnableGroup(phase.value, on_error=self._on_error) for phase in Phase}
        self._warmups = RunnableGroup("warm-up", on_error=self._on_error)
        self._failed: list[BaseException] = []
        self._stop_failures: list[str] = []
        self._controller_names: set[str] = set()
        self._enqueuers: list[Enqueues] = []
        self._stop_requested = asyncio.Event()
        self._on_stop: list[Callable[[], None]] = []
        self._on_add: list[Callable[[Runnable], None]] = []
        self._ready = asyncio.Event()
        add_context_to_records()
        if self._task_ages is not None:
            self._add_debug_pages(self._task_ages, queues)
        self._metrics_endpoint = MetricsEndpoint(self.options, self.metrics, self.hook)
        self.http_servers: Sequence[HttpServer] = http_servers(
            self.options, healthz=self.healthz, readyz=self.readyz, metrics=self._metrics_endpoint, debug=self.debug
        )
        for server in self.http_servers:
            self.add(server, phase=Phase.HTTP)
        if election is not None:
            self.use_election(election)

    def _add_debug_pages(self, ages: TaskAges, queues: QueueMonitor) -> None:
        self.debug.add("tasks", lambda: tasks_page(ages), description="tasks with age and await stack")
        self.debug.add("queues", queues.states, description="queue and workers of each controller")
        self.debug.add("memory", memory_page, description="memory, garbage collector, objects by type")
        self.debug.add("leadership", self._leadership_page, description="the leader election of this replica")
        self.debug.add_action("reconcile", self._reconcile_now)

    def _leadership_page(self) -> Mapping[str, object]:
        return {"state": self.state.value, **self.leadership.as_json()}

    def _reconcile_now(self, arguments: Mapping[str, str]) -> Mapping[str, object]:
        """Queue the request of one controller before all others. The action of ``POST /debug/reconcile``."""
        unknown = arguments.keys() - {"controller", "namespace", "name"}
        if unknown or not arguments.get("controller") or not arguments.get("name"):
            raise BadRequestError('write {"controller": NAME, "namespace": NAMESPACE, "name": NAME}')
        controller, namespace = arguments["controller"], arguments.get("namespace", "")
        for runnable in self._enqueuers:
            if outcome := runnable.enqueue_now(controller, namespace, arguments["name"]):
                return {"outcome": outcome}
        raise NotFoundError(f"this replica has no controller {controller}: /debug/controllers lists them")

    def use_election(self, election: Election) -> None:
        """Set the election. Raises `UsageError` after the start."""
        self._check_new("an election")
        self.leadership = ManagerLeadership(election)
        # Tasks that a warm-up starts continue while this replica leads, so it has the leader's fence.
        self._groups[Phase.LEADER].fence = self._warmups.fence = self.leadership

    def use_client(self, client: ReviewClient) -> None:
        """Set the client that reviews metrics requests. Raises `UsageError` after the start."""
        self._check_new("the client for metrics_authentication")
        self._metrics_endpoint.use_client(client)

    def use_metrics_certificates(self, issued: IssuedContext) -> None:
        """Set the source of the certificate of the metrics, which is self-signed otherwise.

        `metrics_cert_file` takes precedence. Raises `UsageError` after the start.
        """
        self._check_new("the certificates of the metrics")
        self._metrics_endpoint.use_certificates(issued)

    # -------------------------------------------------------------- runnables
    def add(self, runnable: Runnable, *, phase: Phase | None = None) -> None:
        """Add a runnable, before or after the start.

        Without `phase`, it runs in WEBHOOKS if it has `opsdk.base.runnable.ServesWebhooks`, in OTHERS if its
        ``needs_leader_election`` returns False, else in the LEADER group. A runnable of the LEADER group with
        `opsdk.base.runnable.Warmup` is warmed up while this replica waits for the lease.

        Raises:
            UsageError: the manager is stopping.
        """
        if self.state in (ManagerState.STOPPING, ManagerState.STOPPED):
            raise UsageError("can't accept new runnable as stop procedure is already engaged")
        if phase is None and isinstance(runnable, ServesWebhooks):
            phase = Phase.WEBHOOKS
        if phase is None:
            anywhere = isinstance(runnable, NeedsLeaderElection) and not runnable.needs_leader_election()
            phase = Phase.OTHERS if anywhere else Phase.LEADER
        self._groups[phase].add(runnable)
        for callback in self._on_add:
            callback(runnable)
        if isinstance(runnable, Enqueues):
            self._enqueuers.append(runnable)
        if isinstance(runnable, Debuggable):
            for page, rows in runnable.debug_pages().items():
                self.debug.extend(page, rows)
        if phase is Phase.LEADER and isinstance(runnable, Warmup) and not self.leadership.has_begun:
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
        if self.state is not ManagerState.NEW:
            raise UsageError(f"{what} must be added before the manager starts")

    # -------------------------------------------------------------- life cycle
    @property
    def is_elected(self) -> bool:
        """Whether this replica leads: its LEADER group runs, and it has not lost the lease by its own clock."""
        return self.leadership.is_leading

    async def wait_elected(self) -> None:
        """Wait until this replica leads; without an election, until HTTP servers, webhooks and caches are ready."""
        await self.leadership.wait_begun()

    async def wait_ready(self) -> None:
        """Wait until all runnables without leader election are ready."""
        await self._ready.wait()

    def on_add(self, callback: Callable[[Runnable], None]) -> None:
        """Call `callback` with each runnable that is added from now on, before it starts. It must not raise."""
        self._on_add.append(callback)

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
            Exception: the first failure of a runnable. A timeout during the stop is added to it as a note.
            ShutdownTimeoutError: a runnable did not stop within `shutdown_timeout`.
            LeaderElectionLostError: this replica lost the lease.
            UsageError: the manager was started before, or has no client for `metrics_authentication`.
        """
        if self.state is not ManagerState.NEW:
            raise UsageError("the manager was already started: create a new one")
        self._metrics_endpoint.check_client()
        self.state = ManagerState.RUNNING
        export_metrics(self.metrics, self.hook.hooks)
        if self._task_ages is not None:
            self._task_ages.install()
        helpers: list[asyncio.Task[None]] = []
        try:
            if await self._start_groups(Phase.HTTP, Phase.WEBHOOKS, Phase.CACHES):
                self._groups[Phase.OTHERS].start()
                loop = asyncio.get_running_loop()
                # Unready runnables of the OTHERS group do not prevent leadership.
                helpers.append(loop.create_task(self._wait_others(), name="manager/others ready"))
                if self.leadership.election is None:
                    self._begin_leading()
                else:
                    self._warmups.start()
                    helpers.append(loop.create_task(self._run_election(), name="leader election"))
                await self._stop_requested.wait()
        finally:
            try:
                await self._stop_completely(helpers)
            finally:
                self.state = ManagerState.STOPPED
                if self._task_ages is not None:
                    self._task_ages.uninstall()
        if self._failed:
            raise self._failed[0]

    async def _wait_others(self) -> None:
        await self._groups[Phase.OTHERS].wait_ready()
        self._ready.set()

    async def _stop_completely(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        """Stop completely, even if the task that called `start` is cancelled."""
        stopping = asyncio.get_running_loop().create_task(self._stop(helpers), name="manager/stop")
        interrupted: asyncio.CancelledError | None = None
        while not stopping.done():
            try:
                await asyncio.wait([stopping])
            except asyncio.CancelledError as error:
                interrupted = error
                self._cancel_grace()
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

    async def _run_election(self) -> None:
        self._on_error(None, await self.leadership.run(on_elected=self._begin_leading))

    def _begin_leading(self) -> None:
        if self.state is ManagerState.RUNNING:
            self.leadership.begin()
            self._groups[Phase.LEADER].start()

    def _all_groups(self) -> Sequence[RunnableGroup]:
        return (*self._groups.values(), self._warmups)

    def _cancel_grace(self) -> None:
        for group in self._all_groups():
            group.cancel_grace()

    def _on_error(self, runnable: Runnable | None, error: BaseException) -> None:
        if self.state is ManagerState.STOPPING:
            log.warning("%r failed while stopping: %r", runnable, error)
            if isinstance(error, ShutdownTimeoutError):
                self._stop_failures.append(str(error))
            if isinstance(error, LeaderElectionLostError):
                # Another replica may already lead: stop without delay.
                self._cancel_grace()
            return
        log.error("%s; stopping", error if runnable is None else f"{runnable!r} failed: {error!r}")
        self._failed.append(error)
        self.stop()

    # -------------------------------------------------------------- stop
    async def _stop(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        """Stop the groups as planned. The lease is renewed in the meantime, and released last."""
        self.stop()
        self.state = ManagerState.STOPPING
        plan = plan_stop(
            lease_lost=any(isinstance(error, LeaderElectionLostError) for error in self._failed),
            shutdown_timeout=self.options.shutdown_timeout,
        )
        began = monotonic()
        late: list[str] = []
        for phase in plan.phases:
            late += await self._stop_group(phase, plan.remaining(monotonic() - began))
        for helper in helpers:
            helper.cancel()
        await wait_ended(helpers, ELECTION_GRACE)
        was_leading = self.leadership.is_leading
        self.leadership.end()
        if was_leading and plan.releases_lease:
            await self._release()
        self._report_late(plan, [*late, *self._stop_failures])

    async def _stop_group(self, phase: Phase, seconds: float | None) -> list[str]:
        groups = [self._groups[phase], self._warmups] if phase is Phase.OTHERS else [self._groups[phase]]
        late = await asyncio.gather(*(group.stop(seconds) for group in groups))
        return [name for names in late for name in names]

    def _report_late(self, plan: StopPlan, late: Sequence[str]) -> None:
        if not late:
            return
        if not (text := plan.failure(late)):
            log.warning("cancelled without shutdown timeout: %s", ", ".join(late))
            return
        log.error("%s", text)
        if self._failed:
            self._failed[0].add_note(text)
        else:
            self._failed.append(ShutdownTimeoutError(text))

    async def _release(self) -> None:
        running = [*self._stop_failures, *(name for group in self._all_groups() for name in group.running())]
        if running and self.leadership.election is not None:
            log.warning(
                "the lease is not released and will expire, because runnables are still running: %s", ", ".join(running)
            )
            return
        await self.leadership.release()

    def __repr__(self) -> str:
        return f"<Manager: {', '.join(repr(g) for g in self._groups.values())}>"
