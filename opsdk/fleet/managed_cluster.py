"""One managed cluster on its replica: clients, cache, controllers, and its ``Ready`` condition.

Each cluster has its own connections, informers, queues and workers. An unreachable, slow or forbidden cluster does not
delay other clusters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from opsdk.aio.fence import FENCE
from opsdk.apimachinery.meta import Condition
from opsdk.base.options import Options
from opsdk.base.runnable import Debuggable, Runnable
from opsdk.cluster.cluster import Cluster
from opsdk.controller.controller import Controller
from opsdk.errors import ForbiddenError, OpsdkError, TlsError, TransportError, UnauthorizedError
from opsdk.fleet.provider import ClusterEntry
from opsdk.manager.runnable_group import RunnableGroup
from opsdk.rest.request import RestRequest
from opsdk.rest.response import raise_for_status
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Seconds for the cache to end after the controllers.
_CLOSE_SECONDS = 5.0


class ClusterReason(Enum):
    """The reason of a managed cluster's ``Ready`` condition."""

    CONNECTED = "Connected"
    """The API server responds, and the informers are synced."""
    SYNCING = "Syncing"
    """The API server responds; informers wait for their lists."""
    UNREACHABLE = "Unreachable"
    """The server does not respond, or responds with an error."""
    INVALID_CERTIFICATE = "InvalidCertificate"
    """The server's certificate is not signed by the configured CA, or the server rejects the client certificate."""
    UNAUTHORIZED = "Unauthorized"
    """The credentials are wrong or expired."""
    FORBIDDEN = "Forbidden"
    """A permission is missing."""
    INVALID_CONFIG = "InvalidConfig"
    """The configuration of the cluster is invalid."""


class ProbeOptions(Options, frozen=True, kw_only=True):
    """The intervals and timeouts of probes of managed clusters. Times are in seconds.

    Attributes:
        interval: the time between two probes.
        timeout: the time limit of one probe.
    """

    interval: float = 10.0
    timeout: float = 5.0


