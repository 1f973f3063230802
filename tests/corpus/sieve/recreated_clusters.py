"""Stale state: a standby leads with the view of a cluster that was deleted, while another one has its name.

Each operator deletes what it finds by name or label. Its twin compares the uid.
"""

from __future__ import annotations

from functools import partial

from opsdk import Context, Operator, Request
from opsdk.api.apps.v1 import StatefulSet
from opsdk.api.core.v1 import PersistentVolumeClaim, Secret
from opsdk.builder.arguments import WatchSpec
from opsdk.recipes import is_controlled_by
from opsdk.testing.simulate import World
from tests.corpus.sieve.kit import (
    CLAIMS,
    CLUSTER_LABEL,
    NAME,
    UID_LABEL,
    Cluster,
    assert_names,
    child,
    children,
    claim_of,
    claims_are_there,
    cleaned_up,
    cluster_of,
    cluster_with,
    creating,
    delete_cluster,
    is_current,
    key_of,
    live_cluster,
    members,
    new_operator,
    secret,
    sieve_case,
    stateful_set_is_there,
)

CREATE = creating(replicas=2)


# ---------------------------------------------------------------- claims by label, or by name
@cleaned_up(members(), watches=[CLAIMS], settings=["replicas", "storage"])
async def cass_operator_559(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Lists the claims to delete by the label with the name of the cluster."""
    labels = {UID_LABEL: cluster.metadata.uid} if repaired else {}
    for each in await children(cluster, ctx, PersistentVolumeClaim, **labels):
        await ctx.client.delete(each, missing_ok=True)


@cleaned_up(members(labels={"datacenter": "dc1"}), watches=[CLAIMS], settings=["replicas", "storage"])
async def cassandra_operator_402(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Lists the claims to delete by labels for cluster and datacenter, which the next cluster has too."""
    for each in await children(cluster, ctx, PersistentVolumeClaim, datacenter="dc1"):
        if not repaired or each.metadata.labels[UID_LABEL] == cluster.metadata.uid:
            await ctx.client.delete(each, missing_ok=True)


@cleaned_up(members(), watches=[CLAIMS], settings=["replicas", "storage"])
async def casskop_316(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Builds the names of the claims to delete from cluster, datacenter and rack."""
    for ordinal in range(cluster.spec.replicas):
        existing = await claim_of(cluster, ctx, ordinal)
        if existing is None or (repaired and existing.metadata.labels[UID_LABEL] != cluster.metadata.uid):
            continue
        await ctx.client.delete(existing, missing_ok=True)


@cleaned_up(members(), watches=[CLAIMS], settings=["replicas", "storage"])
async def zookeeper_operator_312(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Lists all claims of a name, and deletes each by its name alone."""
    claims = await children(cluster, ctx, PersistentVolumeClaim)
    for each in claims:
        if repaired and each.metadata.labels[UID_LABEL] != cluster.metadata.uid:
            continue
        await ctx.client.delete(
            PersistentVolumeClaim, each.metadata.name, namespace=cluster.metadata.namespace, missing_ok=True
        )


# ---------------------------------------------------------------- StatefulSets, and their claims
@cleaned_up(members("", has_claims=False), owns=[StatefulSet], settings=["replicas"])
async def rabbitmq_operator_648(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the StatefulSet of the cluster's name before it lets the cluster go."""
    existing = await ctx.client.get_or_none(StatefulSet, key_of(cluster))
    if existing is not None and (not repaired or is_controlled_by(cluster, existing)):
        await ctx.client.delete(existing, missing_ok=True)


@cleaned_up(members("rs0"), owns=[StatefulSet], watches=[CLAIMS], settings=["replicas", "storage"])
async def mongodb_operator_430(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the StatefulSet of a replica set and then its claims, all by their names."""
    existing = await child(cluster, ctx, StatefulSet, "rs0")
    if repaired and existing is not None and not is_controlled_by(cluster, existing):
        return
    if existing is not None:
        await ctx.client.delete(existing, missing_ok=True)
    for each in await children(cluster, ctx, PersistentVolumeClaim):
        if not repaired or each.metadata.labels[UID_LABEL] == cluster.metadata.uid:
            await ctx.client.delete(each, missing_ok=True)


@cleaned_up(members("pxc"), owns=[StatefulSet], watches=[CLAIMS], settings=["replicas", "storage"])
async def xtradb_operator_716(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Does not look at the owner of the StatefulSet whose claims it deletes."""
    existing = await child(cluster, ctx, StatefulSet, "pxc")
    if existing is None or (repaired and not is_controlled_by(cluster, existing)):
        return
    for each in await children(cluster, ctx, PersistentVolumeClaim):
        await ctx.client.delete(each, missing_ok=True)


# ---------------------------------------------------------------- Secrets of a cluster that seems to be gone
def elastic_operator_5249(*, repaired: bool) -> Operator:
    """Deletes the Secrets without an owner reference when the cache does not have their cluster.

    The twin created them again for a cluster that an old view still had, and `verify` was right to report it.
    """
    operator = new_operator(elected=True)

    kind = cluster_with()

    @operator.reconciler(kind, watches=[WatchSpec(kind=Secret, handler=cluster_of)])
    async def reconcile(request: Request, ctx: Context) -> None:
        cluster = await ctx.client.get_or_none(kind, request.key)
        if cluster is not None:
            if repaired and not await is_current(cluster, ctx):
                return
            for suffix in ("elastic-user", "http-certs-public", "transport-certs-public"):
                await ctx.apply(secret(cluster, suffix), owner=None)
        elif not repaired or await ctx.client.get_or_none(kind, request.key, uncached=True) is None:
            selector = {CLUSTER_LABEL: request.name}
            for each in await ctx.client.list(Secret, namespace=request.namespace, label_selector=selector):
                await ctx.client.delete(each, missing_ok=True)

    return operator


async def secrets_are_there(world: World) -> None:
    """A cluster has its Secrets; without it there are none."""
    suffixes = ("elastic-user", "http-certs-public", "transport-certs-public") if await live_cluster(world) else ()
    await assert_names(world, Secret, [f"{NAME}-{suffix}" for suffix in suffixes])


_case = partial(
    sieve_case,
    pattern="stale state",
    actions=[CREATE, delete_cluster, CREATE],
    check=claims_are_there,
    replicas=2,
)

CASES = [
    _case(
        name="cass-operator-559",
        report="https://github.com/datastax/cass-operator/issues/412",
        cause="It lists the claims to delete by the name of the cluster, not by its uid.",
        operator=cass_operator_559,
    ),
    _case(
        name="cassandra-operator-402",
        report="https://github.com/instaclustr/cassandra-operator/issues/402",
        cause="It lists the claims to delete by labels that the next cluster has too.",
        operator=cassandra_operator_402,
    ),
    _case(
        name="casskop-316",
        report="https://github.com/Orange-OpenSource/casskop/issues/316",
        cause="It builds the names of the claims to delete, and does not compare the uid.",
        operator=casskop_316,
    ),
    _case(
        name="elastic-operator-5249",
        report="https://github.com/elastic/cloud-on-k8s/issues/5249",
        cause="It deletes Secrets without an owner reference when its cache does not have their cluster.",
        operator=elastic_operator_5249,
        check=secrets_are_there,
    ),
    _case(
        name="mongodb-operator-430",
        report="https://jira.percona.com/browse/K8SPSMDB-430",
        cause="It deletes a StatefulSet and its claims by name when a cluster of that name was deleted before.",
        operator=mongodb_operator_430,
    ),
    _case(
        name="rabbitmq-operator-648",
        report="https://github.com/rabbitmq/cluster-operator/issues/648",
        cause="It deletes the StatefulSet of the cluster's name, whose owner may be another cluster.",
        operator=rabbitmq_operator_648,
        check=stateful_set_is_there,
    ),
    _case(
        name="xtradb-operator-716",
        report="https://jira.percona.com/browse/K8SPXC-716",
        cause="It deletes the claims of a StatefulSet without a look at the owner.",
        operator=xtradb_operator_716,
    ),
    _case(
        name="zookeeper-operator-312",
        report="https://github.com/pravega/zookeeper-operator/issues/312",
        cause="It deletes the claims of the cluster's name when a cluster of that name was deleted before.",
        operator=zookeeper_operator_312,
    ),
]
