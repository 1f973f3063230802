"""cass-operator: replaced nodes, labels of a Service, labels of nodes, tolerations."""

from __future__ import annotations

from msgspec import field

from opsdk import Context, Model, Object, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core import v1 as core
from tests.corpus.acto.kit import (
    Status,
    acto_case,
    apply_when_ready,
    gvk,
    live,
    new_operator,
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


def replace_nodes(*, repaired: bool) -> Operator:
    """A node to replace that does not exist is waited for, also after it was taken back."""
    operator = new_operator()

    @operator.reconciler(ReplacedNodes, owns=[Deployment])
    async def reconcile(datacenter: ReplacedNodes, ctx: Context) -> None:
        names = datacenter.spec.replace_nodes
        known = {} if datacenter.status is None or repaired else datacenter.status.memory
        pending = {**known, **{name: "unknown" for name in names if not name.startswith(datacenter.metadata.name)}}
        async with ctx.status(datacenter) as patch:
            patch.status.memory = pending
        if not pending or repaired:
            await report(datacenter, ctx, await ctx.apply(workload(datacenter, replicas=datacenter.spec.size % 4)))

    return operator


class LabelledSeedsSpec(Model, kw_only=True):
    """The labels of the seed Service."""

    additional_labels: dict[str, str] = field(default_factory=dict)


class LabelledSeeds(Object[LabelledSeedsSpec, Status]):
    """A datacenter with a Service of its seeds."""

    gvk = gvk("LabelledSeeds")


def label_seeds(*, repaired: bool) -> Operator:
    """Labels that the user takes back stay at the seed Service, because the old ones are merged in."""
    operator = new_operator()

    @operator.reconciler(LabelledSeeds, owns=[core.Service])
    async def reconcile(datacenter: LabelledSeeds, ctx: Context) -> None:
        desired = service(datacenter, "seeds", labels=datacenter.spec.additional_labels)
        existing = await live(ctx, desired)
        if existing is not None and not repaired:
            desired.metadata.labels = {**existing.metadata.labels, **desired.metadata.labels}
        await ctx.apply(desired)

    return operator


class PlacedRacksSpec(Model, kw_only=True):
    """The labels of the nodes for the pods."""

    node_affinity_labels: dict[str, str] = field(default_factory=dict)


class PlacedRacks(Object[PlacedRacksSpec, Status]):
    """A datacenter on nodes with labels."""

    gvk = gvk("PlacedRacks")


def place_racks(*, repaired: bool) -> Operator:
    """Labels that no node has stay in the pods' template: no update is made before all pods are ready."""
    operator = new_operator()

    @operator.reconciler(PlacedRacks, owns=[Deployment])
    async def reconcile(datacenter: PlacedRacks, ctx: Context) -> None:
        desired = workload(datacenter, node_selector=datacenter.spec.node_affinity_labels)
        await apply_when_ready(datacenter, ctx, desired, repaired=repaired)

    return operator


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


def tolerate_taints(*, repaired: bool) -> Operator:
    """Another time of a toleration changes nothing: only the keys of the tolerations are compared."""
    operator = new_operator()

    @operator.reconciler(ToleratedTaints, owns=[Deployment])
    async def reconcile(datacenter: ToleratedTaints, ctx: Context) -> None:
        tolerations = [
            core.Toleration(
                key=each.key, operator="Exists", effect="NoExecute", toleration_seconds=each.toleration_seconds
            )
            for each in datacenter.spec.tolerations
        ]
        desired = workload(datacenter, tolerations=tolerations)
        existing = await live(ctx, desired)
        keys = [] if existing is None else [each.key for each in existing.spec.template.spec.tolerations]
        if existing is None or repaired or keys != [each.key for each in tolerations]:
            existing = await ctx.apply(desired)
        await report(datacenter, ctx, existing)

    return operator


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
