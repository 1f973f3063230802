"""rabbitmq-operator: annotations of a Service, and the class of the volumes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from opsdk import Context, Model, Object
from opsdk.api.core import v1 as core
from opsdk.apimachinery.quantity import Quantity
from opsdk.recipes import is_controlled_by
from tests.corpus.acto.kit import (
    Status,
    acto_case,
    gvk,
    live,
    meta,
    reconciled,
    service,
)


class AnnotatedServiceSpec(Model, kw_only=True):
    """The annotations of the Service."""

    annotations: dict[str, str] = field(default_factory=dict)


class AnnotatedService(Object[AnnotatedServiceSpec, Status]):
    """A cluster with a Service."""

    gvk = gvk("AnnotatedService")


@reconciled(AnnotatedService, owns=[core.Service])
async def annotate_the_service(cluster: AnnotatedService, ctx: Context, *, repaired: bool) -> None:
    """Annotations that the user removes stay on the Service."""
    desired = service(cluster, annotations=dict(cluster.spec.annotations))
    existing = await live(ctx, desired)
    if existing is not None and not repaired:
        desired.metadata.annotations = {**existing.metadata.annotations, **desired.metadata.annotations}
    await ctx.apply(desired)


class ClassifiedVolumesSpec(Model, kw_only=True):
    """The class of the volumes."""

    volume_class: Annotated[str, Meta(pattern="^[a-z]{1,20}$")] = "standard"


class ClassifiedVolumes(Object[ClassifiedVolumesSpec, Status]):
    """A cluster with volumes."""

    gvk = gvk("ClassifiedVolumes")


@reconciled(ClassifiedVolumes, owns=[core.PersistentVolumeClaim])
async def choose_the_class(cluster: ClassifiedVolumes, ctx: Context, *, repaired: bool) -> None:
    """It ignores a new storage class, because the class of a claim cannot change.

    The twin deleted the claims of other clusters in the namespace, and `verify` was right to report it.
    """
    desired = core.PersistentVolumeClaim(
        metadata=meta(cluster, cluster.spec.volume_class if repaired else "data"),
        spec=core.PersistentVolumeClaimSpec(
            access_modes=["ReadWriteOnce"],
            resources=core.VolumeResourceRequirements(requests={"storage": Quantity("1Gi")}),
            storage_class_name=cluster.spec.volume_class,
        ),
    )
    for claim in await ctx.client.list(core.PersistentVolumeClaim, namespace=cluster.metadata.namespace):
        if repaired and is_controlled_by(cluster, claim) and claim.metadata.name != desired.metadata.name:
            await ctx.client.delete(claim, missing_ok=True)
    if await live(ctx, desired) is None:
        await ctx.apply(desired)


CASES = [
    acto_case(
        annotate_the_service, AnnotatedService, ("rabbitmq-operator", 968), "undesired state",
        [AnnotatedServiceSpec(annotations={"a": "b"}), AnnotatedServiceSpec()],
    ),
    acto_case(
        choose_the_class, ClassifiedVolumes, ("rabbitmq-operator", 992), "undesired state",
        [ClassifiedVolumesSpec(), ClassifiedVolumesSpec(volume_class="ssd")],
    ),
]  # fmt: skip
"""The cases of this operator."""
