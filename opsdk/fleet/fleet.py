"""Fleet: one operator for many clusters, on many replicas.

Upstream: Rancher's controllers (API, management and user controllers); sigs.k8s.io/multicluster-runtime (v0.21)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import partial
from typing import Any, TypeVar, Unpack

from msgspec.structs import replace

from opsdk.api.coordination.v1 import Lease
from opsdk.apimachinery.kinds import KindLike, kind_of
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.object import AnyObject
from opsdk.builder.controller_builder import ControllerBuilder
from opsdk.builder.operator import Operator
from opsdk.builder.reconciler_options import (
    DeclaredReconciler,
    ReconcilerDecorator,
    ReconcilerOptions,
    check_declaration,
    declare,
)
from opsdk.cluster.cluster import Cluster
from opsdk.cluster.options import ClusterOptions
from opsdk.controller.controller import Controller
from opsdk.controller.options import ControllerOptions
from opsdk.errors import UsageError
from opsdk.event.sources import SyncPolicy
from opsdk.fleet.managed_cluster import ProbeOptions
from opsdk.fleet.metrics import FleetCollector
from opsdk.fleet.ownership_rules import OwnershipOptions, ShardingOptions
from opsdk.fleet.provider import ClusterEntry, ClusterProvider
from opsdk.fleet.runner import FleetRunner
from opsdk.manager.phases import Phase
from opsdk.rbac.rules import RbacRule
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

T = TypeVar("T", bound=AnyObject)


class ControllerClass(Enum):
    """The cluster and the replicas that a controller of a fleet runs for."""

    API = "api"
    """On every replica, for the management cluster: keeps state in the process up to date."""
    MANAGEMENT = "management"
    """On the leader, for the management cluster."""
    USER = "user"
    """For each managed cluster, on the replica that owns it."""


class FleetOptions(ShardingOptions, frozen=True, kw_only=True):
    """Options of a `Fleet`. Times are in seconds.

    Attributes:
        name: of the fleet, and part of the names of its leases; empty for the operator's name.
        namespace: of the leases in the management cluster; empty for the namespace of this process.
        lease_duration: see `OwnershipOptions`, also for the next five.
        renew_deadline: the time for which renewals may fail.
        retry_period: the time between two renewals.
        load_factor: the limit of clusters per replica, see `opsdk.fleet.placement.place`.
        drain_timeout: the time for active reconciles to finish before a cluster is handed over.
        unreachable_timeout: an owner that cannot reach a cluster for this long invites other replicas to take it over.
        version: of the operator, such as ``"1.4.0"``: ``opsdk canary`` gives chosen clusters or shards to the replicas
            of one version. A label value; empty for none.
        cluster: options of managed clusters: caching and writes.
        controller: default options of the controllers of managed clusters.
        probe: see `ProbeOptions`.
    """

    name: str = ""
    namespace: str = ""
    cluster: ClusterOptions = ClusterOptions()
    controller: ControllerOptions = ControllerOptions()
    probe: ProbeOptions = ProbeOptions()


class Fleet:
    """Runs reconcilers for many clusters. Every replica runs the same program; each cluster belongs to one of them.

    ::

        operator = Operator("fleet-operator", OperatorOptions(leader_election=True))
        fleet = Fleet(operator, KubeconfigSecrets(namespace="clusters"))

        @fleet.reconciler(ConfigMap)
        async def reconcile(config_map: ConfigMap, ctx: Context) -> None:
            ctx.logger.info("%s in %s", config_map.metadata.name, ctx.cluster.name)

        operator.main()

    ``ctx.client`` and ``ctx.cluster`` belong to the managed cluster, ``operator.client`` to the management cluster.
    Writes to either raise an error when this replica no longer owns the managed cluster.

    Args:
        operator: the operator of the management cluster.
        provider: finds the clusters.
        options: see `FleetOptions`.
    """

    def __init__(self, operator: Operator, provider: ClusterProvider, options: FleetOptions | None = None) -> None:
        self.options = options or FleetOptions()
        self.provider = provider
        self._operator = operator
        self._declared: list[DeclaredReconciler] = []
        self._runner: FleetRunner | None = None
        operator.setup(self._add_to)
        operator.rbac(RbacRule("get list watch create update delete", Lease), *provider.rules, implied=True)

    def reconciler(
        self,
        kind: KindLike[T] | None = None,
        *,
        controller_class: ControllerClass = ControllerClass.USER,
        **options: Unpack[ReconcilerOptions],
    ) -> ReconcilerDecorator[Any]:
        """Decorator: the function, or the class, reconciles `kind`. See `Operator.reconciler` for the keywords.

        For USER, functions among ``sources`` get the managed `Cluster`. Its name is ``ctx.cluster.name`` and
        ``request.cluster``.

        Args:
            kind: the reconciled kind; None for a controller whose requests are not objects, which needs `name`.
            controller_class: the cluster and the replicas that it runs for.
            options: as for `Operator.reconciler`.
        """
        check_declaration(kind, options)
        if controller_class is not ControllerClass.USER:
            own = options.get("options") or self._operator.options.controller
            is_management = controller_class is ControllerClass.MANAGEMENT
            options["options"] = replace(own, needs_leader_election=is_management)
            return self._operator.reconciler(kind, **options)
        token = kind_of(kind) if kind is not None else None
        return ReconcilerDecorator(
            token, lambda target: self._declared.append(DeclaredReconciler(token, options, target))
        )

    # -------------------------------------------------------------- state
    @property
    def runner(self) -> FleetRunner:
        """The runner of the fleet on this replica. Raises `UsageError` before the operator is started."""
        if self._runner is None:
            raise UsageError("the fleet is not started: call run() or start() of its operator")
        return self._runner

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The managed clusters that this replica owns, drains or warms up, by name."""
        return {name: m.cluster for name, m in self.runner.clusters.items() if m.cluster is not None}

    @property
    def owned(self) -> frozenset[str]:
        """The names of the clusters that this replica owns now."""
        return self.runner.ownership.owned()

    def conditions(self) -> dict[str, Condition]:
        """Return the ``Ready`` conditions of the clusters that this replica owns, drains or warms up."""
        return {name: m.condition for name, m in self.runner.clusters.items() if m.condition is not None}

    # -------------------------------------------------------------- setup
    def _add_to(self, operator: Operator) -> None:
        """Add the fleet's runner, metrics and debug page to the operator's manager."""
        if not self._declared:
            raise UsageError("the fleet has nothing to run: declare a reconciler with @fleet.reconciler(Kind)")
        operator.cluster.has_one_process = False
        o = self.options
        namespace = o.namespace or operator.options.leader_election_namespace or operator.cluster.config.namespace
        self._runner = FleetRunner(
            operator.cluster,
            self.provider,
            connect=partial(self._connect, operator),
            make_controllers=partial(self._make_controllers, operator),
            ownership=OwnershipOptions(
                name=o.name or operator.name,
                namespace=namespace,
                lease_duration=o.lease_duration,
                renew_deadline=o.renew_deadline,
                retry_period=o.retry_period,
                load_factor=o.load_factor,
                drain_timeout=o.drain_timeout,
                unreachable_timeout=o.unreachable_timeout,
                version=o.version,
            ),
            probe=o.probe,
            hook=operator.manager.hook,
        )
        operator.manager.add(self._runner, phase=Phase.OTHERS)
        operator.manager.metrics.add_collector(self._collector)
        operator.manager.debug.add("fleet", self._debug_rows, description="clusters of this replica, and their state")

        operator.manager.debug.add(
            "fleet-versions", self._version_rows, description="all clusters of the fleet: owner, version, and canary"
        )

    def _collector(self) -> FleetCollector:
        """Return the collector of the fleet's metrics."""
        ownership = self.runner.ownership
        return FleetCollector(ownership.states, self.conditions, version=self.options.version)

    def _version_rows(self) -> list[object]:
        """Return the rows of the debug page of versions: one for each cluster or shard of the fleet."""
        return [
            {
                "cluster": row.shard,
                "version": row.version,
                "owner": row.holder,
                "placed": row.placed,
                "placed_version": row.placed_version,
            }
            for row in self.runner.ownership.shard_versions()
        ]

    def _debug_rows(self) -> list[object]:
        """Return the rows of the debug page."""
        states, conditions = self.runner.ownership.states(), self.conditions()
        return [
            {
                "cluster": name,
                "state": state.value,
                "version": self.options.version,
                "reason": conditions[name].reason if name in conditions else "",
                "message": conditions[name].message if name in conditions else "",
            }
            for name, state in sorted(states.items())
        ]

    def _connect(self, operator: Operator, entry: ClusterEntry) -> Cluster:
        """Return the client and cache of a managed cluster."""
        assert entry.config is not None
        own = self.options.cluster
        field_owner = own.field_owner or operator.options.cluster.field_owner or operator.name
        cache = replace(own.cache, shard=entry.shard)
        if entry.namespace:
            cache = replace(cache, namespaces=[entry.namespace])
        options = replace(own, cache=cache, name=operator.name, field_owner=field_owner, cluster_name=entry.name)
        return Cluster(entry.config, options, scheme=operator.scheme, hook=operator.manager.hook)

    def _make_controllers(self, operator: Operator, cluster: Cluster) -> list[Controller]:
        """Return the controllers of a managed cluster, one for each declared reconciler."""
        controllers = []
        for declared in self._declared:
            options = declared.options.get("options") or self.options.controller
            # An unreachable cluster must not stop the operator.
            options = replace(options, sync_policy=options.sync_policy or SyncPolicy.RETRY)
            name = declared.options.get("name") or (declared.kind.name.lower() if declared.kind is not None else "")
            builder = ControllerBuilder[Any](
                cluster,
                name=f"{name}@{cluster.name}",
                options=options,
                hook=operator.manager.hook,
                journal=operator.journal,
            )
            if declared.kind is not None:
                builder.for_(declared.kind)
            controllers.append(declare(builder, declared.options, declared.target, source_argument=cluster).build())
        return controllers

    def __repr__(self) -> str:
        return f"<Fleet {self.options.name or self._operator.name}>"
