"""Bugs that the study found by the way: it calls them indirect, because no perturbation of its own aims at them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from msgspec import Meta

from opsdk import Context, GroupVersionKind, Object, Operator, Request
from opsdk.api.apps.v1 import StatefulSet
from opsdk.api.core.v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret, Service
from opsdk.client.patch import merge_patch
from opsdk.errors import InvalidError
from opsdk.recipes import is_deleting
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.simulate import World
from tests.corpus.sieve.kit import (
    CLAIMS,
    FINALIZER,
    KEY,
    NAME,
    NAMESPACE,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    assert_names,
    changing,
    child,
    children,
    claim,
    cluster_with,
    config_map,
    creating,
    delete_cluster,
    live_cluster,
    member,
    new_operator,
    note,
    ordinal_of,
    reconciled,
    secret,
    service,
    sieve_case,
    stateful_set,
)


def _labelled(**labels: str | None) -> JsonObject:
    return {"metadata": {"labels": labels}}


# ---------------------------------------------------------------- decommissioning
@reconciled(owns=[Pod], settings=["replicas"])
async def cassandra_operator_400(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Decommissions the last pod of a list, while the pod with the highest number is removed.

    The list of the report has no order. Lists of opsdk have the order of names, where demo-10 is before demo-2.
    Neither twin took the mark back from a member that was wanted again, and `verify` was right to report it.
    """
    pods = list(await children(cluster, ctx, Pod))
    existing = {pod.metadata.name for pod in pods}
    for ordinal in range(cluster.spec.replicas):
        if f"{cluster.metadata.name}-{ordinal}" not in existing:
            await ctx.apply(member(cluster, ordinal))
    leaving = [pod for pod in pods if "decommissioned" in pod.metadata.labels]
    await _keep_wanted(cluster, ctx, leaving)
    if repaired:
        pods.sort(key=ordinal_of)
    if len(pods) <= cluster.spec.replicas:
        return
    if not leaving:
        await ctx.client.patch(pods[-1], merge_patch(_labelled(decommissioned="true")))
    elif leaving == [max(pods, key=ordinal_of)]:
        await ctx.client.delete(leaving[0], missing_ok=True)


