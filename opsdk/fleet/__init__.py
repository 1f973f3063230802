"""Many clusters and many replicas: ownership of clusters and shards by replicas, and providers of clusters.

This package has ownership by leases, providers of clusters, the controllers of managed clusters, and the sharding of
one cluster. Leader election is in `opsdk.manager.leader_election`, the parts of one cluster in `opsdk.cluster`.
"""

from opsdk.cache.shard import ShardField
from opsdk.fleet.fleet import ControllerClass, Fleet, FleetOptions
from opsdk.fleet.managed_cluster import ClusterReason, ProbeOptions
from opsdk.fleet.object_provider import KubeconfigSecrets, ObjectClusters, ResourceClusters
from opsdk.fleet.ownership import Ownership
from opsdk.fleet.ownership_rules import OwnershipOptions
from opsdk.fleet.provider import ClusterEntry, ClusterProvider, KubeconfigDirectory, StaticClusters
from opsdk.fleet.shard_runner import ShardRunnable
from opsdk.fleet.sharding import HashShards, NamespaceShards

__all__ = [
    "ClusterEntry",
    "ClusterProvider",
    "ClusterReason",
    "ControllerClass",
    "Fleet",
    "FleetOptions",
    "HashShards",
    "KubeconfigDirectory",
    "KubeconfigSecrets",
    "NamespaceShards",
    "ObjectClusters",
    "Ownership",
    "OwnershipOptions",
    "ProbeOptions",
    "ResourceClusters",
    "ShardField",
    "ShardRunnable",
    "StaticClusters",
]
