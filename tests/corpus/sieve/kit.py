"""What the operators of the corpus share: a custom resource, its children, and its users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, TypeVar, cast

from msgspec import Meta, defstruct, field, structs

from opsdk import (
    Context,
    GroupVersionKind,
    LabelSelector,
    Model,
    Object,
    ObjectKey,
    ObjectMeta,
    Operator,
    OperatorOptions,
    Request,
)
from opsdk.api.apps.v1 import StatefulSet, StatefulSetSpec
from opsdk.api.core.v1 import (
    ConfigMap,
    Container,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Secret,
    Service,
    ServicePort,
    ServiceSpec,
    VolumeResourceRequirements,
)
from opsdk.api.policy.v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from opsdk.apimachinery.object import TypedObject
from opsdk.apimachinery.quantity import Quantity
from opsdk.builder.arguments import WatchSpec
from opsdk.client.patch import merge_patch
from opsdk.rbac.check import RbacCheck
from opsdk.recipes import is_deleting
from opsdk.testing.simulate import Action, World
from tests.corpus.case import CorpusCase, CorpusOperator, Reconciler, Study, corpus_operator

NAMESPACE: Final = "default"
NAME: Final = "demo"
KEY: Final = ObjectKey(NAMESPACE, NAME)
CLUSTER_LABEL: Final = "cluster"
UID_LABEL: Final = "cluster-uid"
FINALIZER: Final = "corpus.opsdk.dev/clean-up"
_LONGEST_DELETION: Final = 240
ObjectT = TypeVar("ObjectT", bound=TypedObject)


# ---------------------------------------------------------------- kinds
class ClusterSpec(Model, kw_only=True):
    """The settings of the operators of the studies. Each operator declares those that it reads."""

    replicas: Annotated[int, Meta(ge=0)] = 1
    replication_factor: Annotated[int, Meta(ge=1)] = 1
    storage: Annotated[int, Meta(ge=1)] = 10
    max_unavailable: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 1
    ui_port: Annotated[int, Meta(ge=-1, le=65535)] = 0
    sharding: bool = False
    arbiter: bool = False
    proxy: bool = False
    tls: bool = False
    config: str = ""


class ClusterStatus(Model, kw_only=True):
    """What the operators remember in the cluster."""

    phase: str = ""
    operation: str = ""
    config: str = ""
    ready_replicas: int = 0
    root_created: bool = False
    nodes: dict[str, str] = field(default_factory=dict)


class Cluster(Object[ClusterSpec, ClusterStatus]):
    """A cluster of a database, a queue, or a like system."""

    gvk = GroupVersionKind("corpus.opsdk.dev", "v1", "Cluster")


def cluster_with(*settings: str) -> type[Cluster]:
    """Return the kind of clusters whose definition has these settings alone."""
    fields = [(each.name, each.type, each.default) for each in structs.fields(ClusterSpec) if each.name in settings]
    spec = defstruct("ClusterSpec", fields, bases=(Model,), kw_only=True)

    class ClusterPart(Object[spec, ClusterStatus]):  # type: ignore[valid-type]
        """A cluster with some settings."""

        gvk = Cluster.gvk

    return cast("type[Cluster]", ClusterPart)


class CertificateSpec(Model, kw_only=True):
    """The Secret that gets the certificate."""

    secret_name: str = ""


class Certificate(Object[CertificateSpec, None]):
    """A certificate, as cert-manager defines it."""

    gvk = GroupVersionKind("certificates.opsdk.dev", "v1", "Certificate")


# ---------------------------------------------------------------- operators
def new_operator(*, elected: bool = False) -> Operator:
    """Return an operator without reconcilers.

    Args:
        elected: it runs on one of two replicas.
    """
    options = OperatorOptions(
        leader_election=elected,
        leader_election_namespace=NAMESPACE,
        # Few renewals, so that runs are short.
        lease_duration=30,
        renew_deadline=20,
        retry_period=10,
        rbac_check=RbacCheck.OFF,
    )
    return Operator("corpus", options)


def reconciled(
    *, settings: Sequence[str] = (), elected: bool = False, **declared: Any
) -> Callable[[Reconciler], CorpusOperator]:
    """Make an operator of the reconciler of clusters of both twins.

    Args:
        settings: of the clusters.
        elected: it runs on one of two replicas.
        declared: what else the declaration of the reconciler says, such as ``owns``.
    """
    kind = cluster_with(*settings)
    return lambda of_twins: corpus_operator(of_twins, partial(new_operator, elected=elected), kind, **declared)


def cleaned_up(
    apply: Reconciler, *, settings: Sequence[str] = (), elected: bool = True, **declared: Any
) -> Callable[[Reconciler], CorpusOperator]:
    """Make an operator of the finalizer of both twins, and of what they apply before.

    Args:
        apply: reconciles a cluster that is not being deleted.
        settings: of the clusters.
        elected: it runs on one of two replicas.
        declared: what else the declaration of the reconciler says, such as ``owns``.
    """
    kind = cluster_with(*settings)

    def decorate(clean_up: Reconciler) -> CorpusOperator:
        def factory(*, repaired: bool) -> Operator:
            operator = new_operator(elected=elected)

            async def clean_up_twin(cluster: Cluster, ctx: Context) -> None:
                await clean_up(cluster, ctx, repaired=repaired)

            # Its annotations name the class that has all settings.
            async def apply_twin(cluster: Any, ctx: Context) -> None:
                await apply(cluster, ctx)

            apply_twin.__annotations__["cluster"] = kind
            clean_up_twin.__annotations__["cluster"] = kind
            operator.reconciler(kind, finalizers={FINALIZER: clean_up_twin}, **declared)(apply_twin)
            return operator

        return factory

    return decorate


def cluster_of(obj: Any) -> list[Request]:
    """Return the request for the cluster of a labelled object."""
    name = obj.metadata.labels.get(CLUSTER_LABEL)
    return [Request(obj.metadata.namespace, name)] if name else []


def key_of(cluster: Cluster) -> ObjectKey:
    """Return the key of a cluster, and of those of its children that have its name."""
    return ObjectKey(cluster.metadata.namespace, cluster.metadata.name)


CLAIMS: Final = WatchSpec(kind=PersistentVolumeClaim, handler=cluster_of)
PODS: Final = WatchSpec(kind=Pod, handler=cluster_of)


async def is_current(cluster: Cluster, ctx: Context) -> bool:
    """Whether the server still has this state of the cluster: for use before a change that cannot be undone."""
    current = await ctx.client.get_or_none(Cluster, key_of(cluster), uncached=True)
    return (
        current is not None
        and current.metadata.uid == cluster.metadata.uid
        and current.metadata.generation == cluster.metadata.generation
    )


# ---------------------------------------------------------------- children
def meta(cluster: Cluster, name: str, *, labels: Mapping[str, str] | None = None) -> ObjectMeta:
    """Return the metadata of a child."""
    owned = {CLUSTER_LABEL: cluster.metadata.name, UID_LABEL: cluster.metadata.uid}
    return ObjectMeta(name=name, namespace=cluster.metadata.namespace, labels={**owned, **(labels or {})})


def claim(cluster: Cluster, ordinal: int, *, labels: Mapping[str, str] | None = None) -> PersistentVolumeClaim:
    """Return the claim of a member. It has no owner: a StatefulSet's claims outlive it.

    An annotation has its size: the server refuses to expand a claim that is not bound.
    """
    metadata = meta(cluster, f"data-{cluster.metadata.name}-{ordinal}", labels=labels)
    metadata.annotations["storage"] = str(cluster.spec.storage)
    return PersistentVolumeClaim(
        metadata=metadata,
        spec=PersistentVolumeClaimSpec(
            access_modes=["ReadWriteOnce"], resources=VolumeResourceRequirements(requests={"storage": Quantity("1Gi")})
        ),
    )


def _pod_spec() -> PodSpec:
    return PodSpec(containers=[Container(name="main", image="example.com/main:1")])


def member(cluster: Cluster, ordinal: int, *, labels: Mapping[str, str] | None = None) -> Pod:
    """Return the pod of a member."""
    return Pod(metadata=meta(cluster, f"{cluster.metadata.name}-{ordinal}", labels=labels), spec=_pod_spec())


def stateful_set(cluster: Cluster, suffix: str = "", *, replicas: int = 1) -> StatefulSet:
    """Return the StatefulSet of a component."""
    labels = {"component": suffix or "main"}
    return StatefulSet(
        metadata=meta(cluster, f"{cluster.metadata.name}-{suffix}" if suffix else cluster.metadata.name),
        spec=StatefulSetSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            service_name=cluster.metadata.name,
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=_pod_spec()),
        ),
    )


def service(cluster: Cluster, suffix: str, port: int) -> Service:
    """Return a Service of the cluster."""
    return Service(
        metadata=meta(cluster, f"{cluster.metadata.name}-{suffix}"), spec=ServiceSpec(ports=[ServicePort(port=port)])
    )


def secret(cluster: Cluster, suffix: str) -> Secret:
    """Return a Secret of the cluster."""
    return Secret(metadata=meta(cluster, f"{cluster.metadata.name}-{suffix}"), string_data={"tls.crt": suffix})


def config_map(cluster: Cluster, suffix: str, **data: str) -> ConfigMap:
    """Return a ConfigMap of the cluster."""
    return ConfigMap(metadata=meta(cluster, f"{cluster.metadata.name}-{suffix}"), data=data)


def disruption_budget(cluster: Cluster) -> PodDisruptionBudget:
    """Return the disruption budget of the cluster."""
    selector = LabelSelector(match_labels={CLUSTER_LABEL: cluster.metadata.name})
    spec = PodDisruptionBudgetSpec(max_unavailable=cluster.spec.max_unavailable, selector=selector)
    return PodDisruptionBudget(metadata=meta(cluster, cluster.metadata.name), spec=spec)


def ordinal_of(obj: Any) -> int:
    """Return the ordinal at the end of the name of an object."""
    return int(obj.metadata.name.rpartition("-")[2])


# ---------------------------------------------------------------- steps of reconcilers
async def child(cluster: Cluster, ctx: Context, kind: type[ObjectT], suffix: object) -> ObjectT | None:
    """Return the child with a suffix of its name; None if it does not exist."""
    name, namespace = f"{cluster.metadata.name}-{suffix}", cluster.metadata.namespace
    existing: ObjectT | None = await ctx.client.get_or_none(kind, name, namespace=namespace)
    return existing


async def children(cluster: Cluster, ctx: Context, kind: type[ObjectT], **labels: str) -> Sequence[ObjectT]:
    """Return the children of a kind, which have the name of the cluster and these labels."""
    selector = {CLUSTER_LABEL: cluster.metadata.name, **labels}
    existing: Sequence[ObjectT] = await ctx.client.list(
        kind, namespace=cluster.metadata.namespace, label_selector=selector
    )
    return existing


async def claim_of(cluster: Cluster, ctx: Context, ordinal: int) -> PersistentVolumeClaim | None:
    """Return the claim of a member; None if it does not exist."""
    name, namespace = f"data-{cluster.metadata.name}-{ordinal}", cluster.metadata.namespace
    return await ctx.client.get_or_none(PersistentVolumeClaim, name, namespace=namespace)


async def delete_child(cluster: Cluster, ctx: Context, kind: type[Any], suffix: object) -> None:
    """Delete the child with a suffix of its name, if it exists."""
    name, namespace = f"{cluster.metadata.name}-{suffix}", cluster.metadata.namespace
    await ctx.client.delete(kind, name, namespace=namespace, missing_ok=True)


async def remove_claims(cluster: Cluster, ctx: Context, size: int) -> None:
    """Delete the claims of the members beyond a size, if the server still has this state of the cluster."""
    surplus = [each for each in await children(cluster, ctx, PersistentVolumeClaim) if ordinal_of(each) >= size]
    if surplus and await is_current(cluster, ctx):
        for each in surplus:
            await ctx.client.delete(each, missing_ok=True)


async def note(cluster: Cluster, ctx: Context, **status: Any) -> None:
    """Write fields of the status."""
    async with ctx.status(cluster) as patch:
        for name, value in status.items():
            setattr(patch.status, name, value)


def members(
    component: str | None = None, *, has_claims: bool = True, labels: Mapping[str, str] | None = None
) -> Reconciler:
    """Return a reconciler that applies a StatefulSet, and then a claim for each of its members and for no other.

    Args:
        component: of the StatefulSet; None for no StatefulSet.
        has_claims: apply the claims.
        labels: of the claims.
    """

    async def apply(cluster: Cluster, ctx: Context) -> None:
        replicas = cluster.spec.replicas
        if component is not None:
            await ctx.apply(stateful_set(cluster, component, replicas=replicas))
        for ordinal in range(replicas if has_claims else 0):
            await ctx.apply(claim(cluster, ordinal, labels=labels), owner=None)
        if has_claims:
            await remove_claims(cluster, ctx, replicas)

    return apply


# ---------------------------------------------------------------- users
def creating(**spec: Any) -> Action:
    """Return a user who creates the cluster, or gives it this spec again."""

    async def create(world: World) -> None:
        desired = ClusterSpec(**spec)
        existing = await world.client.get_or_none(Cluster, KEY)
        if existing is None:
            obj = Cluster(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), spec=desired)
            await world.client.create(obj)
        elif not is_deleting(existing):
            existing.spec = desired
            await world.client.update(existing)

    return create


def changing(action: str, **spec: Any) -> Action:
    """Return a user who changes some settings of the cluster.

    Args:
        action: the name of the action.
        spec: fields by their names in JSON.
    """

    async def change(world: World) -> None:
        existing = await world.client.get_or_none(Cluster, KEY)
        if existing is not None and not is_deleting(existing):
            await world.client.patch(existing, merge_patch({"spec": spec}))

    change.__name__ = action
    return change


async def delete_cluster(world: World) -> None:
    """Delete the cluster, and wait until it is gone."""
    await world.client.delete(Cluster, KEY, missing_ok=True)
    for _ in range(_LONGEST_DELETION):
        if await world.client.get_or_none(Cluster, KEY) is None:
            return
        await asyncio.sleep(1)


async def look_around(_: World) -> None:
    """Do nothing: the operator has time until the next action."""


# ---------------------------------------------------------------- checks
async def live_cluster(world: World) -> Cluster | None:
    """Return the cluster; None if it does not exist. Raises AssertionError while it is being deleted."""
    cluster = await world.client.get_or_none(Cluster, KEY)
    assert cluster is None or not is_deleting(cluster), "the cluster is not let go"
    return cluster


async def assert_names(world: World, kind: type[Any], expected: Sequence[str]) -> None:
    """Raise AssertionError unless exactly these objects of a kind belong to a cluster."""
    objects = await world.client.list(kind, namespace=NAMESPACE, label_selector={CLUSTER_LABEL: NAME})
    names = sorted(obj.metadata.name for obj in objects)
    assert names == sorted(expected), f"{kind.__name__}: {names} instead of {sorted(expected)}"
    assert not any(map(is_deleting, objects)), f"a {kind.__name__} is being deleted"


async def pods_are_there(world: World) -> None:
    """The pods are those of the members."""
    await _assert_members(world, Pod, NAME)


async def claims_are_there(world: World) -> None:
    """The claims are those of the members; without a cluster there are none."""
    await _assert_members(world, PersistentVolumeClaim, f"data-{NAME}")


async def _assert_members(world: World, kind: type[Any], prefix: str) -> None:
    cluster = await live_cluster(world)
    count = cluster.spec.replicas if cluster else 0
    await assert_names(world, kind, [f"{prefix}-{ordinal}" for ordinal in range(count)])


async def stateful_set_is_there(world: World) -> None:
    """A cluster has its StatefulSet."""
    await assert_names(world, StatefulSet, [NAME] if await live_cluster(world) else [])


# ---------------------------------------------------------------- cases
def sieve_case(operator: Callable[..., Operator], pattern: str, **fields: Any) -> CorpusCase:
    """Return a case of the study.

    Args:
        operator: creates the operator, with the bug or repaired.
        pattern: the column of the study's table 3.
        fields: as of `CorpusCase`.
    """
    broken, repaired = partial(operator, repaired=False), partial(operator, repaired=True)
    declared: dict[str, Any] = {"kinds": [Cluster], "broken": broken, "repaired": repaired, **fields}
    return CorpusCase(study=Study.SIEVE, pattern=pattern, **declared)
