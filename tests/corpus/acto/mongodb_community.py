"""mongodb-community-operator: arbiters, TLS, versions, and overrides of the StatefulSet."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from opsdk import Context, Model, Object
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core import v1 as core
from tests.corpus.acto.kit import (
    ABSENT_IMAGE,
    IMAGE,
    Status,
    acto_case,
    apply_and_report,
    apply_when_ready,
    config,
    gvk,
    live,
    reconciled,
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


@reconciled(Arbitrated, owns=[Deployment])
async def add_arbiters(database: Arbitrated, ctx: Context, *, repaired: bool) -> None:
    """It starts arbiters only with a new replica set. A replica set that gets them later waits for them."""
    members = workload(database, replicas=database.spec.members)
    if repaired or await live(ctx, members) is None:
        await ctx.apply(workload(database, "arbiter", replicas=database.spec.arbiters))
    await apply_and_report(database, ctx, members)


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


@reconciled(Encrypted, owns=[core.ConfigMap], reports_errors=False)
async def encrypt_connections(database: Encrypted, ctx: Context, *, repaired: bool) -> None:
    """It does not expect TLS without the name of a certificate: each reconcile raises an AttributeError."""
    tls = database.spec.tls
    if not tls.enabled:
        await ctx.apply(config(database, mode="disabled"))
    elif repaired and not tls.certificate:
        await ctx.apply(config(database, mode="incomplete"))
    else:
        certificate: Any = tls.certificate
        await ctx.apply(config(database, mode="required", file=certificate.upper()))


class CompatibleSpec(Model, kw_only=True):
    """The version of the data."""

    feature_compatibility_version: str = "4.4"


class Compatible(Object[CompatibleSpec, Status]):
    """A replica set with a version of its data."""

    gvk = gvk("Compatible")


@reconciled(Compatible, owns=[Deployment])
async def set_the_version(database: Compatible, ctx: Context, *, repaired: bool) -> None:
    """An unknown version stops the agents. It sets no other version before they are ready."""
    version = database.spec.feature_compatibility_version
    desired = workload(database, image=IMAGE if version in VERSIONS else ABSENT_IMAGE, annotations={"version": version})
    await apply_when_ready(database, ctx, desired, repaired=repaired)


class Sidecar(Model, kw_only=True):
    """A container more."""

    image: Annotated[str, Meta(min_length=1)] = IMAGE


class OverriddenPodsSpec(Model, kw_only=True):
    """An override of the pods."""

    sidecar: Sidecar | None = None


class OverriddenPods(Object[OverriddenPodsSpec, Status]):
    """A replica set with an override of its pods."""

    gvk = gvk("OverriddenPods")


@reconciled(OverriddenPods, owns=[Deployment])
async def override_the_pods(database: OverriddenPods, ctx: Context, *, repaired: bool) -> None:
    """A container that cannot run stays in the pods: it applies no override before all pods are ready."""
    sidecar = database.spec.sidecar
    sidecars = [] if sidecar is None else [core.Container(name="sidecar", image=sidecar.image)]
    await apply_when_ready(database, ctx, workload(database, sidecars=sidecars), repaired=repaired)


class OverriddenTaintsSpec(Model, kw_only=True):
    """An override of the tolerated taints, by their keys."""

    tolerations: list[Annotated[str, Meta(pattern="^[a-z]{1,20}$")]] = field(default_factory=list)


class OverriddenTaints(Object[OverriddenTaintsSpec, Status]):
    """A replica set with an override of its tolerations."""

    gvk = gvk("OverriddenTaints")


@reconciled(OverriddenTaints, owns=[Deployment])
async def override_the_taints(database: OverriddenTaints, ctx: Context, *, repaired: bool) -> None:
    """It merges an override into the present list, so that the user can remove nothing from it."""
    keys = set(database.spec.tolerations)
    existing = await live(ctx, workload(database))
    if existing is not None and not repaired:
        keys |= {str(each.key) for each in existing.spec.template.spec.tolerations}
    tolerations = [core.Toleration(key=key, operator="Exists") for key in sorted(keys)]
    await apply_and_report(database, ctx, workload(database, tolerations=tolerations))


class OverriddenReplicasSpec(Model, kw_only=True):
    """The members, and an override of the StatefulSet's replicas."""

    members: Annotated[int, Meta(ge=1, le=3)] = 2
    override_replicas: Annotated[int, Meta(ge=1, le=3)] | None = None


class OverriddenReplicas(Object[OverriddenReplicasSpec, Status]):
    """A replica set with an override of its replicas."""

    gvk = gvk("OverriddenReplicas")


@reconciled(OverriddenReplicas, owns=[Deployment])
async def override_the_replicas(database: OverriddenReplicas, ctx: Context, *, repaired: bool) -> None:
    """It uses the override of the replicas for a new StatefulSet, and not for an existing one."""
    spec = database.spec
    is_new = await live(ctx, workload(database)) is None
    override = spec.override_replicas if is_new or repaired else None
    await apply_and_report(database, ctx, workload(database, replicas=override or spec.members))


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
