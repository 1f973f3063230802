"""Objects that come and go while the operator's view is held back: what it did not do for them is no bug."""

from __future__ import annotations

import pytest
import simulations

import envtest
from opsdk import Context, ObjectKey, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.client.patch import merge_patch
from opsdk.testing.simulate import Simulation, World
from opsdk.verification.disturbances import Disturbance, DisturbanceKind
from opsdk.verification.guided_run import WorkloadStep
from opsdk.verification.verify import run_verification, verify_disturbance

KEY = ObjectKey("default", "source")
VIEWS = [DisturbanceKind.STALE, DisturbanceKind.HIDE]


async def create(world: World) -> None:
    """Create the source."""
    await world.client.create(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace), data={"n": "1"}))


async def edit(world: World) -> None:
    """Change it."""
    source = await world.client.get(ConfigMap, KEY)
    await world.client.patch(source, merge_patch({"data": {"n": "2"}}))


async def delete(world: World) -> None:
    """Delete it."""
    await world.client.delete(ConfigMap, KEY)


async def anything(_: World) -> None:
    """No check."""


def archiving(*, updates: bool) -> Simulation:
    """An operator that keeps a copy of each source for ever, and updates it or not."""

    def make() -> Operator:
        operator = Operator("archive")

        @operator.reconciler(ConfigMap)
        async def reconcile(source: ConfigMap, ctx: Context) -> None:
            if source.metadata.name != KEY.name:
                return
            copy = Secret(metadata=ObjectMeta(name="copy", namespace=KEY.namespace), string_data=dict(source.data))
            if updates or await ctx.client.get_or_none(Secret, ObjectKey(KEY.namespace, "copy"), uncached=True) is None:
                await operator.apply(copy)

        return operator

    return Simulation(operator=make, environment=envtest.Environment, actions=[create, edit, delete], check=anything)


@pytest.mark.slow
def test_an_object_that_was_never_seen_leaves_nothing() -> None:
    """The copy of a source that came and went unseen does not exist, and need not."""
    steps = [WorkloadStep("create"), WorkloadStep("delete")]
    summary = run_verification(archiving(updates=True), [steps], kinds=VIEWS)
    assert summary.runs[DisturbanceKind.STALE] > 0
    assert summary.broken == []


@pytest.mark.slow
def test_an_object_that_was_seen_late_is_compared() -> None:
    """The copy of a source that lives on has its newest value: this operator keeps the first that it saw."""
    steps = [WorkloadStep("create"), WorkloadStep("edit")]
    summary = run_verification(archiving(updates=False), [steps], kinds=VIEWS)
    assert summary.broken
    assert run_verification(archiving(updates=True), [steps], kinds=VIEWS).broken == []


@pytest.mark.slow
def test_an_object_that_is_created_again_is_compared() -> None:
    """The operator misses the first one, and not the second."""
    steps = [WorkloadStep("create"), WorkloadStep("delete"), WorkloadStep("create")]
    assert run_verification(archiving(updates=True), [steps], kinds=VIEWS).broken == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["configmaps", "secrets"])
def test_an_informer_recovers_before_the_operator_rests(kind: str) -> None:
    """However long a server hides a message, an informer lists again soon after it answers: no object is missed."""
    names = ("make_parent", "resize_parent", "delete_parent", "make_parent", "delete_parent")
    steps = [WorkloadStep(name, seed=number) for number, name in enumerate(names)]
    for number in range(1, 6):
        hide = Disturbance(kind=DisturbanceKind.HIDE, number=number, path=f"/api/v1/{kind}")
        assert verify_disturbance(simulations.FAMILIES, steps, hide) == (), number
