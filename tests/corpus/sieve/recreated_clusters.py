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
from tests.corpus.case import CorpusCase, Study
from tests.corpus.sieve.kit import (
    CLUSTER_LABEL,
    FINALIZER,
    KEY,
    NAME,
    NAMESPACE,
    UID_LABEL,
    Cluster,
    assert_names,
    claim,
    cluster_of,
    creating,
    delete_cluster,
    live_cluster,
    new_operator,
    secret,
    stateful_set,
)

CREATE = creating(replicas=2)

CLAIMS = WatchSpec(kind=PersistentVolumeClaim, handler=cluster_of)


async def apply_claims(cluster: Cluster, ctx: Context) -> None:
    """Give each member its claim."""
    for ordinal in range(cluster.spec.replicas):
        await ctx.apply(claim(cluster, ordinal), owner=None)


async def members_have_claims(world: World) -> None:
    """The claims are those of the members; without a cluster there are none."""
    cluster = await live_cluster(world)
    count = cluster.spec.replicas if cluster else 0
    await assert_names(world, PersistentVolumeClaim, [f"data-{NAME}-{ordinal}" for ordinal in range(count)])


# ---------------------------------------------------------------- claims by label, or by name
def cass_operator_559(*, repaired: bool) -> Operator:
    """Lists the claims to delete by the label with the name of the cluster."""
    operator = new_operator(elected=True)

    async def clean_up(cluster: Cluster, ctx: Context) -> None:
        labels = {CLUSTER_LABEL: cluster.metadata.name}
        if repaired:
            labels[UID_LABEL] = cluster.metadata.uid
        for each in await ctx.client.list(PersistentVolumeClaim, namespace=NAMESPACE, label_selector=labels):
            await ctx.client.delete(each, missing_ok=True)

    operator.reconciler(Cluster, watches=[CLAIMS], finalizers={FINALIZER: clean_up})(apply_claims)
    return operator


def cassandra_operator_402(*, repaired: bool) -> Operator:
    """Lists the claims to delete by labels for cluster and datacenter, which the next cluster has too."""
    operator = new_operator(elected=True)

    async def clean_up(cluster: Cluster, ctx: Context) -> None:
        selected = {CLUSTER_LABEL: NAME, "datacenter": "dc1"}
        for each in await ctx.client.list(PersistentVolumeClaim, namespace=NAMESPACE, label_selector=selected):
            if not repaired or each.metadata.labels[UID_LABEL] == cluster.metadata.uid:
                await ctx.client.delete(each, missing_ok=True)

    @operator.reconciler(Cluster, watches=[CLAIMS], finalizers={FINALIZER: clean_up})
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        for ordinal in range(cluster.spec.replicas):
            await ctx.apply(claim(cluster, ordinal, labels={"datacenter": "dc1"}), owner=None)

    return operator


def casskop_316(*, repaired: bool) -> Operator:
    """Builds the names of the claims to delete from cluster, datacenter and rack."""
    operator = new_operator(elected=True)

    async def clean_up(cluster: Cluster, ctx: Context) -> None:
        for ordinal in range(cluster.spec.replicas):
            name = f"data-{NAME}-{ordinal}"
            existing = await ctx.client.get_or_none(PersistentVolumeClaim, name, namespace=NAMESPACE)
            if existing is None or (repaired and existing.metadata.labels[UID_LABEL] != cluster.metadata.uid):
                continue
            await ctx.client.delete(existing, missing_ok=True)

    operator.reconciler(Cluster, watches=[CLAIMS], finalizers={FINALIZER: clean_up})(apply_claims)
    return operator


def zookeeper_operator_312(*, repaired: bool) -> Operator:
    """Lists all claims of a name, and deletes each by its name alone."""
    operator = new_operator(elected=True)

    async def clean_up(cluster: Cluster, ctx: Context) -> None:
        claims = await ctx.client.list(PersistentVolumeClaim, namespace=NAMESPACE, label_selector={CLUSTER_LABEL: NAME})
        for each in claims:
            if repaired and each.metadata.labels[UID_LABEL] != cluster.metadata.uid:
                continue
            await ctx.client.delete(PersistentVolumeClaim, each.metadata.name, namespace=NAMESPACE, missing_ok=True)

    operator.reconciler(Cluster, watches=[CLAIMS], finalizers={FINALIZER: clean_up})(apply_claims)
    return operator


# ---------------------------------------------------------------- StatefulSets, and their claims
def rabbitmq_operator_648(*, repaired: bool) -> Operator:
    """Deletes the StatefulSet of the cluster's name before it lets the cluster go."""
    operator = new_operator(elected=True)

    async def prepare_for_deletion(cluster: Cluster, ctx: Context) -> None:
        existing = await ctx.client.get_or_none(StatefulSet, KEY)
        if existing is not None and (not repaired or is_controlled_by(cluster, existing)):
            await ctx.client.delete(existing, missing_ok=True)

    @operator.reconciler(Cluster, owns=[StatefulSet], finalizers={FINALIZER: prepare_for_deletion})
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        await ctx.apply(stateful_set(cluster, replicas=cluster.spec.replicas))

    return operator


def mongodb_operator_430(*, repaired: bool) -> Operator:
    """Deletes the StatefulSet of a replica set and then its claims, all by their names."""
    operator = new_operator(elected=True)

    async def delete_volumes(cluster: Cluster, ctx: Context) -> None:
        existing = await ctx.client.get_or_none(StatefulSet, f"{NAME}-rs0", namespace=NAMESPACE)
        if repaired and existing is not None and not is_controlled_by(cluster, existing):
            return
        if existing is not None:
            await ctx.client.delete(existing, missing_ok=True)
        for each in await ctx.client.list(PersistentVolumeClaim, namespace=NAMESPACE):
            if not repaired or each.metadata.labels[UID_LABEL] == cluster.metadata.uid:
                await ctx.client.delete(each, missing_ok=True)

    @operator.reconciler(Cluster, owns=[StatefulSet], watches=[CLAIMS], finalizers={FINALIZER: delete_volumes})
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        await ctx.apply(stateful_set(cluster, "rs0", replicas=cluster.spec.replicas))
        await apply_claims(cluster, ctx)

    return operator


