"""Stale state: a standby leads with the settings of some minutes ago, and undoes what was done since.

What it deletes comes back when its view moves on, with other data. The twins ask the server before they delete, and
before they create a part that may be turned off. Without that, a new leader started such parts again for a while, and
`verify` was right to report it.
"""

from __future__ import annotations

from functools import partial

from opsdk import Context, Operator, Result
from opsdk.api.apps.v1 import StatefulSet
from opsdk.api.core.v1 import PersistentVolumeClaim, Pod, Secret, Service
from opsdk.api.policy.v1 import PodDisruptionBudget
from opsdk.client.patch import merge_patch
from opsdk.recipes import is_deleting
from opsdk.testing.simulate import World
from tests.corpus.sieve.kit import (
    CLAIMS,
    FINALIZER,
    KEY,
    NAME,
    NAMESPACE,
    PODS,
    UID_LABEL,
    Cluster,
    changing,
    child,
    children,
    claim,
    claim_of,
    claims_are_there,
    cluster_with,
    creating,
    delete_child,
    disruption_budget,
    is_current,
    key_of,
    live_cluster,
    member,
    new_operator,
    note,
    ordinal_of,
    pods_are_there,
    reconciled,
    secret,
    service,
    sieve_case,
    stateful_set,
    stateful_set_is_there,
)


# ---------------------------------------------------------------- members and their claims
async def _let_members_go(cluster: Cluster, ctx: Context) -> None:
    """Delete the pods and claims of a cluster that goes."""
    for pod in await children(cluster, ctx, Pod, **{UID_LABEL: cluster.metadata.uid}):
        await ctx.client.patch(pod, merge_patch({"metadata": {"uid": pod.metadata.uid, "finalizers": None}}))
        await ctx.client.delete(pod, uid=pod.metadata.uid, missing_ok=True)
    for each in await children(cluster, ctx, PersistentVolumeClaim, **{UID_LABEL: cluster.metadata.uid}):
        await ctx.client.delete(each, missing_ok=True)


