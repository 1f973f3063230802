"""Many clusters and many replicas: ownership of clusters and shards by replicas, and providers of clusters.

Here belong ownership by leases, providers of clusters, the controllers of managed clusters, and the sharding of one
cluster. Not here: leader election of one replica (`opsdk.leader_election`), what one cluster needs (`opsdk.cluster`).

The names are imported when they are first used. Type checkers read ``__init__.pyi``.
"""

from opsdk.loading import names_on_first_use

_HOMES = {
    "fleet": (
        "ControllerClass",
        "Fleet",
        "FleetOptions",
    ),
    "managed_cluster": (
        "ClusterReason",
        "ProbeOptions",
    ),
    "object_provider": (
        "KubeconfigSecrets",
        "ObjectClusters",
        "ResourceClusters",
    ),
    "ownership": ("Ownership",),
    "ownership_rules": ("OwnershipOptions",),
    "provider": (
        "ClusterEntry",
        "ClusterProvider",
        "KubeconfigDirectory",
        "StaticClusters",
    ),
    "sharding": (
        "HashShards",
        "NamespaceShards",
        "ShardField",
    ),
    "shard_runner": ("ShardRunnable",),
}

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


__getattr__ = names_on_first_use(globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