class _WarmupRunnable:
    """Runs the warm-up of a controller."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def start(self) -> None:
        """Fill the queue until the controller starts."""
        await self._controller.warmup()

    def __repr__(self) -> str:
        return f"<warm-up of {self._controller.name}>"


class ManagedCluster:
    """A `opsdk.fleet.shard_runner.ShardRunnable` with the cache and the controllers of one cluster.

    Args:
        entry: the cluster. An entry with a problem runs no controllers; its condition has the reason.
        connect: creates the cluster's client and cache.
        make_controllers: creates the controllers of the cluster.
        report: called with the condition at first, and when it changes.
        on_close: called with this when it is closed.
        probe: see `ProbeOptions`.

    Attributes:
        cluster: its clients and cache; None for an entry with a problem.
        condition: the ``Ready`` condition as last reported; None before the first probe.
    """

    def __init__(
        self,
        entry: ClusterEntry,
        *,
        connect: Callable[[ClusterEntry], Cluster],
        make_controllers: Callable[[Cluster], Sequence[Controller]],
        report: Callable[[Condition], None],
        on_close: Callable[[ManagedCluster], object],
        probe: ProbeOptions,
    ) -> None:
        self.entry = entry
        self.cluster: Cluster | None = None
        self.condition: Condition | None = None
        self._problem = entry.problem
        self._report = report
        self._on_close = on_close
        self._probe_options = probe
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._controllers: Sequence[Controller] = ()
        self._caches = RunnableGroup(f"{entry.name}/cache", on_error=self._on_error)
        self._warmups = RunnableGroup(f"{entry.name}/warm-up", on_error=self._on_error)
        self._workers = RunnableGroup(f"{entry.name}/controllers", on_error=self._on_error)
        if entry.config is not None:
            try:
                self.cluster = connect(entry)
            except OpsdkError as error:
                self._problem = str(error)
        if self.cluster is not None:
            self._controllers = make_controllers(self.cluster)
            self._caches.add(self.cluster)

    # -------------------------------------------------------------- life cycle
    async def warmup(self) -> None:
        """Fill the cache, and return when the sources of all controllers have synced."""
        self._caches.fence = self._warmups.fence = FENCE.get()
        for controller in self._controllers:
            self._warmups.add(_WarmupRunnable(controller))
        self._caches.start()
        self._warmups.start()
        await asyncio.gather(*(controller.wait_synced() for controller in self._controllers))

    async def start(self) -> None:
        """Reconcile until cancelled. Raises the first failure of the cache or of a controller."""
        self._caches.fence = self._workers.fence = FENCE.get()
        for controller in self._controllers:
            self._workers.add(controller)
        probing = asyncio.get_running_loop().create_task(self._probe(), name=f"{self.entry.name}/probe")
        self._caches.start()
        self._workers.start()
        try:
            await asyncio.wait((self._failure, probing), return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._failure, probing):
                if ended.done():
                    ended.result()
        except asyncio.CancelledError:
            # The controllers finish active reconciles; a second cancellation ends the wait.
            await self._workers.stop(None)
            raise
        finally:
            probing.cancel()

    async def aclose(self) -> None:
        """Cancel running tasks, and close the connections. Idempotent."""
        self._failure.cancel()
        for group in (self._workers, self._warmups, self._caches):
            await group.stop(0.0 if group is self._workers else _CLOSE_SECONDS)
        if self.cluster is not None:
            await self.cluster.aclose()
        self._on_close(self)

    def _on_error(self, runnable: Runnable, error: BaseException) -> None:
        if self._failure.done():
            log.warning("%r of cluster %s failed while stopping: %r", runnable, self.entry.name, error)
        else:
            self._failure.set_exception(error)

    # -------------------------------------------------------------- debug pages
    def rows(self, page: str) -> Iterable[object]:
        """Return the rows that the cache and the controllers add to a debug page."""
        runnables: list[Debuggable] = [*self._controllers, *([self.cluster] if self.cluster is not None else [])]
        for runnable in runnables:
            if (provider := runnable.debug_pages().get(page)) is not None:
                yield from provider()

    def enqueue_now(self, controller: str, namespace: str, name: str) -> str:
        """Queue a request of one of the controllers; see `opsdk.base.runnable.Enqueues`."""
        outcomes = (own.enqueue_now(controller, namespace, name) for own in self._controllers)
        return next(filter(None, outcomes), "")

    # -------------------------------------------------------------- state
    async def _probe(self) -> None:
        """Probe the cluster periodically, and report changes of its state."""
        while True:
            reason, message = await self._state()
            condition = Condition(
                type="Ready",
                status="True" if reason is ClusterReason.CONNECTED else "False",
                reason=reason.value,
                message=message,
            )
            if condition != self.condition:
                is_usual = reason in (ClusterReason.CONNECTED, ClusterReason.SYNCING)
                level = log.info if is_usual else log.warning
                level("cluster %s: %s: %s", self.entry.name, reason.value, message)
                self.condition = condition
                self._report(condition)
            interval = self._probe_options.interval
            # Shortly after the start, most clusters are about to sync.
            await asyncio.sleep(min(interval, 1.0) if reason is ClusterReason.SYNCING else interval)

    async def _state(self) -> tuple[ClusterReason, str]:
        """Return the state: first whether the server responds, then whether the informers have synced."""
        if self.cluster is None:
            return ClusterReason.INVALID_CONFIG, self._problem
        try:
            request = RestRequest("GET", "/version")
            response = await self.cluster.transport.send(request, timeout=self._probe_options.timeout, retry=False)
            raise_for_status(response, request)
        except OpsdkError as error:
            return _reason(error), f"{self.cluster.config.host}: {error}"
        problems = [problem for controller in self._controllers for problem in controller.problems()]
        if not problems:
            return ClusterReason.CONNECTED, f"{self.cluster.config.host} answers"
        errors = (health.last_error for health in self.cluster.cache.health())
        is_forbidden = any(isinstance(error, ForbiddenError) for error in errors)
        return ClusterReason.FORBIDDEN if is_forbidden else ClusterReason.SYNCING, "; ".join(dict.fromkeys(problems))

    def __repr__(self) -> str:
        return f"<ManagedCluster {self.entry.name}: {self.condition.reason if self.condition else 'not started'}>"


def _reason(error: OpsdkError) -> ClusterReason:
    """Return the reason for a failed probe."""
    if isinstance(error, UnauthorizedError):
        return ClusterReason.UNAUTHORIZED
    if isinstance(error, ForbiddenError):
        return ClusterReason.FORBIDDEN
    if isinstance(error, TlsError):
        return ClusterReason.INVALID_CERTIFICATE
    is_outage = isinstance(error, TransportError) or error.retryable
    return ClusterReason.UNREACHABLE if is_outage else ClusterReason.INVALID_CONFIG
