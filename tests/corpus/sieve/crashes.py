"""Intermediate state: two writes belong together, and a crash between them leaves a state that is taken for done."""

from __future__ import annotations

from functools import partial

from opsdk import Context, Operator
from opsdk.api.apps.v1 import StatefulSet
from opsdk.api.core.v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret
from opsdk.builder.arguments import WatchSpec
from opsdk.client.patch import merge_patch
from opsdk.recipes import set_controller_reference
from opsdk.testing.simulate import World
from tests.corpus.case import CorpusCase, Study
from tests.corpus.sieve.kit import (
    FINALIZER,
    KEY,
    NAME,
    NAMESPACE,
    Certificate,
    CertificateSpec,
    Cluster,
    assert_names,
    changing,
    claim,
    cluster_of,
    config_map,
    creating,
    delete_cluster,
    live_cluster,
    member,
    meta,
    new_operator,
    secret,
    stateful_set,
)

CLAIMS = WatchSpec(kind=PersistentVolumeClaim, handler=cluster_of)


# ---------------------------------------------------------------- the second object is created only with the first
def cass_operator_1023(*, repaired: bool) -> Operator:
    """Creates the keystore of the nodes only when it creates that of the authority."""
    operator = new_operator()

    @operator.reconciler(Cluster, owns=[Secret])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        for suffix in ("ca-keystore", "node-keystore"):
            existing = await ctx.client.get_or_none(Secret, f"{NAME}-{suffix}", namespace=NAMESPACE)
            if existing is None:
                await ctx.apply(secret(cluster, suffix))
            elif not repaired:
                return

    return operator


def _certificates_operator(*, repaired: bool) -> Operator:
    """Creates the internal certificate only when the external one is missing."""
    operator = new_operator()

    @operator.reconciler(Cluster, owns=[Secret])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        external = await ctx.client.get_or_none(Secret, f"{NAME}-ssl", namespace=NAMESPACE)
        internal = await ctx.client.get_or_none(Secret, f"{NAME}-ssl-internal", namespace=NAMESPACE)
        if external is None or (repaired and internal is None):
            await ctx.apply(secret(cluster, "ssl"))
            await ctx.apply(secret(cluster, "ssl-internal"))

    return operator


def _cert_manager_operator(*, repaired: bool) -> Operator:
    """Requests both certificates of cert-manager only when the first request is missing."""
    operator = new_operator()

    @operator.reconciler(Cluster, owns=[Certificate])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        for suffix in ("ssl", "ssl-internal"):
            name = f"{NAME}-{suffix}"
            first = await ctx.client.get_or_none(Certificate, name, namespace=NAMESPACE)
            if first is not None and not repaired:
                return
            await ctx.apply(Certificate(metadata=meta(cluster, name), spec=CertificateSpec(secret_name=name)))

    return operator


# ---------------------------------------------------------------- a state that is written before its work is done
def cass_operator_1362(*, repaired: bool) -> Operator:
    """Labels a node as starting before it starts it, and never starts a node with this label."""
    operator = new_operator()

    @operator.reconciler(Cluster, owns=[Pod, ConfigMap])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        pod = await ctx.client.get_or_none(Pod, f"{NAME}-0", namespace=NAMESPACE)
        if pod is None:
            await ctx.client.create(_owned(cluster, member(cluster, 0, labels={"node-state": "Ready-to-Start"})))
            return
        process = await ctx.client.get_or_none(ConfigMap, f"{NAME}-process", namespace=NAMESPACE)
        if pod.metadata.labels["node-state"] == "Ready-to-Start":
            await ctx.client.patch(pod, merge_patch({"metadata": {"labels": {"node-state": "Starting"}}}))
        elif not repaired or process is not None:
            return
        # Stands for a call of the node's own API, which starts the process in the pod.
        await ctx.apply(config_map(cluster, "process", state="running"))

    return operator


def _owned(cluster: Cluster, pod: Pod) -> Pod:
    set_controller_reference(cluster, pod)
    return pod


def casskop_370(*, repaired: bool) -> Operator:
    """Writes the state of a decommission at the end of the pass, after the member was removed."""
    operator = new_operator()

    @operator.reconciler(Cluster, owns=[StatefulSet], watches=[CLAIMS])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        desired, last = cluster.spec.replicas, cluster.status.operation if cluster.status else ""
        existing = await ctx.client.get_or_none(StatefulSet, KEY)
        current = desired if existing is None else existing.spec.replicas or 0
        if repaired and (desired < current or last == "Finalizing"):
            await _note(cluster, ctx, "Finalizing")
            await ctx.apply(stateful_set(cluster, replicas=desired))
            for each in await ctx.client.list(PersistentVolumeClaim, namespace=NAMESPACE):
                if int(each.metadata.name.rpartition("-")[2]) >= desired:
                    await ctx.client.delete(each, missing_ok=True)
            await _note(cluster, ctx, "Done")
        elif last == "Finalizing":
            surplus = f"data-{NAME}-{current}"
            await ctx.client.delete(PersistentVolumeClaim, surplus, namespace=NAMESPACE, missing_ok=True)
            await _note(cluster, ctx, "Done")
        elif desired < current:
            await ctx.apply(stateful_set(cluster, replicas=current - 1))
            await _note(cluster, ctx, "Finalizing")
        else:
            await ctx.apply(stateful_set(cluster, replicas=desired))
            for ordinal in range(desired):
                await ctx.apply(claim(cluster, ordinal), owner=None)
            if repaired:
                await _note(cluster, ctx, "Done")

    return operator