@reconciled(owns=[Pod], settings=["replicas"])
async def cassandra_operator_410(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Decommissions a node in one pass, and deletes it in the next, when the user may want it back."""
    for ordinal in range(cluster.spec.replicas):
        if await child(cluster, ctx, Pod, ordinal) is None:
            await ctx.apply(member(cluster, ordinal))
    pods = sorted(await children(cluster, ctx, Pod), key=ordinal_of)
    leaving = [pod for pod in pods if "decommissioned" in pod.metadata.labels]
    if len(pods) > cluster.spec.replicas:
        if leaving:
            await ctx.client.delete(leaving[0], missing_ok=True)
        else:
            await ctx.client.patch(pods[-1], merge_patch(_labelled(decommissioned="true")))
    if repaired:
        await _keep_wanted(cluster, ctx, leaving)


async def _keep_wanted(cluster: Cluster, ctx: Context, leaving: Sequence[Pod]) -> None:
    """Take the mark back from the members that are wanted again."""
    for pod in leaving:
        if ordinal_of(pod) < cluster.spec.replicas:
            await ctx.client.patch(pod, merge_patch(_labelled(decommissioned=None)))


@reconciled(owns=[Pod], settings=["replicas"])
async def nifikop_86(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Takes the steps of adding a node only while the node is wanted, and removes no node that lacks the last step."""
    nodes = dict(cluster.status.nodes) if cluster.status else {}
    for ordinal in range(cluster.spec.replicas):
        name, pod = f"{cluster.metadata.name}-{ordinal}", await child(cluster, ctx, Pod, ordinal)
        if pod is None:
            await ctx.apply(member(cluster, ordinal))
        is_ready = pod is not None and "ready" in pod.metadata.labels
        nodes[name] = "Succeeded" if is_ready or nodes.get(name) == "Succeeded" else "Running"
    for name, state in list(nodes.items()):
        if int(name.rpartition("-")[2]) >= cluster.spec.replicas and (state == "Succeeded" or repaired):
            await ctx.client.delete(Pod, name, namespace=cluster.metadata.namespace, missing_ok=True)
            del nodes[name]
    await note(cluster, ctx, nodes=nodes)


async def become_ready(world: World) -> None:
    """Label all pods as ready, as a kubelet reports it."""
    for pod in await world.client.list(Pod, namespace=NAMESPACE):
        await world.client.patch(pod, merge_patch(_labelled(ready="true")))


# ---------------------------------------------------------------- a part that does not exist
@reconciled(owns=[StatefulSet], settings=["sharding"])
async def mongodb_operator_434(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Reads the config servers of a cluster without sharding."""
    await ctx.apply(stateful_set(cluster, "rs0"))
    existing = await child(cluster, ctx, StatefulSet, "cfg")
    if cluster.spec.sharding:
        existing = await ctx.apply(stateful_set(cluster, "cfg"))
    elif existing is not None:
        await ctx.client.delete(existing, missing_ok=True)
        existing = None
    async with ctx.status(cluster) as patch:
        if repaired:
            patch.status.ready_replicas = (existing.spec.replicas or 0) if existing is not None else 0
        else:
            patch.status.ready_replicas = existing.spec.replicas or 0  # type: ignore[union-attr]
        patch.status.phase = "sharded" if cluster.spec.sharding else "plain"


# ---------------------------------------------------------------- a pass that goes on after the last finalizer
async def _let_go(cluster: Cluster, ctx: Context) -> None:
    finalizers = [each for each in cluster.metadata.finalizers if each != FINALIZER]
    version = cluster.metadata.resource_version
    await ctx.client.patch(cluster, merge_patch({"metadata": {"resourceVersion": version, "finalizers": finalizers}}))


async def _hold(cluster: Cluster, ctx: Context) -> None:
    version, finalizers = cluster.metadata.resource_version, [*cluster.metadata.finalizers, FINALIZER]
    await ctx.client.patch(cluster, merge_patch({"metadata": {"resourceVersion": version, "finalizers": finalizers}}))


def mongodb_operator_590(*, repaired: bool) -> Operator:
    """Goes on after it has removed the finalizer, and creates Secrets for a cluster that is gone."""
    operator = new_operator()

    kind = cluster_with()

    @operator.reconciler(kind, owns=[Secret])
    async def reconcile(request: Request, ctx: Context) -> None:
        cluster = await ctx.client.get_or_none(kind, request.key)
        if cluster is None:
            return
        if is_deleting(cluster):
            if FINALIZER in cluster.metadata.finalizers:
                await _let_go(cluster, ctx)
            if repaired:
                return
        elif FINALIZER not in cluster.metadata.finalizers:
            await _hold(cluster, ctx)
        for suffix in ("ssl", "ssl-internal"):
            if await child(cluster, ctx, Secret, suffix) is None:
                await ctx.apply(secret(cluster, suffix), owner=cluster)

    return operator


def zookeeper_operator_410(*, repaired: bool) -> Operator:
    """Runs all steps of the pass, although the first one has let the cluster go."""
    operator = new_operator()

    async def finalizers(cluster: Cluster, ctx: Context) -> bool:
        if not is_deleting(cluster):
            if FINALIZER not in cluster.metadata.finalizers:
                await _hold(cluster, ctx)
            return True
        if FINALIZER in cluster.metadata.finalizers:
            await _let_go(cluster, ctx)
        return not repaired

    kind = cluster_with("replicas")

    @operator.reconciler(kind, owns=[ConfigMap, StatefulSet])
    async def reconcile(request: Request, ctx: Context) -> None:
        cluster = await ctx.client.get_or_none(kind, request.key)
        if cluster is not None and await finalizers(cluster, ctx):
            await ctx.apply(config_map(cluster, "config", size=str(cluster.spec.replicas)), owner=cluster)
            await ctx.apply(stateful_set(cluster, replicas=cluster.spec.replicas), owner=cluster)

    return operator


# ---------------------------------------------------------------- an application that keeps its first configuration
@reconciled(owns=[ConfigMap], settings=["sharding"])
async def mongodb_operator_591(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Lets a replica set keep the identity of its former config servers, which new ones do not accept.

    The report says that the cluster ends in an error when sharding is enabled again early; this cause is assumed.
    """
    shard = cluster.status.operation if cluster.status else ""
    servers = await child(cluster, ctx, ConfigMap, "cfg")
    if not cluster.spec.sharding:
        if servers is not None:
            await ctx.client.delete(servers, missing_ok=True)
        elif shard:
            shard = ""
    else:
        servers = servers or await ctx.apply(config_map(cluster, "cfg"))
        # Stands for the replica set, which refuses config servers other than its own.
        if not shard:
            shard = servers.metadata.uid
    if repaired:
        shard = servers.metadata.uid if servers is not None and cluster.spec.sharding else ""
    async with ctx.status(cluster) as patch:
        patch.status.operation = shard
        accepted = servers is None or shard in ("", servers.metadata.uid)
        patch.status.phase = "ready" if accepted else "error"


@reconciled(owns=[Pod], watches=[CLAIMS], settings=["tls", "storage"])
async def yugabyte_operator_43(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Restarts a master for new certificates while it formats its disk."""
    tls = str(cluster.spec.tls).lower()
    await ctx.apply(claim(cluster, 0), owner=None)
    pod = await child(cluster, ctx, Pod, "0")
    if pod is None:
        await ctx.apply(member(cluster, 0, labels={"tls": tls}))
    elif pod.metadata.labels["tls"] != tls and (not repaired or pod.metadata.labels.get("state") == "running"):
        await ctx.client.delete(pod, missing_ok=True)


async def begin_to_format(world: World) -> None:
    """Let the master begin to format its disk, as it does at its first start."""
    pod = await world.client.get_or_none(Pod, f"{NAME}-0", namespace=NAMESPACE)
    disk = await world.client.get_or_none(PersistentVolumeClaim, f"data-{NAME}-0", namespace=NAMESPACE)
    if pod is not None and disk is not None and "formatted-by" not in disk.metadata.annotations:
        await world.client.patch(disk, merge_patch({"metadata": {"annotations": {"formatted-by": pod.metadata.uid}}}))


async def start_the_master(world: World) -> None:
    """Let the master run, unless its disk was left half formatted by an earlier one."""
    pod = await world.client.get_or_none(Pod, f"{NAME}-0", namespace=NAMESPACE)
    disk = await world.client.get_or_none(PersistentVolumeClaim, f"data-{NAME}-0", namespace=NAMESPACE)
    if pod is None or disk is None:
        return
    annotations = disk.metadata.annotations
    runs = "formatted" in annotations or annotations.get("formatted-by", pod.metadata.uid) == pod.metadata.uid
    if runs:
        await world.client.patch(disk, merge_patch({"metadata": {"annotations": {"formatted": "true"}}}))
    await world.client.patch(pod, merge_patch(_labelled(state="running" if runs else "crashing")))


# ---------------------------------------------------------------- a definition that is too strict
class LimitedClusterSpec(ClusterSpec, kw_only=True):
    """The port of the UI has a lower limit, so that it cannot be turned off."""

    ui_port: Annotated[int, Meta(ge=1)] = 7000


class LimitedCluster(Object[LimitedClusterSpec, ClusterStatus]):
    """The cluster as the definition of the report has it."""

    gvk = GroupVersionKind("corpus.opsdk.dev", "v1", "Cluster")


@reconciled(owns=[Service], settings=["ui_port"])
async def yugabyte_operator_33(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the Service of the UI when its port is not positive."""
    existing = await child(cluster, ctx, Service, "ui")
    if cluster.spec.ui_port > 0:
        await ctx.apply(service(cluster, "ui", cluster.spec.ui_port))
    elif existing is not None:
        await ctx.client.delete(existing, missing_ok=True)


async def turn_off_the_ui(world: World) -> None:
    """Turn the UI off as the documentation says. An annotation keeps the wish, should the server refuse it."""
    existing = await world.client.get_or_none(Cluster, KEY)
    if existing is None or is_deleting(existing):
        return
    await world.client.patch(existing, merge_patch({"metadata": {"annotations": {"ui": "off"}}}))
    try:
        await world.client.patch(existing, merge_patch({"spec": {"uiPort": 0}}))
    except InvalidError:
        return


# ---------------------------------------------------------------- checks
async def members_serve(world: World) -> None:
    """The pods are those of the members, and none is decommissioned."""
    cluster = await live_cluster(world)
    await assert_names(world, Pod, [f"{NAME}-{number}" for number in range(cluster.spec.replicas if cluster else 0)])
    for pod in await world.client.list(Pod, namespace=NAMESPACE):
        assert "decommissioned" not in pod.metadata.labels, f"{pod.metadata.name} is decommissioned"


async def phase_is_reported(world: World) -> None:
    """The status has the kind of the cluster."""
    if (cluster := await live_cluster(world)) is not None:
        phase = cluster.status.phase if cluster.status else ""
        assert phase == ("sharded" if cluster.spec.sharding else "plain"), f"the status has the phase {phase!r}"


async def nothing_is_left(world: World) -> None:
    """Without a cluster, nothing of it is left."""
    if await live_cluster(world) is None:
        for kind in (Secret, ConfigMap, StatefulSet):
            await assert_names(world, kind, [])


async def cluster_is_ready(world: World) -> None:
    """The replica set accepts its config servers."""
    if (cluster := await live_cluster(world)) is not None:
        assert cluster.status is not None, "there is no status"
        assert cluster.status.phase == "ready", f"the cluster is in phase {cluster.status.phase}"


async def master_does_not_crash(world: World) -> None:
    """The master does not crash."""
    pod = await world.client.get_or_none(Pod, f"{NAME}-0", namespace=NAMESPACE)
    assert pod is None or pod.metadata.labels.get("state") != "crashing", "the master crashes"


async def ui_can_be_turned_off(world: World) -> None:
    """The Service is gone when the user wants no UI."""
    cluster = await live_cluster(world)
    if cluster is not None and cluster.metadata.annotations.get("ui") == "off":
        assert await world.client.get_or_none(Service, f"{NAME}-ui", namespace=NAMESPACE) is None, "the UI is there"


_case = partial(sieve_case, pattern="indirect")
_down, _up = changing("scale_down", replicas=1), changing("scale_up", replicas=2)
_off, _on = changing("disable_sharding", sharding=False), changing("enable_sharding", sharding=True)

CASES = [
    _case(
        name="cassandra-operator-400",
        report="https://github.com/instaclustr/cassandra-operator/issues/400",
        cause="It decommissions the last pod of a list that is not in the order of the members.",
        operator=cassandra_operator_400,
        actions=[creating(replicas=11), changing("scale_down", replicas=10)],
        check=members_serve,
    ),
    _case(
        name="cassandra-operator-410",
        report="https://github.com/instaclustr/cassandra-operator/issues/410",
        cause="A decommissioned node stays so when the user wants it back before its deletion.",
        operator=cassandra_operator_410,
        actions=[creating(replicas=2), _down, _up],
        check=members_serve,
    ),
    _case(
        name="mongodb-operator-434",
        report="https://jira.percona.com/browse/K8SPSMDB-434",
        cause="It reads the config servers of a cluster that has none.",
        operator=mongodb_operator_434,
        actions=[creating(sharding=True), _off],
        check=phase_is_reported,
    ),
    _case(
        name="mongodb-operator-590",
        report="https://jira.percona.com/browse/K8SPSMDB-590",
        cause="It continues after it has removed the finalizer, and creates Secrets again.",
        operator=mongodb_operator_590,
        actions=[creating(), delete_cluster],
        check=nothing_is_left,
    ),
    _case(
        name="mongodb-operator-591",
        report="https://jira.percona.com/browse/K8SPSMDB-591",
        cause="A replica set keeps the identity of config servers that were deleted (assumed).",
        operator=mongodb_operator_591,
        actions=[creating(sharding=True), _off, _on],
        check=cluster_is_ready,
    ),
    _case(
        name="nifikop-86",
        report="https://github.com/konpyutaika/nifikop/issues/86",
        cause="A node that is removed before it was ready never gets the state with which it may go.",
        operator=nifikop_86,
        actions=[creating(replicas=2), become_ready, _down],
        check=members_serve,
    ),
    _case(
        name="yugabyte-operator-33",
        report="https://github.com/yugabyte/yugabyte-operator/issues/33",
        cause="The definition refuses the port that turns the UI off.",
        operator=yugabyte_operator_33,
        kinds=[LimitedCluster],
        repaired_kinds=[Cluster],
        actions=[creating(ui_port=7000), turn_off_the_ui],
        check=ui_can_be_turned_off,
    ),
    _case(
        name="yugabyte-operator-43",
        report="https://github.com/yugabyte/yugabyte-operator/issues/43",
        cause="It restarts a master that formats its disk (assumed).",
        operator=yugabyte_operator_43,
        actions=[creating(), begin_to_format, changing("enable_tls", tls=True), start_the_master, start_the_master],
        check=master_does_not_crash,
    ),
    _case(
        name="zookeeper-operator-410",
        report="https://github.com/pravega/zookeeper-operator/issues/410",
        cause="It runs all steps of a reconcile, although the first one has removed the last finalizer.",
        operator=zookeeper_operator_410,
        actions=[creating(), delete_cluster],
        check=nothing_is_left,
    ),
]
