"""mongodb-community-operator: arbiters, TLS, versions, and overrides of the StatefulSet."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from opsdk import Context, Model, Object, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core import v1 as core
from tests.corpus.acto.kit import (
    ABSENT_IMAGE,
    IMAGE,
    Status,
    acto_case,
    apply_when_ready,
    config,
    gvk,
    live,
    new_operator,
    report,
    workload,
)

Count = Annotated[int, Meta(ge=0, le=3)]
VERSIONS = ("4.0", "4.2", "4.4")


class ArbitratedSpec(Model, kw_only=True):
    """Members and arbiters."""

    members: Annotated[int, Meta(ge=1, le=3)] = 1
    arbiters: Count = 0


class Arbitrated(Object[ArbitratedSpec, Status]):
    """A replica set with arbiters."""

    gvk = gvk("Arbitrated")


def add_arbiters(*, repaired: bool) -> Operator:
    """Arbiters are started with a new replica set only: one that gets them later waits for them."""
    operator = new_operator()

    @operator.reconciler(Arbitrated, owns=[Deployment])
    async def reconcile(database: Arbitrated, ctx: Context) -> None:
        members = workload(database, replicas=database.spec.members)
        if repaired or await live(ctx, members) is None:
            await ctx.apply(workload(database, "arbiter", replicas=database.spec.arbiters))
        await report(database, ctx, await ctx.apply(members))

    return operator


class Tls(Model, kw_only=True):
    """The certificate."""

    enabled: bool = False
    certificate: str | None = None


class EncryptedSpec(Model, kw_only=True):
    """Whether connections are encrypted."""

    tls: Tls = field(default_factory=Tls)


class Encrypted(Object[EncryptedSpec, Status]):
    """A replica set with TLS."""

    gvk = gvk("Encrypted")


def encrypt_connections(*, repaired: bool) -> Operator:
    """TLS without the name of a certificate is not expected: each reconcile raises an AttributeError."""
    operator = new_operator(reports_errors=False)

    @operator.reconciler(Encrypted, owns=[core.ConfigMap])
    async def reconcile(database: Encrypted, ctx: Context) -> None:
        tls = database.spec.tls
        if not tls.enabled:
            await ctx.apply(config(database, mode="disabled"))
        elif repaired and not tls.certificate:
            await ctx.apply(config(database, mode="incomplete"))
        else:
            certificate: Any = tls.certificate
            await ctx.apply(config(database, mode="required", file=certificate.upper()))

    return operator


class CompatibleSpec(Model, kw_only=True):
    """The version of the data."""

    feature_compatibility_version: str = "4.4"


class Compatible(Object[CompatibleSpec, Status]):
    """A replica set with a version of its data."""

    gvk = gvk("Compatible")


def set_the_version(*, repaired: bool) -> Operator:
    """An unknown version stops the agents, and a known one is not set before they are ready."""
    operator = new_operator()

    @operator.reconciler(Compatible, owns=[Deployment])
    async def reconcile(database: Compatible, ctx: Context) -> None:
        version = database.spec.feature_compatibility_version
        desired = workload(
            database, image=IMAGE if version in VERSIONS else ABSENT_IMAGE, annotations={"version": version}
        )
        await apply_when_ready(database, ctx, desired, repaired=repaired)

    return operator


class Sidecar(Model, kw_only=True):
    """A container more."""

    image: Annotated[str, Meta(min_length=1)] = IMAGE


class OverriddenPodsSpec(Model, kw_only=True):
    """An override of the pods."""

    sidecar: Sidecar | None = None


class OverriddenPods(Object[OverriddenPodsSpec, Status]):
    """A replica set with an override of its pods."""

    gvk = gvk("OverriddenPods")


def override_the_pods(*, repaired: bool) -> Operator:
    """A container that cannot run stays in the pods: no override is applied before all pods are ready."""
    operator = new_operator()

    @operator.reconciler(OverriddenPods, owns=[Deployment])
    async def reconcile(database: OverriddenPods, ctx: Context) -> None:
        sidecar = database.spec.sidecar
        sidecars = [] if sidecar is None else [core.Container(name="sidecar", image=sidecar.image)]
        await apply_when_ready(database, ctx, workload(database, sidecars=sidecars), repaired=repaired)

    return operator


class OverriddenTaintsSpec(Model, kw_only=True):
    """An override of the tolerated taints, by their keys."""

    tolerations: list[Annotated[str, Meta(pattern="^[a-z]{1,20}$")]] = field(default_factory=list)


class OverriddenTaints(Object[OverriddenTaintsSpec, Status]):
    """A replica set with an override of its tolerations."""

    gvk = gvk("OverriddenTaints")


def override_the_taints(*, repaired: bool) -> Operator:
    """An override of a list is merged into the present one, so that nothing of it can be taken back."""
    operator = new_operator()

    @operator.reconciler(OverriddenTaints, owns=[Deployment])
    async def reconcile(database: OverriddenTaints, ctx: Context) -> None:
        keys = set(database.spec.tolerations)
        existing = await live(ctx, workload(database))
        if existing is not None and not repaired:
            keys |= {str(each.key) for each in existing.spec.template.spec.tolerations}
        tolerations = [core.Toleration(key=key, operator="Exists") for key in sorted(keys)]
        await report(database, ctx, await ctx.apply(workload(database, tolerations=tolerations)))

    return operator


class OverriddenReplicasSpec(Model, kw_only=True):
    """The members, and an override of the StatefulSet's replicas."""

    members: Annotated[int, Meta(ge=1, le=3)] = 2
    override_replicas: Annotated[int, Meta(ge=1, le=3)] | None = None


