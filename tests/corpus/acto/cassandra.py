"""cass-operator: replaced nodes, labels of a Service, labels of nodes, tolerations."""

from __future__ import annotations

from msgspec import field

from opsdk import Context, Model, Object
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core import v1 as core
from tests.corpus.acto.kit import (
    Status,
    acto_case,
    apply_and_report,
    apply_when_ready,
    gvk,
    live,
    reconciled,
    report,
    service,
    workload,
)


class ReplacedNodesSpec(Model, kw_only=True):
    """The nodes to replace."""

    size: int = 1
    replace_nodes: list[str] = field(default_factory=list)


class ReplacedNodes(Object[ReplacedNodesSpec, Status]):
    """A datacenter whose nodes are replaced."""

    gvk = gvk("ReplacedNodes")


@reconciled(ReplacedNodes, owns=[Deployment])
async def replace_nodes(datacenter: ReplacedNodes, ctx: Context, *, repaired: bool) -> None:
    """It waits for a node to replace that does not exist, also after the user has removed it from the spec."""
    names = datacenter.spec.replace_nodes
    memory = {} if datacenter.status is None or repaired else datacenter.status.memory
    pending = {**memory, **{name: "unknown" for name in names if not name.startswith(datacenter.metadata.name)}}
    async with ctx.status(datacenter) as patch:
        patch.status.memory = pending
    if not pending or repaired:
        await apply_and_report(datacenter, ctx, workload(datacenter, replicas=datacenter.spec.size % 4))


class LabelledSeedsSpec(Model, kw_only=True):
    """The labels of the seed Service."""

    additional_labels: dict[str, str] = field(default_factory=dict)


class LabelledSeeds(Object[LabelledSeedsSpec, Status]):
    """A datacenter with a Service of its seeds."""

    gvk = gvk("LabelledSeeds")


@reconciled(LabelledSeeds, owns=[core.Service])
async def label_seeds(datacenter: LabelledSeeds, ctx: Context, *, repaired: bool) -> None:
    """Labels that the user removes stay on the seed Service: it merges the old labels into the new ones."""
    desired = service(datacenter, "seeds", labels=datacenter.spec.additional_labels)
    existing = await live(ctx, desired)
    if existing is not None and not repaired:
        desired.metadata.labels = {**existing.metadata.labels, **desired.metadata.labels}
    await ctx.apply(desired)


class PlacedRacksSpec(Model, kw_only=True):
    """The labels of the nodes for the pods."""

    node_affinity_labels: dict[str, str] = field(default_factory=dict)


class PlacedRacks(Object[PlacedRacksSpec, Status]):
    """A datacenter on nodes with labels."""

    gvk = gvk("PlacedRacks")


@reconciled(PlacedRacks, owns=[Deployment])
async def place_racks(datacenter: PlacedRacks, ctx: Context, *, repaired: bool) -> None:
    """Labels that no node has stay in the pod template: it updates nothing before all pods are ready."""
    desired = workload(datacenter, node_selector=datacenter.spec.node_affinity_labels)
    await apply_when_ready(datacenter, ctx, desired, repaired=repaired)


class ToleratedTaint(Model, kw_only=True):
    """A taint that the pods tolerate for some time."""

    key: str = "dedicated"
    toleration_seconds: int = 60


class ToleratedTaintsSpec(Model, kw_only=True):
    """The taints that the pods tolerate."""

    tolerations: list[ToleratedTaint] = field(default_factory=list)


class ToleratedTaints(Object[ToleratedTaintsSpec, Status]):
    """A datacenter whose pods tolerate taints."""

    gvk = gvk("ToleratedTaints")


@reconciled(ToleratedTaints, owns=[Deployment])
async def tolerate_taints(datacenter: ToleratedTaints, ctx: Context, *, repaired: bool) -> None:
    """A new time of a toleration changes nothing: it compares only the keys of the tolerations."""
    tolerations = [
        core.Toleration(key=each.key, operator="Exists", effect="NoExecute", toleration_seconds=each.toleration_seconds)
        for each in datacenter.spec.tolerations
    ]
    desired = workload(datacenter, tolerations=tolerations)
    existing = await live(ctx, desired)
    keys = [] if existing is None else [each.key for each in existing.spec.template.spec.tolerations]
    if existing is None or repaired or keys != [each.key for each in tolerations]:
        existing = await ctx.apply(desired)
    await report(datacenter, ctx, existing)


CASES = [
    acto_case(
        replace_nodes, ReplacedNodes, ("cass-operator", 315), "recovery failure",
        [ReplacedNodesSpec(), ReplacedNodesSpec(replace_nodes=["absent"]), ReplacedNodesSpec(size=2)],
    ),
    acto_case(
        label_seeds, LabelledSeeds, ("cass-operator", 330), "undesired state",
        [LabelledSeedsSpec(additional_labels={"a": "b"}), LabelledSeedsSpec()],
    ),
    acto_case(
        place_racks, PlacedRacks, ("cass-operator", 334), "recovery failure",
        [PlacedRacksSpec(), PlacedRacksSpec(node_affinity_labels={"disk": "none"}), PlacedRacksSpec()],
    ),
    acto_case(
        tolerate_taints, ToleratedTaints, ("cass-operator", 471), "undesired state",
        [
            ToleratedTaintsSpec(tolerations=[ToleratedTaint(toleration_seconds=3600)]),
            ToleratedTaintsSpec(tolerations=[ToleratedTaint(toleration_seconds=7200)]),
        ],
    ),
]  # fmt: skip
"""The cases of this operator."""
