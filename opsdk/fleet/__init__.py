"""Many clusters and many replicas: which replica works for which cluster or shard, and where clusters come from.

Here belong ownership by leases, providers of clusters, the controllers of managed clusters, and the sharding of one
cluster.
Not here: leader election of one replica (`opsdk.leader_election`), and what one cluster needs (`opsdk.cluster`).
"""
