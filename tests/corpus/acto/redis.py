"""Two redis-operators: Services, affinities, sizes, resources, budgets, exporters."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from opsdk import Context, LabelSelector, Model, Object
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core import v1 as core
from opsdk.api.policy.v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from opsdk.apimachinery.crd import Rule
from opsdk.apimachinery.quantity import Quantity
from tests.corpus.acto.kit import (
    Status,
    acto_case,
    apply_and_report,
    apply_when_ready,
    config,
    gvk,
    live,
    meta,
    reconciled,
    service,
    workload,
)


class AnnotatedRedisSpec(Model, kw_only=True):
    """The annotations of the Service."""

    service_annotations: dict[str, str] = field(default_factory=dict)


class AnnotatedRedis(Object[AnnotatedRedisSpec, Status]):
    """A failover with a Service."""

    gvk = gvk("AnnotatedRedis")


@reconciled(AnnotatedRedis, owns=[core.Service])
async def annotate_redis(redis: AnnotatedRedis, ctx: Context, *, repaired: bool) -> None:
    """The Service is created once and never updated."""
    desired = service(redis, annotations=dict(redis.spec.service_annotations))
    if repaired or await live(ctx, desired) is None:
        await ctx.apply(desired)


class PlacedRedisSpec(Model, kw_only=True):
    """The nodes for the pods."""

    node_selector: dict[str, str] = field(default_factory=dict)


class PlacedRedis(Object[PlacedRedisSpec, Status]):
    """A failover on chosen nodes."""

    gvk = gvk("PlacedRedis")


@reconciled(PlacedRedis, owns=[Deployment])
async def place_redis(redis: PlacedRedis, ctx: Context, *, repaired: bool) -> None:
    """It waits for pods that no node takes before it applies the affinity that would place them."""
    desired = workload(redis, node_selector=dict(redis.spec.node_selector))
    await apply_when_ready(redis, ctx, desired, repaired=repaired)


@reconciled(PlacedRedis, owns=[Deployment])
async def place_leaders(redis: PlacedRedis, ctx: Context, *, repaired: bool) -> None:
    """Followers wait for the leaders, and it does not update leaders that no node takes."""
    desired = workload(redis, "leader", node_selector=dict(redis.spec.node_selector))
    await apply_when_ready(redis, ctx, desired, repaired=repaired)
    await ctx.apply(workload(redis, "follower", node_selector=dict(redis.spec.node_selector)))


# ---------------------------------------------------------------- OT-CONTAINER-KIT
class SizedVolumesSpec(Model, kw_only=True):
    """The size of the volumes."""

    rules = (Rule("self.storageGb >= oldSelf.storageGb", message="volumes do not shrink"),)

    storage_gb: Annotated[int, Meta(ge=1, le=100)] = 1


class SizedVolumes(Object[SizedVolumesSpec, Status]):
    """A cluster with volumes."""

    gvk = gvk("SizedVolumes")


@reconciled(SizedVolumes, owns=[core.ConfigMap])
async def size_the_volumes(redis: SizedVolumes, ctx: Context, *, repaired: bool) -> None:
    """The size of the volumes never changes after their creation."""
    desired = config(redis, "volumes", size=redis.spec.storage_gb)
    if repaired or await live(ctx, desired) is None:
        await ctx.apply(desired)


class Budget(Model, kw_only=True):
    """A disruption budget."""

    enabled: bool = False
    min_available: Annotated[int, Meta(ge=1, le=3)] = 1


class Group(Model, kw_only=True):
    """Leaders, or followers."""

    pdb: Budget = field(default_factory=Budget)


class BudgetedGroupsSpec(Model, kw_only=True):
    """The two groups."""

    redis_leader: Group = field(default_factory=Group)
    redis_follower: Group = field(default_factory=Group)


class BudgetedGroups(Object[BudgetedGroupsSpec, Status]):
    """A cluster with disruption budgets."""

    gvk = gvk("BudgetedGroups")


@reconciled(BudgetedGroups, owns=[PodDisruptionBudget])
async def budget_the_groups(redis: BudgetedGroups, ctx: Context, *, repaired: bool) -> None:
    """The definition has a budget of the followers, and the operator does not read it."""
    groups = {"leader": redis.spec.redis_leader}
    if repaired:
        groups["follower"] = redis.spec.redis_follower
    for name, group in groups.items():
        selector = LabelSelector(match_labels={"group": name})
        spec = PodDisruptionBudgetSpec(min_available=group.pdb.min_available, selector=selector)
        child = PodDisruptionBudget(metadata=meta(redis, name), spec=spec)
        if group.pdb.enabled:
            await ctx.apply(child)
        else:
            await ctx.client.delete(child, missing_ok=True)


class Amounts(Model, kw_only=True):
    """Amounts of resources."""

    cpu_millis: Annotated[int, Meta(ge=1, le=2000)] = 100
    memory_mb: Annotated[int, Meta(ge=1, le=2000)] = 64


class LimitedPodsSpec(Model, kw_only=True):
    """Members, and what each may use."""

    cluster_size: Annotated[int, Meta(ge=1, le=3)] = 1
    resources: Amounts | None = None


class LimitedPods(Object[LimitedPodsSpec, Status]):
    """A cluster with resources."""

    gvk = gvk("LimitedPods")


@reconciled(LimitedPods, owns=[Deployment])
async def limit_the_pods(redis: LimitedPods, ctx: Context, *, repaired: bool) -> None:
    """The definition has resources at the top of the spec, and the operator does not read them."""
    desired = workload(redis, replicas=redis.spec.cluster_size)
    if repaired and (amounts := redis.spec.resources) is not None:
        requests = {"cpu": Quantity(f"{amounts.cpu_millis}m"), "memory": Quantity(f"{amounts.memory_mb}M")}
        desired.spec.template.spec.containers[0].resources = core.ResourceRequirements(requests=requests)
    await apply_and_report(redis, ctx, desired)


class Exporter(Model, kw_only=True):
    """A container with metrics."""

    enabled: bool = False


class ExportedMetricsSpec(Model, kw_only=True):
    """The exporter of the metrics."""

    redis_exporter: Exporter = field(default_factory=Exporter)


class ExportedMetrics(Object[ExportedMetricsSpec, Status]):
    """A cluster with metrics."""

    gvk = gvk("ExportedMetrics")


@reconciled(ExportedMetrics, owns=[core.Service])
async def export_metrics(redis: ExportedMetrics, ctx: Context, *, repaired: bool) -> None:
    """The port of the exporter stays in the Service after the exporter is disabled."""
    ports = {"redis": 6379}
    if redis.spec.redis_exporter.enabled:
        ports["metrics"] = 9121
    existing = await live(ctx, service(redis))
    if existing is not None and not repaired:
        ports = {**{str(each.name): each.port for each in existing.spec.ports}, **ports}
    await ctx.apply(service(redis, ports=ports))


NOWHERE = {"disk": "none"}
ENABLED = Group(pdb=Budget(enabled=True))
CASES = [
    acto_case(
        annotate_redis, AnnotatedRedis, ("spotahome-redis-operator", 400), "undesired state",
        [AnnotatedRedisSpec(), AnnotatedRedisSpec(service_annotations={"a": "b"})],
    ),
    acto_case(
        place_redis, PlacedRedis, ("spotahome-redis-operator", 552), "recovery failure",
        [PlacedRedisSpec(), PlacedRedisSpec(node_selector=NOWHERE), PlacedRedisSpec()],
    ),
    acto_case(
        size_the_volumes, SizedVolumes, ("ot-redis-operator", 280), "undesired state",
        [SizedVolumesSpec(), SizedVolumesSpec(storage_gb=2)],
    ),
    acto_case(
        budget_the_groups, BudgetedGroups, ("ot-redis-operator", 287), "undesired state",
        [BudgetedGroupsSpec(redis_leader=ENABLED), BudgetedGroupsSpec(redis_follower=ENABLED)],
    ),
    acto_case(
        limit_the_pods, LimitedPods, ("ot-redis-operator", 290), "undesired state",
        [LimitedPodsSpec(), LimitedPodsSpec(resources=Amounts())],
    ),
    acto_case(
        export_metrics, ExportedMetrics, ("ot-redis-operator", 474), "undesired state",
        [ExportedMetricsSpec(redis_exporter=Exporter(enabled=True)), ExportedMetricsSpec()],
    ),
    acto_case(
        place_leaders, PlacedRedis, ("ot-redis-operator", 480), "recovery failure",
        [PlacedRedisSpec(), PlacedRedisSpec(node_selector=NOWHERE), PlacedRedisSpec()],
    ),
]  # fmt: skip
"""The cases of these operators."""
