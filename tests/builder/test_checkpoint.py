"""Checkpoints of operators whose caches start informers by themselves."""

from __future__ import annotations

import pytest

from opsdk import Context, ObjectMeta, Operator, OperatorOptions
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.cache.options import CacheOptions
from opsdk.cluster.options import ClusterOptions
from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.rbac.rules import RbacRule
from opsdk.testing.simulate import Simulation, Step, World

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

OPTIONS = OperatorOptions(
    cluster=ClusterOptions(cache=CacheOptions(namespace_selector=LabelRequirements.parse("environment=production")))
)
NAMESPACES = ("shop", "bank")


def make_operator() -> Operator:
    """Return an operator that copies the sources of production namespaces."""
    operator = Operator("copier", OPTIONS)

    @operator.reconciler(ConfigMap, rbac=[RbacRule("create patch", "configmaps")])
    async def reconcile(source: ConfigMap, ctx: Context) -> None:
        if source.metadata.name == "source":
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name="copy"), data=source.data))

    return operator


async def make_namespace(world: World) -> None:
    """Create the next namespace, with an object."""
    existing = [namespace.metadata.name for namespace in await world.client.list(Namespace)]
    name = next(name for name in NAMESPACES if name not in existing)
    await world.client.create(Namespace(metadata=ObjectMeta(name=name, labels={"environment": "production"})))
    await world.client.create(ConfigMap(metadata=ObjectMeta(name="source", namespace=name), data={"text": name}))


async def check_copies(world: World) -> None:
    """Each source has its copy."""
    for name in NAMESPACES:
        copy = await world.client.get(ConfigMap, "copy", namespace=name)
        assert copy.data == {"text": name}


def test_selected_namespaces_come_after_a_checkpoint() -> None:
    """The cache follows the selector as before: a new namespace gets its informer in the recorded iteration."""
    simulation = Simulation(
        operator=make_operator,
        environment=environment.Environment,
        actions=[make_namespace],
        check=check_copies,
        replicas=1,
    )
    steps = [Step(time=3.0, name="make_namespace"), Step(time=12.0, name="make_namespace")]
    outcome, starts = simulation.record(1, steps, checkpoint_period=4.0)
    assert not outcome.violations
    written = []
    for checkpoint in starts[0].checkpoints():
        with OperatorReplay(Timeline(checkpoint.records), make_operator) as replay:
            replayed = replay.run()
        assert replayed.is_identical, [*replayed.divergences, *replayed.unsent]
        written.append(len(replay.writes))
    assert written[0] == 1
    assert written[-1] == 0