@reconciled(
    watches=[CLAIMS, PODS],
    elected=True,
    settings=["replicas", "storage"],
    finalizers={FINALIZER: _let_members_go},
)
async def cassandra_operator_407(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the claim of a pod with a deletion timestamp, although the next pod of that name may use it.

    The pods and claims stayed when the cluster was deleted, of the twin too, and `verify` was right to report it. With
    an old view of a cluster that was deleted, both let the pods of the next one go.
    """
    for ordinal in range(cluster.spec.replicas):
        pod = await child(cluster, ctx, Pod, ordinal)
        if pod is None:
            pod = member(cluster, ordinal)
            pod.metadata.finalizers = [FINALIZER]
            pod = await ctx.client.create(pod)
        if not is_deleting(pod):
            await ctx.apply(claim(cluster, ordinal, labels={"pod-uid": pod.metadata.uid}), owner=None)
    for pod in await children(cluster, ctx, Pod):
        ordinal = ordinal_of(pod)
        if is_deleting(pod):
            existing = await claim_of(cluster, ctx, ordinal_of(pod))
            if existing and (not repaired or existing.metadata.labels["pod-uid"] == pod.metadata.uid):
                await ctx.client.delete(existing, missing_ok=True)
            await ctx.client.patch(pod, merge_patch({"metadata": {"uid": pod.metadata.uid, "finalizers": None}}))
        elif ordinal >= cluster.spec.replicas and await is_current(cluster, ctx):
            await ctx.client.delete(pod, uid=pod.metadata.uid, missing_ok=True)


@reconciled(owns=[Pod], elected=True, settings=["replicas"])
async def elastic_operator_5274(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Removes the members that an old number of nodes does not include."""
    for ordinal in range(cluster.spec.replicas):
        await ctx.apply(member(cluster, ordinal))
    for pod in await children(cluster, ctx, Pod):
        surplus = ordinal_of(pod) >= cluster.spec.replicas
        if surplus and (not repaired or await is_current(cluster, ctx)):
            await ctx.client.delete(pod, missing_ok=True)


@reconciled(watches=[CLAIMS], elected=True, settings=["replicas", "storage"])
async def zookeeper_operator_314(cluster: Cluster, ctx: Context, *, repaired: bool) -> Result | None:
    """Takes the claims above an old number of ready replicas for orphans.

    The claims of both twins kept the size of their creation, and `verify` was right to report it.
    """
    for ordinal in range(cluster.spec.replicas):
        name = f"data-{cluster.metadata.name}-{ordinal}"
        existing = await ctx.client.get_or_none(PersistentVolumeClaim, name, namespace=cluster.metadata.namespace)
        is_old = existing is None or existing.metadata.annotations["storage"] != str(cluster.spec.storage)
        if is_old and await is_current(cluster, ctx):
            await ctx.apply(claim(cluster, ordinal), owner=None)
    if cluster.status is None or cluster.status.ready_replicas != cluster.spec.replicas:
        await note(cluster, ctx, ready_replicas=cluster.spec.replicas)
        return Result(requeue_after=5)
    claims = await children(cluster, ctx, PersistentVolumeClaim)
    orphans = [each for each in claims if ordinal_of(each) >= cluster.spec.replicas]
    if not repaired or (orphans and await is_current(cluster, ctx)):
        for each in orphans:
            await ctx.client.delete(each, missing_ok=True)
    return None


# ---------------------------------------------------------------- objects that are replaced
@reconciled(owns=[PodDisruptionBudget], elected=True, settings=["max_unavailable"])
async def casskop_321(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Replaces the disruption budget when its number is not the one of an old cluster."""
    existing = await ctx.client.get_or_none(PodDisruptionBudget, key_of(cluster))
    if existing is not None and existing.spec.max_unavailable != cluster.spec.max_unavailable:
        if repaired and not await is_current(cluster, ctx):
            return
        await ctx.client.delete(existing, uid=existing.metadata.uid, missing_ok=True)
    await ctx.apply(disruption_budget(cluster))


@reconciled(owns=[StatefulSet], watches=[CLAIMS], elected=True, settings=["storage"])
async def rabbitmq_operator_653(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the StatefulSet to resize its claims when the sizes differ, in whichever direction."""
    desired = cluster.spec.storage
    existing = await ctx.client.get_or_none(StatefulSet, key_of(cluster))
    size = int(existing.metadata.annotations["storage"]) if existing else desired
    if repaired and desired < size:
        return  # claims never shrink, so this is an old cluster or a mistake
    if existing is not None and desired != size:
        await ctx.client.delete(existing, uid=existing.metadata.uid, missing_ok=True)
    await ctx.apply(claim(cluster, 0), owner=None)
    fresh = stateful_set(cluster)
    fresh.metadata.annotations["storage"] = str(desired)
    await ctx.apply(fresh)


async def budget_is_current(world: World) -> None:
    """The disruption budget has the number of the cluster."""
    if (cluster := await live_cluster(world)) is not None:
        budget = await world.client.get_or_none(PodDisruptionBudget, KEY)
        assert budget is not None, "there is no disruption budget"
        assert budget.spec.max_unavailable == cluster.spec.max_unavailable, "the disruption budget is old"


# ---------------------------------------------------------------- parts that were turned off
@reconciled(owns=[StatefulSet], elected=True, settings=["sharding"])
async def mongodb_operator_433(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the config servers and the router when an old cluster has no sharding."""
    if repaired and not await is_current(cluster, ctx):
        return
    for suffix in ("cfg", "mongos"):
        if cluster.spec.sharding:
            await ctx.apply(stateful_set(cluster, suffix))
        else:
            await delete_child(cluster, ctx, StatefulSet, suffix)


@reconciled(owns=[StatefulSet], elected=True, settings=["arbiter"])
async def mongodb_operator_438(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the arbiter that an old replica set does not have."""
    await ctx.apply(stateful_set(cluster, "rs0"))
    if repaired and not await is_current(cluster, ctx):
        return
    if cluster.spec.arbiter:
        await ctx.apply(stateful_set(cluster, "rs0-arbiter"))
        return
    existing = await child(cluster, ctx, StatefulSet, "rs0-arbiter")
    if existing is not None:
        await ctx.client.delete(existing, uid=existing.metadata.uid, missing_ok=True)


def _proxy_operator(suffix: str, *, repaired: bool, has_claims: bool) -> Operator:
    """Deletes a proxy, and its claims, when an old cluster does not enable it."""
    operator = new_operator(elected=True)

    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        if repaired and not await is_current(cluster, ctx):
            return
        if cluster.spec.proxy:
            await ctx.apply(stateful_set(cluster, suffix))
            await ctx.apply(service(cluster, suffix, 3306))
            if has_claims:
                # Without an owner, the claim stayed if the cluster was deleted while its proxy was turned on.
                await ctx.apply(claim(cluster, 0))
            return
        await delete_child(cluster, ctx, StatefulSet, suffix)
        await delete_child(cluster, ctx, Service, suffix)
        if has_claims:
            await ctx.client.delete(
                PersistentVolumeClaim,
                f"data-{cluster.metadata.name}-0",
                namespace=cluster.metadata.namespace,
                missing_ok=True,
            )

    kind = cluster_with("proxy", "storage") if has_claims else cluster_with("proxy")
    reconcile.__annotations__["cluster"] = kind
    operator.reconciler(kind, owns=[StatefulSet, Service], watches=[CLAIMS])(reconcile)
    return operator


@reconciled(owns=[Secret], elected=True, settings=["tls"])
async def yugabyte_operator_35(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the certificates when an old cluster has no TLS."""
    if repaired and not await is_current(cluster, ctx):
        return
    for suffix in ("master-tls", "tserver-tls"):
        existing = await child(cluster, ctx, Secret, suffix)
        if cluster.spec.tls and existing is None:
            await ctx.apply(secret(cluster, suffix))
        elif not cluster.spec.tls and existing:
            await ctx.client.delete(existing, missing_ok=True)


@reconciled(owns=[Service], elected=True, settings=["ui_port"])
async def yugabyte_operator_36(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the Service of the UI when an old cluster has no port for it."""
    if repaired and not await is_current(cluster, ctx):
        return
    existing = await child(cluster, ctx, Service, "ui")
    if cluster.spec.ui_port > 0:
        await ctx.apply(service(cluster, "ui", cluster.spec.ui_port))
    elif existing is not None:
        await ctx.client.delete(existing, missing_ok=True)


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


_case = partial(sieve_case, pattern="stale state", replicas=2)
_two, _one_again = changing("scale_up", replicas=2), changing("scale_down", replicas=1)

CASES = [
    _case(
        name="cassandra-operator-407",
        report="https://github.com/instaclustr/cassandra-operator/issues/407",
        cause="It deletes the claim of a pod with a deletion timestamp, which the next pod of that name may use.",
        operator=cassandra_operator_407,
        actions=[creating(replicas=2), _one_again, _two],
        check=pods_are_there,
    ),
    _case(
        name="casskop-321",
        report="https://github.com/Orange-OpenSource/casskop/issues/321",
        cause="With an old view of the cluster, it replaces the disruption budget.",
        operator=casskop_321,
        actions=[creating(max_unavailable=4), changing("reduce_budget", maxUnavailable=1)],
        check=budget_is_current,
    ),
    _case(
        name="elastic-operator-5274",
        report="https://github.com/elastic/cloud-on-k8s/issues/5274",
        cause="It removes the members that an old number of nodes does not include.",
        operator=elastic_operator_5274,
        actions=[creating(replicas=2), _one_again, _two],
        check=pods_are_there,
    ),
    _case(
        name="mongodb-operator-433",
        report="https://jira.percona.com/browse/K8SPSMDB-433",
        cause="It deletes config servers and router when an old cluster has no sharding.",
        operator=mongodb_operator_433,
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
        operator=mongodb_operator_438,
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
        operator=rabbitmq_operator_653,
        actions=[creating(storage=10), changing("expand", storage=15)],
        check=stateful_set_is_there,
    ),
    _case(
        name="xtradb-operator-725",
        report="https://jira.percona.com/browse/K8SPXC-725",
        cause="It deletes HAProxy when an old cluster does not enable it.",
        operator=partial(_proxy_operator, "haproxy", has_claims=False),
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
        operator=partial(_proxy_operator, "proxysql", has_claims=True),
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
        operator=yugabyte_operator_35,
        actions=[creating(tls=True), changing("disable_tls", tls=False), changing("enable_tls", tls=True)],
        check=certificates_are_there,
    ),
    _case(
        name="yugabyte-operator-36",
        report="https://github.com/yugabyte/yugabyte-operator/issues/36",
        cause="It deletes the Service of the UI when an old cluster has no port for it.",
        operator=yugabyte_operator_36,
        actions=[creating(ui_port=7000), changing("disable_ui", uiPort=-1), changing("enable_ui", uiPort=9000)],
        check=ui_is_there,
    ),
    _case(
        name="zookeeper-operator-314",
        report="https://github.com/pravega/zookeeper-operator/issues/314",
        cause="It takes the claims above an old number of ready replicas for orphans.",
        operator=zookeeper_operator_314,
        actions=[creating(replicas=2), _one_again, _two],
        check=claims_are_there,
    ),
]
