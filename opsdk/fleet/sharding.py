"""Shards of the operator's own cluster: all replicas are active, each for its share of the objects.

A shard is handled like a managed cluster: it has an owner, its own cache, and controllers behind its fence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from opsdk.api.core.v1 import Namespace
from opsdk.cache.shard import ShardField, split_ranges
from opsdk.cluster.cluster import Cluster
from opsdk.fleet.object_provider import ObjectClusters
from opsdk.fleet.provider import ClusterEntry, ClusterProvider, Clusters
from opsdk.rbac.rules import RbacRule
from opsdk.rest.config import RestConfig


class HashShards(ClusterProvider):
    """A fixed number of shards by the hash of namespace or uid.

    A server with the feature gate ShardedListAndWatch sends each shard only its objects. Any other server sends all
    objects to each shard, and the client drops the rest before it stores anything: memory is divided between the
    replicas, but traffic is not. `NamespaceShards` divide both.

    Args:
        count: number of shards, the same on every replica; several for each replica, so that they spread evenly.
            Another count splits objects differently: stop all replicas before changing it.
        field: the hashed field. With NAMESPACE, an object and its dependents are in one shard; see its caveat.
    """

    def __init__(self, count: int = 16, *, field: ShardField = ShardField.UID) -> None:
        self.ranges = split_ranges(count, field)

    async def start(self, management: Cluster, on_change: Callable[[Clusters], None]) -> None:
        names = [f"shard-{number}-of-{len(self.ranges)}" for number in range(len(self.ranges))]
        on_change(
            {
                name: ClusterEntry(name=name, config=management.config, shard=shard)
                for name, shard in zip(names, self.ranges, strict=True)
            }
        )
        await asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"<HashShards {len(self.ranges)} by {self.ranges[0].field.value}>"


class NamespaceShards(ObjectClusters[Namespace]):
    """One shard for each namespace. The server sends each shard only its namespace.

    Every shard has all cluster-scoped objects: reconcile them with another controller class.

    Args:
        label_selector: of the namespaces; empty for all.
    """

    def __init__(self, *, label_selector: str = "") -> None:
        super().__init__(Namespace, label_selector=label_selector)
        self.rules = (RbacRule("get list watch", Namespace),)

    async def config_of(self, obj: Namespace, management: Cluster) -> RestConfig:
        return management.config

    def namespace_of(self, obj: Namespace) -> str:
        return obj.metadata.name
