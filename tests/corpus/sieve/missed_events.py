"""Unobserved state: an operator whose result depends on each state that it saw, and that misses one of them.

The twins compute their result from the last state alone. Claims have an owner: without one, those of removed members
stayed if the cluster was deleted at once.
"""

from __future__ import annotations

from functools import partial

from opsdk import Context
from opsdk.api.apps.v1 import StatefulSet
from opsdk.api.core.v1 import Binding, ConfigMap, ObjectReference, PersistentVolumeClaim, Pod
from opsdk.client.patch import merge_patch
from opsdk.errors import TemporaryError
from opsdk.recipes import is_deleting
from opsdk.testing.simulate import World
from tests.corpus.sieve.kit import (
    CLAIMS,
    KEY,
    NAMESPACE,
    Cluster,
    assert_names,
    changing,
    child,
    children,
    claim,
    claim_of,
    config_map,
    creating,
    key_of,
    live_cluster,
    member,
    ordinal_of,
    reconciled,
    remove_claims,
    sieve_case,
    stateful_set,
)


# ---------------------------------------------------------------- a deletion that is never seen
@reconciled(owns=[Pod], watches=[CLAIMS], settings=["replicas", "storage"])
async def cassandra_operator_398(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the claim of a pod while it sees the pod's deletion timestamp. The pod may be gone before.

    The twin had a finalizer on its pods that nothing removed, and `verify` was right to report it.
    """
    for ordinal in range(cluster.spec.replicas):
        await ctx.apply(member(cluster, ordinal))
        await ctx.apply(claim(cluster, ordinal))
    for pod in await children(cluster, ctx, Pod):
        existing = await claim_of(cluster, ctx, ordinal_of(pod)) if is_deleting(pod) and not repaired else None
        if existing is not None:
            await ctx.client.delete(existing, missing_ok=True)
        if ordinal_of(pod) >= cluster.spec.replicas and not is_deleting(pod):
            await ctx.client.delete(pod, missing_ok=True)
    if repaired:
        await remove_claims(cluster, ctx, cluster.spec.replicas)


async def schedule(world: World) -> None:
    """Bind the pods to a node, as the scheduler does: from then on they are deleted gracefully."""
    for pod in await world.client.list(Pod, namespace=NAMESPACE):
        if not pod.spec.node_name:
            await world.client.subresource("binding").create(pod, Binding(target=ObjectReference(name="node")))


async def drain(world: World) -> None:
    """Let the pods go that are being deleted, as a kubelet does when their containers have ended."""
    for pod in await world.client.list(Pod, namespace=NAMESPACE):
        if is_deleting(pod):
            await world.client.delete(pod, grace_period_seconds=0, missing_ok=True)


# ---------------------------------------------------------------- sizes that depend on earlier sizes
@reconciled(owns=[StatefulSet], settings=["replicas"])
async def casskop_342(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Ignores a size of zero, and keeps the size that it saw last."""
    replicas = cluster.spec.replicas
    if replicas == 0:
        if not repaired:
            return
        replicas = 1
    await ctx.apply(stateful_set(cluster, replicas=replicas))


@reconciled(owns=[StatefulSet], watches=[CLAIMS], settings=["replicas", "storage"])
async def _growing_operator(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Creates claims when members are added, and does not look at them again when members are removed."""
    await ctx.apply(stateful_set(cluster, "pxc", replicas=cluster.spec.replicas))
    for ordinal in range(cluster.spec.replicas):
        await ctx.apply(claim(cluster, ordinal))
    if repaired:
        await remove_claims(cluster, ctx, cluster.spec.replicas)


@reconciled(owns=[StatefulSet], watches=[CLAIMS], settings=["replicas", "arbiter", "storage"])
async def mongodb_operator_585(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Adds a member where an even number has no arbiter, and keeps its claim when the arbiter is back."""
    size = cluster.spec.replicas
    if size % 2 == 0 and not cluster.spec.arbiter:
        size += 1
    await ctx.apply(stateful_set(cluster, "rs0", replicas=size))
    for ordinal in range(size):
        await ctx.apply(claim(cluster, ordinal))
    if repaired:
        await remove_claims(cluster, ctx, size)


@reconciled(owns=[StatefulSet], settings=["replicas"])
async def rabbitmq_operator_758(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Refuses to remove members, compared with the StatefulSet and not with the spec before."""
    existing = await ctx.client.get_or_none(StatefulSet, key_of(cluster))
    if existing is not None and cluster.spec.replicas < (existing.spec.replicas or 0) and not repaired:
        return
    await ctx.apply(stateful_set(cluster, replicas=cluster.spec.replicas))


@reconciled(owns=[StatefulSet], settings=["replicas", "replication_factor"])
async def yugabyte_operator_39(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Refuses fewer tablet servers than the replication factor, and keeps those that there are."""
    replicas, least = cluster.spec.replicas, cluster.spec.replication_factor
    existing = await child(cluster, ctx, StatefulSet, "tserver")
    if repaired:
        replicas = max(replicas, least)
    elif existing is not None and replicas < least:
        return
    await ctx.apply(stateful_set(cluster, "tserver", replicas=replicas))


# ---------------------------------------------------------------- a step that is due at one moment only
@reconciled(owns=[StatefulSet, ConfigMap], settings=["replicas"])
async def zookeeper_operator_453(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Creates the node with the size when all members are ready, and needs it for each later change of the size."""
    existing = await ctx.client.get_or_none(StatefulSet, key_of(cluster))
    node = await child(cluster, ctx, ConfigMap, "znode")
    if existing is not None and existing.spec.replicas != cluster.spec.replicas:
        if node is None and not repaired:
            raise TemporaryError("there is no node for the size of the cluster", delay=30)
        await ctx.apply(config_map(cluster, "znode", size=str(cluster.spec.replicas)))
    await ctx.apply(stateful_set(cluster, replicas=cluster.spec.replicas))
    ready = (existing.status.ready_replicas or 0) if existing is not None else 0
    if ready == cluster.spec.replicas and node is None:
        await ctx.apply(config_map(cluster, "znode", size=str(cluster.spec.replicas)))


async def become_ready(world: World) -> None:
    """Report all members of the StatefulSet as ready, as its controller does."""
    if (existing := await world.client.get_or_none(StatefulSet, KEY)) is not None:
        status = {"replicas": existing.spec.replicas, "readyReplicas": existing.spec.replicas}
        await world.client.status().patch(existing, merge_patch({"status": status}))


# ---------------------------------------------------------------- checks
async def claims_fit_pods(world: World) -> None:
    """Each pod has a claim, and each claim a pod."""
    pods = await world.client.list(Pod, namespace=NAMESPACE)
    await assert_names(world, PersistentVolumeClaim, [f"data-{p.metadata.name}" for p in pods if not is_deleting(p)])


async def members_are_there(world: World) -> None:
    """A cluster has its StatefulSet."""
    if await live_cluster(world):
        sets = await world.client.list(StatefulSet, namespace=NAMESPACE)
        assert sets, "there is no StatefulSet"


async def size_is_current(world: World) -> None:
    """The StatefulSet has the size of the cluster."""
    cluster, existing = await live_cluster(world), await world.client.get_or_none(StatefulSet, KEY)
    if cluster is not None:
        assert existing is not None, "there is no StatefulSet"
        assert existing.spec.replicas == cluster.spec.replicas, "the StatefulSet has an old size"


_case = partial(sieve_case, pattern="unobserved state", check=members_are_there)

CASES = [
    _case(
        name="cassandra-operator-398",
        report="https://github.com/instaclustr/cassandra-operator/issues/398",
        cause="It deletes a claim only while it sees the deletion timestamp of the pod.",
        operator=cassandra_operator_398,
        actions=[creating(replicas=2), schedule, changing("scale_down", replicas=1), drain],
        check=claims_fit_pods,
    ),
    _case(
        name="casskop-342",
        report="https://github.com/Orange-OpenSource/casskop/issues/342",
        cause="It ignores a size of zero, and keeps the size that it saw last.",
        operator=casskop_342,
        actions=[creating(replicas=2), changing("one", replicas=1), changing("none", replicas=0)],
    ),
    _case(
        name="mongodb-operator-585",
        report="https://jira.percona.com/browse/K8SPSMDB-585",
        cause="It adds a member while there is no arbiter. The claim of this member stays when the arbiter is back.",
        operator=mongodb_operator_585,
        actions=[
            creating(replicas=4, arbiter=True),
            changing("disable_arbiter", arbiter=False),
            changing("enable_arbiter", arbiter=True),
        ],
    ),
    _case(
        name="rabbitmq-operator-758",
        report="https://github.com/rabbitmq/cluster-operator/issues/758",
        cause="It refuses to remove members, compared with the present ones.",
        operator=rabbitmq_operator_758,
        actions=[creating(replicas=1), changing("three", replicas=3), changing("two", replicas=2)],
    ),
    _case(
        name="xtradb-operator-918",
        report="https://jira.percona.com/browse/K8SPXC-918",
        cause="Claims of removed members stay, so they depend on each size that it saw.",
        operator=_growing_operator,
        actions=[creating(replicas=3), changing("five", replicas=5), changing("three", replicas=3)],
    ),
    _case(
        name="yugabyte-operator-39",
        report="https://github.com/yugabyte/yugabyte-operator/issues/39",
        cause="It refuses fewer servers than the replication factor, and keeps the present ones.",
        operator=yugabyte_operator_39,
        actions=[
            creating(replicas=3, replication_factor=3),
            changing("four", replicas=4, replicationFactor=4),
            changing("three", replicas=3),
        ],
    ),
    _case(
        name="zookeeper-operator-453",
        report="https://github.com/pravega/zookeeper-operator/issues/453",
        cause="It creates the node only while all members are ready, and cannot change the size without the node.",
        operator=zookeeper_operator_453,
        actions=[creating(replicas=3), become_ready, changing("two", replicas=2), become_ready],
        check=size_is_current,
    ),
]