async def _note(cluster: Cluster, ctx: Context, operation: str) -> None:
    async with ctx.status(cluster) as patch:
        patch.status.operation = operation


def nifikop_49(*, repaired: bool) -> Operator:
    """Stores new settings first, and then that the node needs a restart because of them."""
    operator = new_operator()

    @operator.reconciler(Cluster, owns=[ConfigMap, Pod])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        await ctx.apply(member(cluster, 0, labels={"config": cluster.spec.config} if repaired else None))
        existing = await ctx.client.get_or_none(ConfigMap, f"{NAME}-config", namespace=NAMESPACE)
        if existing is not None and existing.data["config"] != cluster.spec.config and not repaired:
            await ctx.apply(config_map(cluster, "config", config=cluster.spec.config))
            await _note_config(cluster, ctx, "OutOfSync")
        await ctx.apply(config_map(cluster, "config", config=cluster.spec.config))
        if cluster.status is not None and cluster.status.config == "OutOfSync":
            await ctx.client.delete(Pod, f"{NAME}-0", namespace=NAMESPACE, missing_ok=True)
            await _note_config(cluster, ctx, "InSync")

    return operator


async def _note_config(cluster: Cluster, ctx: Context, state: str) -> None:
    async with ctx.status(cluster) as patch:
        patch.status.config = state


def nifikop_79(*, repaired: bool) -> Operator:
    """Notes that a node was added after it created the node's pod, and never again if the pod exists."""
    operator = new_operator()

    @operator.reconciler(Cluster, owns=[Pod])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        nodes = dict(cluster.status.nodes) if cluster.status else {}
        for ordinal in range(cluster.spec.replicas):
            name = f"{NAME}-{ordinal}"
            existing = await ctx.client.get_or_none(Pod, name, namespace=NAMESPACE)
            if existing is None:
                await ctx.apply(member(cluster, ordinal))
            if existing is None or (repaired and name not in nodes):
                nodes[name] = "GracefulUpscaleSucceeded"
        for name, state in list(nodes.items()):
            if int(name.rpartition("-")[2]) >= cluster.spec.replicas and state == "GracefulUpscaleSucceeded":
                await ctx.client.delete(Pod, name, namespace=NAMESPACE, missing_ok=True)
                del nodes[name]
        async with ctx.status(cluster) as patch:
            patch.status.nodes = nodes

    return operator


# ---------------------------------------------------------------- an object that is deleted for a while
def rabbitmq_operator_782(*, repaired: bool) -> Operator:
    """Compares the new size with that of the StatefulSet, which it deletes before it resizes the claims."""
    operator = new_operator()

    @operator.reconciler(Cluster, owns=[StatefulSet], watches=[CLAIMS])
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        size = str(cluster.spec.storage)
        existing = await ctx.client.get_or_none(StatefulSet, KEY)
        current = await ctx.client.get_or_none(PersistentVolumeClaim, f"data-{NAME}-0", namespace=NAMESPACE)
        is_resized = existing is not None and existing.metadata.annotations["storage"] != size
        if existing is not None and is_resized:
            await ctx.client.delete(existing, missing_ok=True)
        if current is None or is_resized or repaired:
            await ctx.apply(claim(cluster, 0), owner=None)
        desired = stateful_set(cluster)
        desired.metadata.annotations["storage"] = size
        await ctx.apply(desired)

    return operator


def xtradb_operator_979(*, repaired: bool) -> Operator:
    """Deletes the claims after the StatefulSet, and takes a missing StatefulSet for the end of the clean-up."""
    operator = new_operator()

    async def clean_up(cluster: Cluster, ctx: Context) -> None:
        existing = await ctx.client.get_or_none(StatefulSet, f"{NAME}-pxc", namespace=NAMESPACE)
        if existing is None and not repaired:
            return
        if existing is not None:
            await ctx.client.delete(existing, missing_ok=True)
        for each in await ctx.client.list(PersistentVolumeClaim, namespace=NAMESPACE):
            await ctx.client.delete(each, missing_ok=True)

    @operator.reconciler(Cluster, owns=[StatefulSet], watches=[CLAIMS], finalizers={FINALIZER: clean_up})
    async def reconcile(cluster: Cluster, ctx: Context) -> None:
        await ctx.apply(stateful_set(cluster, "pxc"))
        await ctx.apply(claim(cluster, 0), owner=None)

    return operator


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


async def pods_are_there(world: World) -> None:
    """The pods are those of the members."""
    cluster = await live_cluster(world)
    await assert_names(world, Pod, [f"{NAME}-{number}" for number in range(cluster.spec.replicas if cluster else 0)])


