"""Percona's operators of MongoDB and of XtraDB: annotations, settings without effect, Services, labels."""

from __future__ import annotations

from typing import Annotated

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
    gvk,
    live,
    reconciled,
    service,
    workload,
)

Size = Annotated[int, Meta(ge=1, le=3)]


class AnnotatedPodsSpec(Model, kw_only=True):
    """The annotations of the pods."""

    annotations: dict[str, str] = field(default_factory=dict)


class AnnotatedPods(Object[AnnotatedPodsSpec, Status]):
    """A replica set with annotations of its pods."""

    gvk = gvk("AnnotatedPods")


@reconciled(AnnotatedPods, owns=[Deployment])
async def annotate_pods(database: AnnotatedPods, ctx: Context, *, repaired: bool) -> None:
    """Annotations that the user removes stay on the pods: it keeps those of the old template."""
    annotations = dict(database.spec.annotations)
    existing = await live(ctx, workload(database))
    if existing is not None and not repaired:
        annotations = {**existing.spec.template.metadata.annotations, **annotations}
    await apply_and_report(database, ctx, workload(database, annotations=annotations))


class StorageEngine(Model, kw_only=True):
    """Settings of the storage engine."""

    engine: str = "wiredTiger"
    cache_percent: Annotated[int, Meta(ge=1, le=100)] = 50


class ConfiguredStorageSpec(Model, kw_only=True):
    """Members, and settings for all of them."""

    size: Size = 1
    mongod: StorageEngine | None = None


class ConfiguredStorage(Object[ConfiguredStorageSpec, Status]):
    """A database with settings of its storage."""

    gvk = gvk("ConfiguredStorage")


@reconciled(ConfiguredStorage, owns=[Deployment])
async def configure_storage(database: ConfiguredStorage, ctx: Context, *, repaired: bool) -> None:
    """The definition has settings of the storage, and the operator does not read them."""
    mongod = database.spec.mongod
    settings = {}
    if repaired and mongod is not None:
        settings = {"engine": mongod.engine, "cache": str(mongod.cache_percent)}
    child = workload(database, replicas=database.spec.size, annotations=settings)
    await apply_and_report(database, ctx, child)


class AnnotatedRouterSpec(Model, kw_only=True):
    """The annotations of the Service."""

    service_annotations: dict[str, str] = field(default_factory=dict)


class AnnotatedRouter(Object[AnnotatedRouterSpec, Status]):
    """A database with a Service of its routers."""

    gvk = gvk("AnnotatedRouter")


@reconciled(AnnotatedRouter, owns=[core.Service])
async def annotate_the_router(database: AnnotatedRouter, ctx: Context, *, repaired: bool) -> None:
    """Annotations that the user removes stay on the Service of the routers."""
    desired = service(database, "mongos", annotations=dict(database.spec.service_annotations))
    existing = await live(ctx, desired)
    if existing is not None and not repaired:
        desired.metadata.annotations = {**existing.metadata.annotations, **desired.metadata.annotations}
    await ctx.apply(desired)


class Exposure(Model, kw_only=True):
    """Whether members are reached from outside."""

    enabled: bool = False


class ExposedMembersSpec(Model, kw_only=True):
    """The members, and their exposure."""

    size: Size = 2
    expose: Exposure = field(default_factory=Exposure)


class ExposedMembers(Object[ExposedMembersSpec, Status]):
    """A replica set whose members have Services."""

    gvk = gvk("ExposedMembers")


@reconciled(ExposedMembers, owns=[core.Service])
async def expose_members(database: ExposedMembers, ctx: Context, *, repaired: bool) -> None:
    """The Services of the members stay after their exposure is disabled."""
    count = database.spec.size if database.spec.expose.enabled else 0
    for number in range(3):
        child = service(database, str(number))
        if number < count:
            await ctx.apply(child)
        elif repaired or database.spec.expose.enabled:
            await ctx.client.delete(child, missing_ok=True)


class CompressedSpec(Model, kw_only=True):
    """How data is compressed."""

    block_compressor: str = "snappy"


class Compressed(Object[CompressedSpec, Status]):
    """A replica set with compressed data."""

    gvk = gvk("Compressed")


@reconciled(Compressed, owns=[Deployment])
async def compress_data(database: Compressed, ctx: Context, *, repaired: bool) -> None:
    """With an unknown compressor no member starts. It applies no other compressor before all members are ready."""
    compressor = database.spec.block_compressor
    image = IMAGE if compressor in ("snappy", "zlib", "zstd") else ABSENT_IMAGE
    desired = workload(database, image=image, annotations={"compressor": compressor})
    await apply_when_ready(database, ctx, desired, repaired=repaired)


