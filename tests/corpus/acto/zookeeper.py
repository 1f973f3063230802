"""zookeeper-operator: settings, members, sizes, probes, nodes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from opsdk import Context, Model, Object
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core import v1 as core
from opsdk.apimachinery.crd import Rule
from opsdk.client.patch import merge_patch
from tests.corpus.acto.kit import (
    Status,
    acto_case,
    apply_and_report,
    apply_when_ready,
    config,
    gvk,
    live,
    reconciled,
    report,
    workload,
)


class ConfiguredZookeeperSpec(Model, kw_only=True):
    """One setting."""

    tick_time: Annotated[int, Meta(ge=1, le=9000)] = 2000


class ConfiguredZookeeper(Object[ConfiguredZookeeperSpec, Status]):
    """An ensemble with settings."""

    gvk = gvk("ConfiguredZookeeper")


@reconciled(ConfiguredZookeeper, owns=[core.ConfigMap, Deployment])
async def configure_zookeeper(ensemble: ConfiguredZookeeper, ctx: Context, *, repaired: bool) -> None:
    """A new setting changes the ConfigMap, but the pods continue with the old one."""
    tick_time = ensemble.spec.tick_time
    await ctx.apply(config(ensemble, tick_time=tick_time))
    desired = workload(ensemble, annotations={"settings": str(tick_time)})
    existing = await live(ctx, desired)
    if existing is None or repaired:
        existing = await ctx.apply(desired)
    await report(ensemble, ctx, existing)


class ScaledZookeeperSpec(Model, kw_only=True):
    """The number of members."""

    replicas: Annotated[int, Meta(ge=1, le=3)] = 1


class ScaledZookeeper(Object[ScaledZookeeperSpec, Status]):
    """An ensemble of some members."""

    gvk = gvk("ScaledZookeeper")


@reconciled(ScaledZookeeper, owns=[core.ConfigMap, Deployment])
async def scale_zookeeper(ensemble: ScaledZookeeper, ctx: Context, *, repaired: bool) -> None:
    """Removed members stay in the list of voters, so that the others have no majority."""
    voters = ensemble.spec.replicas
    existing = await live(ctx, config(ensemble))
    if existing is not None and not repaired:
        voters = max(voters, int(existing.data["voters"]))
    await ctx.apply(config(ensemble, voters=voters))
    await apply_and_report(ensemble, ctx, workload(ensemble, replicas=ensemble.spec.replicas))


class SizedZookeeperSpec(Model, kw_only=True):
    """The size of the volumes."""

    rules = (Rule("self.storageGb >= oldSelf.storageGb", message="volumes do not shrink"),)

    replicas: Annotated[int, Meta(ge=1, le=3)] = 1
    storage_gb: Annotated[int, Meta(ge=1, le=100)] = 20


class SizedZookeeper(Object[SizedZookeeperSpec, Status]):
    """An ensemble with volumes."""

    gvk = gvk("SizedZookeeper")


@reconciled(SizedZookeeper, owns=[core.ConfigMap])
async def size_zookeeper(ensemble: SizedZookeeper, ctx: Context, *, repaired: bool) -> None:
    """It does not resize the present claims when the user wants larger volumes."""
    for number in range(3):
        claim = config(ensemble, f"data-{number}", size=ensemble.spec.storage_gb)
        if number >= ensemble.spec.replicas:
            await ctx.client.delete(claim, missing_ok=True)
        elif repaired or await live(ctx, claim) is None:
            await ctx.apply(claim)


class Liveness(Model, kw_only=True):
    """Parts of a probe; those that are absent have defaults."""

    failure_threshold: Annotated[int, Meta(ge=1, le=9)] | None = None
    period_seconds: Annotated[int, Meta(ge=1, le=9)] | None = None


class ProbedZookeeperSpec(Model, kw_only=True):
    """The liveness probe."""

    liveness_probe: Liveness | None = None


class ProbedZookeeper(Object[ProbedZookeeperSpec, Status]):
    """An ensemble with probes."""

    gvk = gvk("ProbedZookeeper")


@reconciled(ProbedZookeeper, owns=[core.ConfigMap])
async def probe_zookeeper(ensemble: ProbedZookeeper, ctx: Context, *, repaired: bool) -> None:
    """It writes defaults into a spec without a probe, where they stay. An incomplete probe gets zeros instead."""
    probe = ensemble.spec.liveness_probe
    if probe is None and not repaired:
        patch = merge_patch({"spec": {"livenessProbe": {"failureThreshold": 4, "periodSeconds": 9}}})
        await ctx.client.patch(ensemble, patch)
        return
    defaults = Liveness(failure_threshold=4, period_seconds=9) if repaired else Liveness()
    await ctx.apply(
        config(
            ensemble,
            failures=(probe and probe.failure_threshold) or defaults.failure_threshold or 0,
            seconds=(probe and probe.period_seconds) or defaults.period_seconds or 0,
        )
    )


class PlacedZookeeperSpec(Model, kw_only=True):
    """The nodes for the pods."""

    node_selector: dict[str, str] = field(default_factory=dict)


class PlacedZookeeper(Object[PlacedZookeeperSpec, Status]):
    """An ensemble on chosen nodes."""

    gvk = gvk("PlacedZookeeper")


@reconciled(PlacedZookeeper, owns=[Deployment])
async def place_zookeeper(ensemble: PlacedZookeeper, ctx: Context, *, repaired: bool) -> None:
    """A selector of absent nodes stays in the pods: it updates nothing before all pods are ready."""
    desired = workload(ensemble, node_selector=dict(ensemble.spec.node_selector))
    await apply_when_ready(ensemble, ctx, desired, repaired=repaired)


CASES = [
    acto_case(
        configure_zookeeper, ConfiguredZookeeper, ("zookeeper-operator", 454), "undesired state",
        [ConfiguredZookeeperSpec(), ConfiguredZookeeperSpec(tick_time=5)],
    ),
    acto_case(
        scale_zookeeper, ScaledZookeeper, ("zookeeper-operator", 513), "system error",
        [ScaledZookeeperSpec(replicas=3), ScaledZookeeperSpec()],
    ),
    acto_case(
        size_zookeeper, SizedZookeeper, ("zookeeper-operator", 540), "undesired state",
        [SizedZookeeperSpec(), SizedZookeeperSpec(storage_gb=40)],
    ),
    acto_case(
        probe_zookeeper, ProbedZookeeper, ("zookeeper-operator", 541), "undesired state",
        [ProbedZookeeperSpec(), ProbedZookeeperSpec(liveness_probe=Liveness(failure_threshold=4))],
    ),
    acto_case(
        place_zookeeper, PlacedZookeeper, ("zookeeper-operator", 547), "recovery failure",
        [PlacedZookeeperSpec(), PlacedZookeeperSpec(node_selector={"disk": "none"}), PlacedZookeeperSpec()],
    ),
]  # fmt: skip
"""The cases of this operator."""