class OverriddenReplicas(Object[OverriddenReplicasSpec, Status]):
    """A replica set with an override of its replicas."""

    gvk = gvk("OverriddenReplicas")


def override_the_replicas(*, repaired: bool) -> Operator:
    """The override of the replicas counts for a new StatefulSet, and not for one that exists."""
    operator = new_operator()

    @operator.reconciler(OverriddenReplicas, owns=[Deployment])
    async def reconcile(database: OverriddenReplicas, ctx: Context) -> None:
        spec = database.spec
        is_new = await live(ctx, workload(database)) is None
        override = spec.override_replicas if is_new or repaired else None
        await report(database, ctx, await ctx.apply(workload(database, replicas=override or spec.members)))

    return operator


CASES = [
    acto_case(
        add_arbiters, Arbitrated, ("mongodb-community-operator", 1024), "system error",
        [ArbitratedSpec(), ArbitratedSpec(arbiters=1)],
    ),
    acto_case(
        encrypt_connections, Encrypted, ("mongodb-community-operator", 1054), "operator error",
        [EncryptedSpec(), EncryptedSpec(tls=Tls(enabled=True)), EncryptedSpec()],
    ),
    acto_case(
        set_the_version, Compatible, ("mongodb-community-operator", 1072), "recovery failure",
        [CompatibleSpec(), CompatibleSpec(feature_compatibility_version="4.2.4"), CompatibleSpec()],
    ),
    acto_case(
        override_the_pods, OverriddenPods, ("mongodb-community-operator", 1245), "recovery failure",
        [OverriddenPodsSpec(), OverriddenPodsSpec(sidecar=Sidecar(image=ABSENT_IMAGE)), OverriddenPodsSpec()],
    ),
    acto_case(
        override_the_taints, OverriddenTaints, ("mongodb-community-operator", 1251), "undesired state",
        [OverriddenTaintsSpec(tolerations=["a"]), OverriddenTaintsSpec()],
    ),
    acto_case(
        override_the_replicas, OverriddenReplicas, ("mongodb-community-operator", 1252), "undesired state",
        [OverriddenReplicasSpec(override_replicas=1), OverriddenReplicasSpec(override_replicas=3)],
    ),
]  # fmt: skip
"""The cases of this operator."""
