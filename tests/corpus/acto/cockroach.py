"""cockroach-operator: images without a tag, Ingresses, constraints of the placement."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from opsdk import Context, Model, Object, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core import v1 as core
from opsdk.api.networking.v1 import (
    Ingress,
    IngressBackend,
    IngressServiceBackend,
    IngressSpec,
    IngressTLS,
    ServiceBackendPort,
)
from tests.corpus.acto.kit import (
    IMAGE,
    Status,
    acto_case,
    apply_and_report,
    config,
    gvk,
    live,
    meta,
    new_operator,
    reconciled,
    workload,
)

Host = Annotated[str, Meta(pattern="^[a-z]{1,20}$")]


class TaggedImageSpec(Model, kw_only=True):
    """The image of the database."""

    image: Annotated[str, Meta(min_length=1)] = IMAGE


class TaggedImage(Object[TaggedImageSpec, Status]):
    """A cluster of one image."""

    gvk = gvk("TaggedImage")


@reconciled(TaggedImage, owns=[Deployment, core.ConfigMap], reports_errors=False)
async def read_the_tag(cluster: TaggedImage, ctx: Context, *, repaired: bool) -> None:
    """It reads the version after the colon of the image. Without a colon, each reconcile raises an IndexError."""
    image = cluster.spec.image.strip() or "unknown"
    version = image.partition(":")[2] or "latest" if repaired else image.split(":")[1]
    await ctx.apply(config(cluster, "version", version=version))
    await apply_and_report(cluster, ctx, workload(cluster, image=image))


class ServedConsoleSpec(Model, kw_only=True):
    """Where the console is served."""

    host: Host = "console"
    tls_secret: Annotated[str, Meta(pattern="^[a-z]{1,20}$")] = "certificate"
    annotations: dict[str, str] = field(default_factory=dict)


class ServedConsole(Object[ServedConsoleSpec, Status]):
    """A cluster with a console."""

    gvk = gvk("ServedConsole")


def ingress(cluster: ServedConsole) -> Ingress:
    """The Ingress of the console."""
    spec = cluster.spec
    backend = IngressBackend(
        service=IngressServiceBackend(name=cluster.metadata.name, port=ServiceBackendPort(number=80))
    )
    return Ingress(
        metadata=meta(cluster, "console", annotations=dict(spec.annotations)),
        spec=IngressSpec(default_backend=backend, tls=[IngressTLS(hosts=[spec.host], secret_name=spec.tls_secret)]),
    )


@reconciled(ServedConsole, owns=[Ingress])
async def serve_the_console(cluster: ServedConsole, ctx: Context, *, repaired: bool) -> None:
    """An update of the Ingress does not change its hosts and its Secret."""
    desired = ingress(cluster)
    existing = await live(ctx, desired)
    if existing is not None and not repaired:
        desired.spec.tls = existing.spec.tls
    await ctx.apply(desired)


@reconciled(ServedConsole, owns=[Ingress])
async def annotate_the_console(cluster: ServedConsole, ctx: Context, *, repaired: bool) -> None:
    """Annotations that the user removes stay on the Ingress."""
    desired = ingress(cluster)
    existing = await live(ctx, desired)
    if existing is not None and not repaired and not desired.metadata.annotations:
        desired.metadata.annotations = existing.metadata.annotations
    await ctx.apply(desired)


class SpreadNodesSpec(Model, kw_only=True):
    """How the pods are spread."""

    max_skew: Annotated[int, Meta(ge=1, le=9)] = 1
    when_unsatisfiable: str = "ScheduleAnyway"


class SpreadNodes(Object[SpreadNodesSpec, Status]):
    """A cluster that is spread over zones."""

    gvk = gvk("SpreadNodes")


def spread_the_nodes(*, repaired: bool) -> Operator:
    """It passes an unknown way to spread on to the API server, which refuses it each time. No status says so."""
    operator = new_operator(reports_errors=repaired)

    @operator.reconciler(SpreadNodes, owns=[Deployment])
    async def reconcile(cluster: SpreadNodes, ctx: Context) -> None:
        constraint = core.TopologySpreadConstraint(
            max_skew=cluster.spec.max_skew,
            topology_key="kubernetes.io/hostname",
            when_unsatisfiable=cluster.spec.when_unsatisfiable,
        )
        await apply_and_report(cluster, ctx, workload(cluster, topology_spread_constraints=[constraint]))

    return operator


CASES = [
    acto_case(
        read_the_tag, TaggedImage, ("cockroach-operator", 918), "operator error",
        [TaggedImageSpec(), TaggedImageSpec(image="cockroach"), TaggedImageSpec()],
    ),
    acto_case(
        serve_the_console, ServedConsole, ("cockroach-operator", 920), "undesired state",
        [ServedConsoleSpec(), ServedConsoleSpec(host="other", tls_secret="other")],
    ),
    acto_case(
        annotate_the_console, ServedConsole, ("cockroach-operator", 927), "undesired state",
        [ServedConsoleSpec(annotations={"a": "b"}), ServedConsoleSpec()],
    ),
    acto_case(
        spread_the_nodes, SpreadNodes, ("cockroach-operator", 953), "operator error",
        [SpreadNodesSpec(), SpreadNodesSpec(when_unsatisfiable="Never"), SpreadNodesSpec()], harmful=[1],
    ),
]  # fmt: skip
"""The cases of this operator."""
