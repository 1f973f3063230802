"""Runs a fleet on one replica: follows the provider, distributes clusters between replicas, reports their state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.aio.containment import cancellations, contain
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.meta import Condition
from opsdk.cluster.cluster import Cluster
from opsdk.controller.controller import Controller
from opsdk.fleet.managed_cluster import ClusterReason, ManagedCluster, ProbeOptions
from opsdk.fleet.ownership import Ownership
from opsdk.fleet.ownership_rules import OwnershipOptions
from opsdk.fleet.provider import ClusterEntry, ClusterProvider, Clusters
from opsdk.telemetry.records import TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

# Back-off before a failed provider restarts, and before a failed write of a condition is retried.
_RETRY_BACKOFF = Backoff(base=1.0, factor=2.0, cap=60.0, jitter=0.2, reset_after=300.0)

# Debug pages with rows of each managed cluster.
_PAGES = ("controllers", "running", "retries", "informers")


class FleetRunner:
    """A Runnable for every replica.

    Args:
        management: the cluster of the operator. It stores the leases, and for some providers the clusters.
        provider: finds the clusters.
        connect: creates the client and cache of a managed cluster.
        make_controllers: creates the controllers of a managed cluster.
        ownership: see `OwnershipOptions`.
        probe: see `ProbeOptions`.
        hook: receives telemetry records.

    Attributes:
        ownership: the ownership of clusters by this replica.
        clusters: the clusters that this replica owns, drains or warms up, by name.
    """

    def __init__(
        self,
        management: Cluster,
        provider: ClusterProvider,
        *,
        connect: Callable[[ClusterEntry], Cluster],
        make_controllers: Callable[[Cluster], Sequence[Controller]],
        ownership: OwnershipOptions,
        probe: ProbeOptions,
        hook: TelemetryHook | None = None,
    ) -> None:
        self.clusters: dict[str, ManagedCluster] = {}
        self.ownership = Ownership(management, self._make, ownership, hook=hook)
        self._management = management
        self._provider = provider
        self._connect = connect
        self._make_controllers = make_controllers
        self._probe = probe
        self._entries: Clusters = {}
        self._pending_conditions: dict[str, Condition] = {}
        self._report_wanted = asyncio.Event()

    def needs_leader_election(self) -> bool:
        """Return False: every replica is a member."""
        return False

    def debug_pages(self) -> Mapping[str, Callable[[], Iterable[object]]]:
        pages = {page: partial(self._rows, page) for page in _PAGES}
        return {**pages, "shards": lambda: self.ownership.debug_rows()}  # noqa: PLW0108 - read when the page is

    def _rows(self, page: str) -> Iterable[object]:
        for managed in list(self.clusters.values()):
            yield from managed.rows(page)

    def enqueue_now(self, controller: str, namespace: str, name: str) -> str:
        """Queue a request of a controller of a managed cluster; see `opsdk.base.runnable.Enqueues`."""
        outcomes = (managed.enqueue_now(controller, namespace, name) for managed in list(self.clusters.values()))
        return next(filter(None, outcomes), "")

    async def start(self) -> None:
        """Run until cancelled. The clusters of this replica are handed over before it returns."""
        tasks = TaskOwner(f"{self!r}")
        tasks.start(self._follow_provider(), name="provider")
        tasks.start(self._report_conditions(), name="report")
        try:
            await self.ownership.start()
        finally:
            await tasks.aclose()

    # -------------------------------------------------------------- clusters
    async def _follow_provider(self) -> None:
        """Run the provider, and restart it after a failure. Its last clusters are kept."""
        waits = _RETRY_BACKOFF.start()
        task = asyncio.current_task()
        while True:
            before = cancellations(task)
            try:
                await self._provider.start(self._management, self._on_change)
                log.error("%r has returned, but must run until it is cancelled; restarting it", self._provider)
            except BaseException as error:
                contain(error, task=task, cancelling=before)
                log.exception("%r failed; the fleet continues with the known clusters", self._provider)
            await asyncio.sleep(waits.next(monotonic()))

    def _on_change(self, clusters: Clusters) -> None:
        before, self._entries = self._entries, clusters
        self.ownership.set_shards(clusters.keys())
        for name in sorted(clusters.keys() & before.keys()):
            if clusters[name] != before[name]:
                log.info("the configuration of cluster %s has changed: reconnecting", name)
                self.ownership.restart(name)

    def _make(self, name: str) -> ManagedCluster:
        """Return the runnable of a cluster."""
        gone = ClusterEntry(name=name, problem="the provider no longer has this cluster")
        managed = self.clusters[name] = ManagedCluster(
            self._entries.get(name, gone),
            connect=self._connect,
            make_controllers=self._make_controllers,
            report=lambda condition: self._on_condition(name, condition),
            on_close=lambda closed: self.clusters.pop(name) if self.clusters.get(name) is closed else None,
            probe=self._probe,
        )
        return managed

    # -------------------------------------------------------------- conditions
    def _on_condition(self, name: str, condition: Condition) -> None:
        # Other errors of the server also occur on other replicas, so only an unreachable cluster moves.
        self.ownership.report_reachability(name, is_reachable=condition.reason != ClusterReason.UNREACHABLE.value)
        self._pending_conditions[name] = condition
        self._report_wanted.set()

    async def _report_conditions(self) -> None:
        """Write conditions in sequence, only the latest of each cluster."""
        waits = _RETRY_BACKOFF.start()
        while True:
            await self._report_wanted.wait()
            self._report_wanted.clear()
            conditions, self._pending_conditions = self._pending_conditions, {}
            for name, condition in conditions.items():
                if name not in self.ownership.owned():
                    continue  # the new owner writes its own condition
                task = asyncio.current_task()
                before = cancellations(task)
                try:
                    await self._provider.report(self._management, name, condition)
                except BaseException as error:  # noqa: BLE001 - a provider is user code; the log names the error
                    contain(error, task=task, cancelling=before)
                    log.warning("cannot report the state of cluster %s, will retry: %r", name, error)
                    self._pending_conditions.setdefault(name, condition)
            if self._pending_conditions:
                await asyncio.sleep(waits.next(monotonic()))
                self._report_wanted.set()

    def __repr__(self) -> str:
        return f"<FleetRunner {self.ownership.options.name}: {len(self.clusters)} of {len(self._entries)} clusters>"
