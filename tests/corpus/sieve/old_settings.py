"""Stale state: a standby leads with the settings of some minutes ago, and undoes what was done since.

What it deletes comes back when its view moves on, with other data. The twins ask the server before they delete.
"""

from __future__ import annotations

from functools import partial

from opsdk import Context, Operator
from opsdk.api.apps.v1 import StatefulSet
from opsdk.api.core.v1 import PersistentVolumeClaim, Pod, Secret, Service
from opsdk.api.policy.v1 import PodDisruptionBudget
from opsdk.builder.arguments import WatchSpec
from opsdk.client.patch import merge_patch
from opsdk.recipes import is_deleting
from opsdk.testing.simulate import World
from tests.corpus.case import CorpusCase, Study
from tests.corpus.sieve.kit import (
    CLUSTER_LABEL,
    FINALIZER,
    KEY,
    NAME,
    NAMESPACE,
    Cluster,
    assert_names,
    changing,
    claim,
    cluster_of,
    creating,
    disruption_budget,
    is_current,
    live_cluster,
    member,
    new_operator,
    secret,
    service,
    stateful_set,
)

CLAIMS = WatchSpec(kind=PersistentVolumeClaim, handler=cluster_of)
PODS = WatchSpec(kind=Pod, handler=cluster_of)


# ---------------------------------------------------------------- members and their claims
def cassandra_operator_407(*, repaired: bool) -> Operator:
    """Deletes the claim of a pod with a deletion timestamp, although the next pod of that name may use it."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, watches=[CLAIMS, PODS])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        for ordinal in range(cluster.spec.replicas):
            pod = await ctx.client.get_or_none(Pod, f"{NAME}-{ordinal}", namespace=NAMESPACE)
            if pod is None:
                pod = member(cluster, ordinal)
                pod.metadata.finalizers = [FINALIZER]
                pod = await ctx.client.create(pod)
            if not is_deleting(pod):
                await ctx.apply(claim(cluster, ordinal, labels={"pod-uid": pod.metadata.uid}), owner=None)
        for pod in await ctx.client.list(Pod, namespace=NAMESPACE, label_selector={CLUSTER_LABEL: NAME}):
            ordinal = int(pod.metadata.name.rpartition("-")[2])
            if is_deleting(pod):
                name = f"data-{pod.metadata.name}"
                existing = await ctx.client.get_or_none(PersistentVolumeClaim, name, namespace=NAMESPACE)
                if existing and (not repaired or existing.metadata.labels["pod-uid"] == pod.metadata.uid):
                    await ctx.client.delete(existing, missing_ok=True)
                await ctx.client.patch(pod, merge_patch({"metadata": {"uid": pod.metadata.uid, "finalizers": None}}))
            elif ordinal >= cluster.spec.replicas and await is_current(cluster, ctx):
                await ctx.client.delete(pod, uid=pod.metadata.uid, missing_ok=True)

    return operator


def elastic_operator_5274(*, repaired: bool) -> Operator:
    """Removes the members that an old number of nodes does not include."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, owns=[Pod])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        for ordinal in range(cluster.spec.replicas):
            await ctx.apply(member(cluster, ordinal))
        for pod in await ctx.client.list(Pod, namespace=NAMESPACE, label_selector={CLUSTER_LABEL: NAME}):
            surplus = int(pod.metadata.name.rpartition("-")[2]) >= cluster.spec.replicas
            if surplus and (not repaired or await is_current(cluster, ctx)):
                await ctx.client.delete(pod, missing_ok=True)

    return operator