async def claim_has_its_size(world: World) -> None:
    """The claim has the size of the cluster."""
    if (cluster := await live_cluster(world)) is not None:
        existing = await world.client.get_or_none(PersistentVolumeClaim, f"data-{NAME}-0", namespace=NAMESPACE)
        assert existing is not None, "there is no claim"
        assert existing.metadata.annotations["storage"] == str(cluster.spec.storage), "the claim has an old size"


async def claims_go_with_the_cluster(world: World) -> None:
    """Without a cluster there are no claims."""
    await assert_names(world, PersistentVolumeClaim, [f"data-{NAME}-0"] if await live_cluster(world) else [])


_case = partial(CorpusCase, study=Study.SIEVE, pattern="intermediate state", kinds=[Cluster])
_create = creating(replicas=1)

CASES = [
    _case(
        name="cass-operator-1023",
        report="https://k8ssandra.atlassian.net/browse/K8SSAND-1023",
        cause="It creates the keystore of the nodes only when it creates that of the authority.",
        broken=partial(cass_operator_1023, repaired=False),
        repaired=partial(cass_operator_1023, repaired=True),
        actions=[_create],
        check=keystores_are_there,
    ),
    _case(
        name="cass-operator-1362",
        report="https://k8ssandra.atlassian.net/browse/K8SSAND-1362",
        cause="It labels a node as starting before it starts it.",
        broken=partial(cass_operator_1362, repaired=False),
        repaired=partial(cass_operator_1362, repaired=True),
        actions=[_create],
        check=process_runs,
    ),
    _case(
        name="casskop-370",
        report="https://github.com/Orange-OpenSource/casskop/issues/370",
        cause="It writes the state of a decommission after the member was removed.",
        broken=partial(casskop_370, repaired=False),
        repaired=partial(casskop_370, repaired=True),
        actions=[creating(replicas=2), changing("scale_down", replicas=1)],
        check=claims_fit_the_set,
    ),
    _case(
        name="mongodb-operator-578",
        report="https://github.com/percona/percona-server-mongodb-operator/pull/797",
        cause="It creates the internal Secret only when the external one is missing.",
        broken=partial(_certificates_operator, repaired=False),
        repaired=partial(_certificates_operator, repaired=True),
        actions=[_create],
        check=secrets_are_there,
    ),
    _case(
        name="mongodb-operator-579",
        report="https://github.com/percona/percona-server-mongodb-operator/pull/797",
        cause="It requests the internal certificate only when the request of the external one is missing.",
        broken=partial(_cert_manager_operator, repaired=False),
        repaired=partial(_cert_manager_operator, repaired=True),
        kinds=[Cluster, Certificate],
        actions=[_create],
        check=certificates_are_there,
    ),
    _case(
        name="nifikop-49",
        report="https://github.com/konpyutaika/nifikop/issues/49",
        cause="It stores new settings before it notes that the node needs a restart.",
        broken=partial(nifikop_49, repaired=False),
        repaired=partial(nifikop_49, repaired=True),
        actions=[creating(config="one"), changing("change_config", config="two")],
        check=config_is_stored,
    ),
    _case(
        name="nifikop-79",
        report="https://github.com/konpyutaika/nifikop/issues/79",
        cause="It notes that a node was added after it created the pod, and never if the pod exists.",
        broken=partial(nifikop_79, repaired=False),
        repaired=partial(nifikop_79, repaired=True),
        actions=[creating(replicas=2), changing("scale_down", replicas=1)],
        check=pods_are_there,
    ),
    _case(
        name="rabbitmq-operator-782",
        report="https://github.com/rabbitmq/cluster-operator/issues/782",
        cause="It deletes the StatefulSet that has the old size before it resizes the claims.",
        broken=partial(rabbitmq_operator_782, repaired=False),
        repaired=partial(rabbitmq_operator_782, repaired=True),
        actions=[creating(storage=10), changing("expand", storage=15)],
        check=claim_has_its_size,
    ),
    _case(
        name="xtradb-operator-896",
        report="https://github.com/percona/percona-xtradb-cluster-operator/pull/1043",
        cause="It creates the internal Secret only when the external one is missing.",
        broken=partial(_certificates_operator, repaired=False),
        repaired=partial(_certificates_operator, repaired=True),
        actions=[_create],
        check=secrets_are_there,
    ),
    _case(
        name="xtradb-operator-897",
        report="https://github.com/percona/percona-xtradb-cluster-operator/pull/1043",
        cause="It requests the internal certificate only when the request of the external one is missing.",
        broken=partial(_cert_manager_operator, repaired=False),
        repaired=partial(_cert_manager_operator, repaired=True),
        kinds=[Cluster, Certificate],
        actions=[_create],
        check=certificates_are_there,
    ),
    _case(
        name="xtradb-operator-979",
        report="https://jira.percona.com/browse/K8SPXC-979",
        cause="It takes a missing StatefulSet for the end of the clean-up, before the claims are deleted (assumed).",
        broken=partial(xtradb_operator_979, repaired=False),
        repaired=partial(xtradb_operator_979, repaired=True),
        actions=[_create, delete_cluster],
        check=claims_go_with_the_cluster,
    ),
]
