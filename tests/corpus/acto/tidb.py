"""tidb-operator: the affinity of one component, and a log that another component receives."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from opsdk import Context, Model, Object
from opsdk.api.apps.v1 import Deployment
from tests.corpus.acto.kit import (
    ABSENT_IMAGE,
    IMAGE,
    Status,
    acto_case,
    apply_when_ready,
    gvk,
    live,
    reconciled,
    report,
    workload,
)


class PlacedTidbSpec(Model, kw_only=True):
    """The pods and their nodes."""

    replicas: Annotated[int, Meta(ge=1, le=3)] = 1
    node_selector: dict[str, str] = field(default_factory=dict)


class PlacedTidb(Object[PlacedTidbSpec, Status]):
    """The servers of a cluster."""

    gvk = gvk("PlacedTidb")


@reconciled(PlacedTidb, owns=[Deployment])
async def place_tidb(cluster: PlacedTidb, ctx: Context, *, repaired: bool) -> None:
    """It does not apply a new placement of the servers: it compares only their number and images."""
    desired = workload(cluster, replicas=cluster.spec.replicas, node_selector=dict(cluster.spec.node_selector))
    existing = await live(ctx, desired)
    if existing is None or repaired or existing.spec.replicas != cluster.spec.replicas:
        existing = await ctx.apply(desired)
    await report(cluster, ctx, existing)


class LoggedTidbSpec(Model, kw_only=True):
    """Whether the servers send a log of changes to pumps, of which there are none."""

    binlog_enabled: bool = False


class LoggedTidb(Object[LoggedTidbSpec, Status]):
    """A cluster with a log of changes."""

    gvk = gvk("LoggedTidb")


@reconciled(LoggedTidb, owns=[Deployment])
async def log_changes(cluster: LoggedTidb, ctx: Context, *, repaired: bool) -> None:
    """Servers with a log and without pumps do not start. It updates them only when they are ready."""
    image = ABSENT_IMAGE if cluster.spec.binlog_enabled else IMAGE
    desired = workload(cluster, image=image, annotations={"binlog": str(cluster.spec.binlog_enabled)})
    await apply_when_ready(cluster, ctx, desired, repaired=repaired)


CASES = [
    acto_case(
        place_tidb, PlacedTidb, ("tidb-operator", 4684), "undesired state",
        [PlacedTidbSpec(), PlacedTidbSpec(node_selector={"disk": "none"})],
    ),
    acto_case(
        log_changes, LoggedTidb, ("tidb-operator", 4946), "recovery failure",
        [LoggedTidbSpec(), LoggedTidbSpec(binlog_enabled=True), LoggedTidbSpec()],
    ),
]  # fmt: skip
"""The cases of this operator."""