def zookeeper_operator_314(*, repaired: bool) -> Operator:
    """Takes the claims above an old number of ready replicas for orphans."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, watches=[CLAIMS])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        for ordinal in range(cluster.spec.replicas):
            await ctx.apply(claim(cluster, ordinal), owner=None)
        if cluster.status is None or cluster.status.ready_replicas != cluster.spec.replicas:
            async with ctx.status(cluster) as patch:
                patch.status.ready_replicas = cluster.spec.replicas
            return
        claims = await ctx.client.list(PersistentVolumeClaim, namespace=NAMESPACE)
        orphans = [each for each in claims if int(each.metadata.name.rpartition("-")[2]) >= cluster.spec.replicas]
        if not repaired or (orphans and await is_current(cluster, ctx)):
            for each in orphans:
                await ctx.client.delete(each, missing_ok=True)

    return operator


async def pods_are_there(world: World) -> None:
    """The pods are those of the members."""
    cluster = await live_cluster(world)
    await assert_names(world, Pod, [f"{NAME}-{number}" for number in range(cluster.spec.replicas if cluster else 0)])


async def claims_are_there(world: World) -> None:
    """The claims are those of the members."""
    cluster = await live_cluster(world)
    count = cluster.spec.replicas if cluster else 0
    await assert_names(world, PersistentVolumeClaim, [f"data-{NAME}-{number}" for number in range(count)])


# ---------------------------------------------------------------- objects that are replaced
def casskop_321(*, repaired: bool) -> Operator:
    """Replaces the disruption budget when its number is not the one of an old cluster."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, owns=[PodDisruptionBudget])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        existing = await ctx.client.get_or_none(PodDisruptionBudget, KEY)
        if existing is not None and existing.spec.max_unavailable != cluster.spec.max_unavailable:
            if repaired and not await is_current(cluster, ctx):
                return
            await ctx.client.delete(existing, uid=existing.metadata.uid, missing_ok=True)
        await ctx.apply(disruption_budget(cluster))

    return operator


def rabbitmq_operator_653(*, repaired: bool) -> Operator:
    """Deletes the StatefulSet to resize its claims when the sizes differ, in whichever direction."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, owns=[StatefulSet], watches=[CLAIMS])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        desired = cluster.spec.storage
        existing = await ctx.client.get_or_none(StatefulSet, KEY)
        size = int(existing.metadata.annotations["storage"]) if existing else desired
        if repaired and desired < size:
            return  # claims never shrink, so this is an old cluster or a mistake
        if existing is not None and desired != size:
            await ctx.client.delete(existing, uid=existing.metadata.uid, missing_ok=True)
        await ctx.apply(claim(cluster, 0), owner=None)
        fresh = stateful_set(cluster)
        fresh.metadata.annotations["storage"] = str(desired)
        await ctx.apply(fresh)

    return operator


async def budget_is_current(world: World) -> None:
    """The disruption budget has the number of the cluster."""
    if (cluster := await live_cluster(world)) is not None:
        budget = await world.client.get_or_none(PodDisruptionBudget, KEY)
        assert budget is not None, "there is no disruption budget"
        assert budget.spec.max_unavailable == cluster.spec.max_unavailable, "the disruption budget is old"


async def stateful_set_is_there(world: World) -> None:
    """A cluster has its StatefulSet."""
    await assert_names(world, StatefulSet, [NAME] if await live_cluster(world) else [])


# ---------------------------------------------------------------- parts that were turned off
def mongodb_operator_433(*, repaired: bool) -> Operator:
    """Deletes the config servers and the router when an old cluster has no sharding."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, owns=[StatefulSet])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        for suffix in ("cfg", "mongos"):
            if cluster.spec.sharding:
                await ctx.apply(stateful_set(cluster, suffix))
            elif not repaired or await is_current(cluster, ctx):
                await ctx.client.delete(StatefulSet, f"{NAME}-{suffix}", namespace=NAMESPACE, missing_ok=True)

    return operator


def mongodb_operator_438(*, repaired: bool) -> Operator:
    """Deletes the arbiter that an old replica set does not have."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, owns=[StatefulSet])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        await ctx.apply(stateful_set(cluster, "rs0"))
        if cluster.spec.arbiter:
            await ctx.apply(stateful_set(cluster, "rs0-arbiter"))
            return
        existing = await ctx.client.get_or_none(StatefulSet, f"{NAME}-rs0-arbiter", namespace=NAMESPACE)
        if existing is not None and (not repaired or await is_current(cluster, ctx)):
            await ctx.client.delete(existing, uid=existing.metadata.uid, missing_ok=True)

    return operator


def _proxy_operator(suffix: str, *, repaired: bool, has_claims: bool) -> Operator:
    """Deletes a proxy, and its claims, when an old cluster does not enable it."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, owns=[StatefulSet, Service], watches=[CLAIMS])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        if cluster.spec.proxy:
            await ctx.apply(stateful_set(cluster, suffix))
            await ctx.apply(service(cluster, suffix, 3306))
            if has_claims:
                await ctx.apply(claim(cluster, 0), owner=None)
            return
        if repaired and not await is_current(cluster, ctx):
            return
        await ctx.client.delete(StatefulSet, f"{NAME}-{suffix}", namespace=NAMESPACE, missing_ok=True)
        await ctx.client.delete(Service, f"{NAME}-{suffix}", namespace=NAMESPACE, missing_ok=True)
        if has_claims:
            await ctx.client.delete(PersistentVolumeClaim, f"data-{NAME}-0", namespace=NAMESPACE, missing_ok=True)

    return operator


