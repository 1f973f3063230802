"""Intermediate state: two writes belong together, and a crash between them leaves a state that is taken for done."""

from __future__ import annotations

from functools import partial

from opsdk import Context
from opsdk.api.apps.v1 import StatefulSet
from opsdk.api.core.v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret
from opsdk.client.patch import merge_patch
from opsdk.recipes import set_controller_reference
from opsdk.testing.simulate import World
from tests.corpus.sieve.kit import (
    CLAIMS,
    KEY,
    NAME,
    NAMESPACE,
    Certificate,
    CertificateSpec,
    Cluster,
    assert_names,
    changing,
    child,
    children,
    claim,
    claim_of,
    cleaned_up,
    config_map,
    creating,
    delete_child,
    delete_cluster,
    key_of,
    live_cluster,
    member,
    members,
    meta,
    note,
    ordinal_of,
    pods_are_there,
    reconciled,
    secret,
    sieve_case,
    stateful_set,
)


# ---------------------------------------------------------------- the second object is created only with the first
@reconciled(owns=[Secret])
async def cass_operator_1023(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Creates the keystore of the nodes only when it creates that of the authority."""
    for suffix in ("ca-keystore", "node-keystore"):
        existing = await child(cluster, ctx, Secret, suffix)
        if existing is None:
            await ctx.apply(secret(cluster, suffix))
        elif not repaired:
            return


@reconciled(owns=[Secret])
async def _certificates_operator(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Creates the internal certificate only when the external one is missing."""
    external = await child(cluster, ctx, Secret, "ssl")
    internal = await child(cluster, ctx, Secret, "ssl-internal")
    if external is None or (repaired and internal is None):
        await ctx.apply(secret(cluster, "ssl"))
        await ctx.apply(secret(cluster, "ssl-internal"))


@reconciled(owns=[Certificate])
async def _cert_manager_operator(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Requests both certificates of cert-manager only when the first request is missing."""
    for suffix in ("ssl", "ssl-internal"):
        name = f"{cluster.metadata.name}-{suffix}"
        if await child(cluster, ctx, Certificate, suffix) is not None and not repaired:
            return
        await ctx.apply(Certificate(metadata=meta(cluster, name), spec=CertificateSpec(secret_name=name)))


# ---------------------------------------------------------------- a state that is written before its work is done
@reconciled(owns=[Pod, ConfigMap])
async def cass_operator_1362(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Labels a node as starting before it starts it, and never starts a node with this label."""
    pod = await child(cluster, ctx, Pod, "0")
    if pod is None:
        await ctx.client.create(_owned(cluster, member(cluster, 0, labels={"node-state": "Ready-to-Start"})))
        return
    process = await child(cluster, ctx, ConfigMap, "process")
    if pod.metadata.labels["node-state"] == "Ready-to-Start":
        await ctx.client.patch(pod, merge_patch({"metadata": {"labels": {"node-state": "Starting"}}}))
    elif not repaired or process is not None:
        return
    # Stands for a call of the node's own API, which starts the process in the pod.
    await ctx.apply(config_map(cluster, "process", state="running"))


def _owned(cluster: Cluster, pod: Pod) -> Pod:
    set_controller_reference(cluster, pod)
    return pod


@reconciled(owns=[StatefulSet], watches=[CLAIMS], settings=["replicas", "storage"])
async def casskop_370(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Writes the state of a decommission at the end of the pass, after the member was removed."""
    desired, last = cluster.spec.replicas, cluster.status.operation if cluster.status else ""
    existing = await ctx.client.get_or_none(StatefulSet, key_of(cluster))
    current = desired if existing is None else existing.spec.replicas or 0
    if repaired and (desired < current or last == "Finalizing"):
        await note(cluster, ctx, operation="Finalizing")
        await ctx.apply(stateful_set(cluster, replicas=desired))
        for ordinal in range(desired):
            await ctx.apply(claim(cluster, ordinal), owner=None)
        for each in await children(cluster, ctx, PersistentVolumeClaim):
            if ordinal_of(each) >= desired:
                await ctx.client.delete(each, missing_ok=True)
        await note(cluster, ctx, operation="Done")
    elif last == "Finalizing":
        surplus = f"data-{cluster.metadata.name}-{current}"
        await ctx.client.delete(PersistentVolumeClaim, surplus, namespace=cluster.metadata.namespace, missing_ok=True)
        await note(cluster, ctx, operation="Done")
    elif desired < current:
        await ctx.apply(stateful_set(cluster, replicas=current - 1))
        await note(cluster, ctx, operation="Finalizing")
    else:
        await ctx.apply(stateful_set(cluster, replicas=desired))
        for ordinal in range(desired):
            await ctx.apply(claim(cluster, ordinal), owner=None)
        if repaired:
            await note(cluster, ctx, operation="Done")


@reconciled(owns=[ConfigMap, Pod], settings=["config"])
async def nifikop_49(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Stores new settings first, and then that the node needs a restart because of them."""
    await ctx.apply(member(cluster, 0, labels={"config": cluster.spec.config} if repaired else None))
    existing = await child(cluster, ctx, ConfigMap, "config")
    if existing is not None and existing.data["config"] != cluster.spec.config and not repaired:
        await ctx.apply(config_map(cluster, "config", config=cluster.spec.config))
        await note(cluster, ctx, config="OutOfSync")
    await ctx.apply(config_map(cluster, "config", config=cluster.spec.config))
    if cluster.status is not None and cluster.status.config == "OutOfSync":
        await delete_child(cluster, ctx, Pod, "0")
        await note(cluster, ctx, config="InSync")


@reconciled(owns=[Pod], settings=["replicas"])
async def nifikop_79(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Notes that a node was added after it created the node's pod, and never again if the pod exists."""
    nodes = dict(cluster.status.nodes) if cluster.status else {}
    for ordinal in range(cluster.spec.replicas):
        name = f"{cluster.metadata.name}-{ordinal}"
        existing = await child(cluster, ctx, Pod, ordinal)
        if existing is None:
            await ctx.apply(member(cluster, ordinal))
        if existing is None or (repaired and name not in nodes):
            nodes[name] = "GracefulUpscaleSucceeded"
    for name, state in list(nodes.items()):
        if int(name.rpartition("-")[2]) >= cluster.spec.replicas and state == "GracefulUpscaleSucceeded":
            await ctx.client.delete(Pod, name, namespace=cluster.metadata.namespace, missing_ok=True)
            del nodes[name]
    await note(cluster, ctx, nodes=nodes)


# ---------------------------------------------------------------- an object that is deleted for a while
@reconciled(owns=[StatefulSet], watches=[CLAIMS], settings=["storage"])
async def rabbitmq_operator_782(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Compares the new size with that of the StatefulSet, which it deletes before it resizes the claims."""
    size = str(cluster.spec.storage)
    existing = await ctx.client.get_or_none(StatefulSet, key_of(cluster))
    current = await claim_of(cluster, ctx, 0)
    is_resized = existing is not None and existing.metadata.annotations["storage"] != size
    if existing is not None and is_resized:
        await ctx.client.delete(existing, missing_ok=True)
    if current is None or is_resized or repaired:
        await ctx.apply(claim(cluster, 0), owner=None)
    desired = stateful_set(cluster)
    desired.metadata.annotations["storage"] = size
    await ctx.apply(desired)


@cleaned_up(members("pxc"), owns=[StatefulSet], watches=[CLAIMS], elected=False, settings=["replicas", "storage"])
async def xtradb_operator_979(cluster: Cluster, ctx: Context, *, repaired: bool) -> None:
    """Deletes the claims after the StatefulSet, and takes a missing StatefulSet for the end of the clean-up."""
    existing = await child(cluster, ctx, StatefulSet, "pxc")
    if existing is None and not repaired:
        return
    if existing is not None:
        await ctx.client.delete(existing, missing_ok=True)
    for each in await children(cluster, ctx, PersistentVolumeClaim):
        await ctx.client.delete(each, missing_ok=True)


# ---------------------------------------------------------------- checks
async def keystores_are_there(world: World) -> None:
    """A cluster has both keystores."""
    suffixes = ("ca-keystore", "node-keystore") if await live_cluster(world) else ()
    await assert_names(world, Secret, [f"{NAME}-{suffix}" for suffix in suffixes])


async def secrets_are_there(world: World) -> None:
    """A cluster has both certificates."""
    await assert_names(world, Secret, [f"{NAME}-ssl", f"{NAME}-ssl-internal"] if await live_cluster(world) else [])


async def certificates_are_there(world: World) -> None:
    """Both certificates are requested."""
    names = [f"{NAME}-ssl", f"{NAME}-ssl-internal"] if await live_cluster(world) else []
    await assert_names(world, Certificate, names)


async def process_runs(world: World) -> None:
    """The process of the node was started."""
    await assert_names(world, ConfigMap, [f"{NAME}-process"] if await live_cluster(world) else [])


async def claims_fit_the_set(world: World) -> None:
    """The claims are those of the StatefulSet's members."""
    existing = await world.client.get_or_none(StatefulSet, KEY)
    count = (existing.spec.replicas or 0) if existing else 0
    await assert_names(world, PersistentVolumeClaim, [f"data-{NAME}-{ordinal}" for ordinal in range(count)])


async def config_is_stored(world: World) -> None:
    """The ConfigMap has the settings of the cluster."""
    if (cluster := await live_cluster(world)) is not None:
        existing = await world.client.get_or_none(ConfigMap, f"{NAME}-config", namespace=NAMESPACE)
        assert existing is not None, "there is no ConfigMap"
        assert existing.data["config"] == cluster.spec.config, "the settings are old"


async def claim_has_its_size(world: World) -> None:
    """The claim has the size of the cluster."""
    if (cluster := await live_cluster(world)) is not None:
        existing = await world.client.get_or_none(PersistentVolumeClaim, f"data-{NAME}-0", namespace=NAMESPACE)
        assert existing is not None, "there is no claim"
        assert existing.metadata.annotations["storage"] == str(cluster.spec.storage), "the claim has an old size"


async def claims_go_with_the_cluster(world: World) -> None:
    """Without a cluster there are no claims."""
    await assert_names(world, PersistentVolumeClaim, [f"data-{NAME}-0"] if await live_cluster(world) else [])


_case = partial(sieve_case, pattern="intermediate state")
_create = creating(replicas=1)

CASES = [
    _case(
        name="cass-operator-1023",
        report="https://k8ssandra.atlassian.net/browse/K8SSAND-1023",
        cause="It creates the keystore of the nodes only when it creates that of the authority.",
        operator=cass_operator_1023,
        actions=[_create],
        check=keystores_are_there,
    ),
    _case(
        name="cass-operator-1362",
        report="https://k8ssandra.atlassian.net/browse/K8SSAND-1362",
        cause="It labels a node as starting before it starts the node.",
        operator=cass_operator_1362,
        actions=[_create],
        check=process_runs,
    ),
    _case(
        name="casskop-370",
        report="https://github.com/Orange-OpenSource/casskop/issues/370",
        cause="It writes the state of a decommission after the member was removed.",
        operator=casskop_370,
        actions=[creating(replicas=2), changing("scale_down", replicas=1)],
        check=claims_fit_the_set,
    ),
    _case(
        name="mongodb-operator-578",
        report="https://github.com/percona/percona-server-mongodb-operator/pull/797",
        cause="It creates the internal Secret only when the external one is missing.",
        operator=_certificates_operator,
        actions=[_create],
        check=secrets_are_there,
    ),
    _case(
        name="mongodb-operator-579",
        report="https://github.com/percona/percona-server-mongodb-operator/pull/797",
        cause="It requests the internal certificate only when the request of the external one is missing.",
        operator=_cert_manager_operator,
        kinds=[Cluster, Certificate],
        actions=[_create],
        check=certificates_are_there,
    ),
    _case(
        name="nifikop-49",
        report="https://github.com/konpyutaika/nifikop/issues/49",
        cause="It stores new settings before it notes that the node needs a restart.",
        operator=nifikop_49,
        actions=[creating(config="one"), changing("change_config", config="two")],
        check=config_is_stored,
    ),
    _case(
        name="nifikop-79",
        report="https://github.com/konpyutaika/nifikop/issues/79",
        cause="It creates the pod before it notes that the node was added, and notes nothing if the pod exists.",
        operator=nifikop_79,
        actions=[creating(replicas=2), changing("scale_down", replicas=1)],
        check=pods_are_there,
    ),
    _case(
        name="rabbitmq-operator-782",
        report="https://github.com/rabbitmq/cluster-operator/issues/782",
        cause="It deletes the StatefulSet that has the old size before it resizes the claims.",
        operator=rabbitmq_operator_782,
        actions=[creating(storage=10), changing("expand", storage=15)],
        check=claim_has_its_size,
    ),
    _case(
        name="xtradb-operator-896",
        report="https://github.com/percona/percona-xtradb-cluster-operator/pull/1043",
        cause="It creates the internal Secret only when the external one is missing.",
        operator=_certificates_operator,
        actions=[_create],
        check=secrets_are_there,
    ),
    _case(
        name="xtradb-operator-897",
        report="https://github.com/percona/percona-xtradb-cluster-operator/pull/1043",
        cause="It requests the internal certificate only when the request of the external one is missing.",
        operator=_cert_manager_operator,
        kinds=[Cluster, Certificate],
        actions=[_create],
        check=certificates_are_there,
    ),
    _case(
        name="xtradb-operator-979",
        report="https://jira.percona.com/browse/K8SPXC-979",
        cause="It takes a missing StatefulSet for the end of the clean-up, before the claims are deleted (assumed).",
        operator=xtradb_operator_979,
        actions=[_create, delete_cluster],
        check=claims_go_with_the_cluster,
    ),
]