def xtradb_operator_716(*, repaired: bool) -> Operator:
    """Does not look at the owner of the StatefulSet whose claims it deletes."""
    operator = new_operator(elected=True)

    async def delete_claims(cluster: Cluster, ctx: Context) -> None:
        existing = await ctx.client.get_or_none(StatefulSet, f"{NAME}-pxc", namespace=NAMESPACE)
        if existing is None or (repaired and not is_controlled_by(cluster, existing)):
            return
        labels = {CLUSTER_LABEL: NAME}
        for each in await ctx.client.list(PersistentVolumeClaim, namespace=NAMESPACE, label_selector=labels):
            await ctx.client.delete(each, missing_ok=True)

    @operator.reconciler(Cluster, owns=[StatefulSet], watches=[CLAIMS], finalizers={FINALIZER: delete_claims})
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        await ctx.apply(stateful_set(cluster, "pxc", replicas=cluster.spec.replicas))
        await apply_claims(cluster, ctx)

    return operator


async def stateful_set_is_there(world: World) -> None:
    """A cluster has its StatefulSet."""
    await assert_names(world, StatefulSet, [NAME] if await live_cluster(world) else [])


# ---------------------------------------------------------------- Secrets of a cluster that seems to be gone
def elastic_operator_5249(*, repaired: bool) -> Operator:
    """Deletes the Secrets without an owner reference when the cache does not have their cluster."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, watches=[WatchSpec(kind=Secret, handler=cluster_of)])
    async def reconcile(request: Request, ctx: Context) -> None:
        cluster = await ctx.client.get_or_none(Cluster, request.key)
        if cluster is not None:
            for suffix in ("elastic-user", "http-certs-public", "transport-certs-public"):
                await ctx.apply(secret(cluster, suffix), owner=None)
        elif not repaired or await ctx.client.get_or_none(Cluster, request.key, uncached=True) is None:
            for each in await ctx.client.list(Secret, namespace=NAMESPACE, label_selector={CLUSTER_LABEL: NAME}):
                await ctx.client.delete(each, missing_ok=True)

    return operator


async def secrets_are_there(world: World) -> None:
    """A cluster has its Secrets; without it there are none."""
    suffixes = ("elastic-user", "http-certs-public", "transport-certs-public") if await live_cluster(world) else ()
    await assert_names(world, Secret, [f"{NAME}-{suffix}" for suffix in suffixes])


_case = partial(
    CorpusCase,
    study=Study.SIEVE,
    pattern="stale state",
    kinds=[Cluster],
    actions=[CREATE, delete_cluster, CREATE],
    check=members_have_claims,
    replicas=2,
)

CASES = [
    _case(
        name="cass-operator-559",
        report="https://github.com/datastax/cass-operator/issues/412",
        cause="It lists the claims to delete by the name of the cluster, not by its uid.",
        broken=partial(cass_operator_559, repaired=False),
        repaired=partial(cass_operator_559, repaired=True),
    ),
    _case(
        name="cassandra-operator-402",
        report="https://github.com/instaclustr/cassandra-operator/issues/402",
        cause="It lists the claims to delete by labels that the next cluster has too.",
        broken=partial(cassandra_operator_402, repaired=False),
        repaired=partial(cassandra_operator_402, repaired=True),
    ),
    _case(
        name="casskop-316",
        report="https://github.com/Orange-OpenSource/casskop/issues/316",
        cause="It builds the names of the claims to delete, and does not compare the uid.",
        broken=partial(casskop_316, repaired=False),
        repaired=partial(casskop_316, repaired=True),
    ),
    _case(
        name="elastic-operator-5249",
        report="https://github.com/elastic/cloud-on-k8s/issues/5249",
        cause="It deletes Secrets without an owner reference when its cache does not have their cluster.",
        broken=partial(elastic_operator_5249, repaired=False),
        repaired=partial(elastic_operator_5249, repaired=True),
        check=secrets_are_there,
    ),
    _case(
        name="mongodb-operator-430",
        report="https://jira.percona.com/browse/K8SPSMDB-430",
        cause="It deletes a StatefulSet and its claims by name when a cluster of that name was deleted before.",
        broken=partial(mongodb_operator_430, repaired=False),
        repaired=partial(mongodb_operator_430, repaired=True),
    ),
    _case(
        name="rabbitmq-operator-648",
        report="https://github.com/rabbitmq/cluster-operator/issues/648",
        cause="It deletes the StatefulSet of the cluster's name, whose owner may be another cluster.",
        broken=partial(rabbitmq_operator_648, repaired=False),
        repaired=partial(rabbitmq_operator_648, repaired=True),
        check=stateful_set_is_there,
    ),
    _case(
        name="xtradb-operator-716",
        report="https://jira.percona.com/browse/K8SPXC-716",
        cause="It deletes the claims of a StatefulSet without a look at the owner.",
        broken=partial(xtradb_operator_716, repaired=False),
        repaired=partial(xtradb_operator_716, repaired=True),
    ),
    _case(
        name="zookeeper-operator-312",
        report="https://github.com/pravega/zookeeper-operator/issues/312",
        cause="It deletes the claims of the cluster's name when a cluster of that name was deleted before.",
        broken=partial(zookeeper_operator_312, repaired=False),
        repaired=partial(zookeeper_operator_312, repaired=True),
    ),
]