def yugabyte_operator_35(*, repaired: bool) -> Operator:
    """Deletes the certificates when an old cluster has no TLS."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, owns=[Secret])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        for suffix in ("master-tls", "tserver-tls"):
            existing = await ctx.client.get_or_none(Secret, f"{NAME}-{suffix}", namespace=NAMESPACE)
            if cluster.spec.tls and existing is None:
                await ctx.apply(secret(cluster, suffix))
            elif not cluster.spec.tls and existing and (not repaired or await is_current(cluster, ctx)):
                await ctx.client.delete(existing, missing_ok=True)

    return operator


def yugabyte_operator_36(*, repaired: bool) -> Operator:
    """Deletes the Service of the UI when an old cluster has no port for it."""
    operator = new_operator(elected=True)

    @operator.reconciler(Cluster, owns=[Service])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        existing = await ctx.client.get_or_none(Service, f"{NAME}-ui", namespace=NAMESPACE)
        if cluster.spec.ui_port > 0:
            await ctx.apply(service(cluster, "ui", cluster.spec.ui_port))
        elif existing is not None and (not repaired or await is_current(cluster, ctx)):
            await ctx.client.delete(existing, missing_ok=True)

    return operator


async def parts_are_there(world: World, kind: type[StatefulSet | Service | Secret], part: str, *names: str) -> None:
    """Raise AssertionError unless the objects of a part exist exactly if it is turned on."""
    cluster = await live_cluster(world)
    if cluster is None:
        return
    for name in names:
        existing = await world.client.get_or_none(kind, f"{NAME}-{name}", namespace=NAMESPACE)
        assert (existing is not None) == bool(getattr(cluster.spec, part)), f"{name} does not fit the cluster"


async def shards_are_there(world: World) -> None:
    """Config servers and router exist exactly with sharding."""
    await parts_are_there(world, StatefulSet, "sharding", "cfg", "mongos")


async def arbiter_is_there(world: World) -> None:
    """The arbiter exists exactly if it is turned on."""
    await parts_are_there(world, StatefulSet, "arbiter", "rs0-arbiter")


async def haproxy_is_there(world: World) -> None:
    """HAProxy exists exactly if it is turned on."""
    await parts_are_there(world, StatefulSet, "proxy", "haproxy")


async def proxysql_is_there(world: World) -> None:
    """ProxySQL exists exactly if it is turned on."""
    await parts_are_there(world, StatefulSet, "proxy", "proxysql")


async def certificates_are_there(world: World) -> None:
    """The certificates exist exactly with TLS."""
    await parts_are_there(world, Secret, "tls", "master-tls", "tserver-tls")


async def ui_is_there(world: World) -> None:
    """The Service of the UI exists exactly with a port."""
    await parts_are_there(world, Service, "ui_port", "ui")


_case = partial(CorpusCase, study=Study.SIEVE, pattern="stale state", kinds=[Cluster], replicas=2)
_two, _one_again = changing("scale_up", replicas=2), changing("scale_down", replicas=1)

CASES = [
    _case(
        name="cassandra-operator-407",
        report="https://github.com/instaclustr/cassandra-operator/issues/407",
        cause="It deletes the claim of a pod with a deletion timestamp, which the next pod of that name may use.",
        broken=partial(cassandra_operator_407, repaired=False),
        repaired=partial(cassandra_operator_407, repaired=True),
        actions=[creating(replicas=2), _one_again, _two],
        check=pods_are_there,
    ),
    _case(
        name="casskop-321",
        report="https://github.com/Orange-OpenSource/casskop/issues/321",
        cause="It replaces the disruption budget when its number is not the one of an old cluster.",
        broken=partial(casskop_321, repaired=False),
        repaired=partial(casskop_321, repaired=True),
        actions=[creating(max_unavailable=4), changing("reduce_budget", maxUnavailable=1)],
        check=budget_is_current,
    ),
    _case(
        name="elastic-operator-5274",
        report="https://github.com/elastic/cloud-on-k8s/issues/5274",
        cause="It removes the members that an old number of nodes does not include.",
        broken=partial(elastic_operator_5274, repaired=False),
        repaired=partial(elastic_operator_5274, repaired=True),
        actions=[creating(replicas=2), _one_again, _two],
        check=pods_are_there,
    ),
    _case(
        name="mongodb-operator-433",
        report="https://jira.percona.com/browse/K8SPSMDB-433",
        cause="It deletes config servers and router when an old cluster has no sharding.",
        broken=partial(mongodb_operator_433, repaired=False),
        repaired=partial(mongodb_operator_433, repaired=True),
        actions=[
            creating(sharding=True),
            changing("disable_sharding", sharding=False),
            changing("enable_sharding", sharding=True),
        ],
        check=shards_are_there,
    ),
    _case(
        name="mongodb-operator-438",
        report="https://jira.percona.com/browse/K8SPSMDB-438",
        cause="It deletes the arbiter that an old replica set does not have.",
        broken=partial(mongodb_operator_438, repaired=False),
        repaired=partial(mongodb_operator_438, repaired=True),
        actions=[
            creating(arbiter=True),
            changing("disable_arbiter", arbiter=False),
            changing("enable_arbiter", arbiter=True),
        ],
        check=arbiter_is_there,
    ),
    _case(
        name="rabbitmq-operator-653",
        report="https://github.com/rabbitmq/cluster-operator/issues/653",
        cause="It deletes the StatefulSet to resize claims when the sizes differ, in whichever direction.",
        broken=partial(rabbitmq_operator_653, repaired=False),
        repaired=partial(rabbitmq_operator_653, repaired=True),
        actions=[creating(storage=10), changing("expand", storage=15)],
        check=stateful_set_is_there,
    ),
    _case(
        name="xtradb-operator-725",
        report="https://jira.percona.com/browse/K8SPXC-725",
        cause="It deletes HAProxy when an old cluster does not enable it.",
        broken=partial(_proxy_operator, "haproxy", repaired=False, has_claims=False),
        repaired=partial(_proxy_operator, "haproxy", repaired=True, has_claims=False),
        actions=[
            creating(proxy=True),
            changing("disable_proxy", proxy=False),
            changing("enable_proxy", proxy=True),
        ],
        check=haproxy_is_there,
    ),
    _case(
        name="xtradb-operator-763",
        report="https://jira.percona.com/browse/K8SPXC-763",
        cause="It deletes ProxySQL and its claims when an old cluster does not enable it.",
        broken=partial(_proxy_operator, "proxysql", repaired=False, has_claims=True),
        repaired=partial(_proxy_operator, "proxysql", repaired=True, has_claims=True),
        actions=[
            creating(proxy=True),
            changing("disable_proxy", proxy=False),
            changing("enable_proxy", proxy=True),
        ],
        check=proxysql_is_there,
    ),
    _case(
        name="yugabyte-operator-35",
        report="https://github.com/yugabyte/yugabyte-operator/issues/35",
        cause="It deletes the certificates when an old cluster has no TLS.",
        broken=partial(yugabyte_operator_35, repaired=False),
        repaired=partial(yugabyte_operator_35, repaired=True),
        actions=[creating(tls=True), changing("disable_tls", tls=False), changing("enable_tls", tls=True)],
        check=certificates_are_there,
    ),
    _case(
        name="yugabyte-operator-36",
        report="https://github.com/yugabyte/yugabyte-operator/issues/36",
        cause="It deletes the Service of the UI when an old cluster has no port for it.",
        broken=partial(yugabyte_operator_36, repaired=False),
        repaired=partial(yugabyte_operator_36, repaired=True),
        actions=[creating(ui_port=7000), changing("disable_ui", uiPort=-1), changing("enable_ui", uiPort=9000)],
        check=ui_is_there,
    ),
    _case(
        name="zookeeper-operator-314",
        report="https://github.com/pravega/zookeeper-operator/issues/314",
        cause="It takes the claims above an old number of ready replicas for orphans.",
        broken=partial(zookeeper_operator_314, repaired=False),
        repaired=partial(zookeeper_operator_314, repaired=True),
        actions=[creating(replicas=2), _one_again, _two],
        check=claims_are_there,
    ),
]