# ---------------------------------------------------------------- XtraDB
class LabelledProxySpec(Model, kw_only=True):
    """The labels of the proxy."""

    labels: dict[str, str] = field(default_factory=dict)


class LabelledProxy(Object[LabelledProxySpec, Status]):
    """A cluster behind a proxy."""

    gvk = gvk("LabelledProxy")


@reconciled(LabelledProxy, owns=[Deployment])
async def label_the_proxy(cluster: LabelledProxy, ctx: Context, *, repaired: bool) -> None:
    """The labels of the proxy never change after its creation."""
    desired = workload(cluster, "haproxy")
    desired.metadata.labels = dict(cluster.spec.labels)
    existing = await live(ctx, desired)
    if existing is not None and not repaired:
        desired.metadata.labels = existing.metadata.labels
    await apply_and_report(cluster, ctx, desired)


class LabelledServiceSpec(Model, kw_only=True):
    """Members, and labels of their Service."""

    size: Size = 1
    service_labels: dict[str, str] = field(default_factory=dict)


class LabelledService(Object[LabelledServiceSpec, Status]):
    """A cluster with a Service."""

    gvk = gvk("LabelledService")


@reconciled(LabelledService, owns=[core.Service, Deployment])
async def label_the_service(cluster: LabelledService, ctx: Context, *, repaired: bool) -> None:
    """The definition has labels for the Service, and the operator does not read them."""
    await ctx.apply(service(cluster, labels=dict(cluster.spec.service_labels) if repaired else {}))
    await apply_and_report(cluster, ctx, workload(cluster, replicas=cluster.spec.size))


class SelectedNodesSpec(Model, kw_only=True):
    """The nodes for the pods."""

    node_selector: dict[str, str] = field(default_factory=dict)


class SelectedNodes(Object[SelectedNodesSpec, Status]):
    """A cluster on chosen nodes."""

    gvk = gvk("SelectedNodes")


@reconciled(SelectedNodes, owns=[Deployment])
async def select_nodes(cluster: SelectedNodes, ctx: Context, *, repaired: bool) -> None:
    """A selector of absent nodes stays in the pods: it updates nothing before all pods are ready."""
    desired = workload(cluster, node_selector=dict(cluster.spec.node_selector))
    await apply_when_ready(cluster, ctx, desired, repaired=repaired)


MONGODB, XTRADB = "percona-server-mongodb-operator", "percona-xtradb-cluster-operator"
CASES = [
    acto_case(
        annotate_pods, AnnotatedPods, (MONGODB, 696), "undesired state",
        [AnnotatedPodsSpec(annotations={"a": "b"}), AnnotatedPodsSpec()],
    ),
    acto_case(
        configure_storage, ConfiguredStorage, (MONGODB, 738), "undesired state",
        [ConfiguredStorageSpec(), ConfiguredStorageSpec(mongod=StorageEngine())],
    ),
    acto_case(
        annotate_the_router, AnnotatedRouter, (MONGODB, 742), "undesired state",
        [AnnotatedRouterSpec(service_annotations={"a": "b"}), AnnotatedRouterSpec()],
    ),
    acto_case(
        expose_members, ExposedMembers, (MONGODB, 895), "undesired state",
        [ExposedMembersSpec(expose=Exposure(enabled=True)), ExposedMembersSpec()],
    ),
    acto_case(
        compress_data, Compressed, (MONGODB, 897), "recovery failure",
        [CompressedSpec(), CompressedSpec(block_compressor=""), CompressedSpec()],
    ),
    acto_case(
        label_the_proxy, LabelledProxy, (XTRADB, 1068), "undesired state",
        [LabelledProxySpec(labels={"a": "b"}), LabelledProxySpec()],
    ),
    acto_case(
        label_the_service, LabelledService, (XTRADB, 1069), "undesired state",
        [LabelledServiceSpec(), LabelledServiceSpec(service_labels={"a": "b"})],
    ),
    acto_case(
        select_nodes, SelectedNodes, (XTRADB, 1155), "recovery failure",
        [SelectedNodesSpec(), SelectedNodesSpec(node_selector={"disk": "none"}), SelectedNodesSpec()],
    ),
]  # fmt: skip
"""The cases of these operators."""
