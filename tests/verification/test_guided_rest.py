"""When an operator is at rest in a guided run."""

from __future__ import annotations

import pytest

import envtest
from opsdk import Context, ObjectKey, ObjectMeta, Operator, TemporaryError
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.client.patch import merge_patch
from opsdk.testing.simulate import Simulation, World
from opsdk.verification.guided_run import WorkloadStep, run_guided

KEY = ObjectKey("default", "source")


async def create(world: World) -> None:
    """Create the source."""
    await world.client.create(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))


async def edit(world: World) -> None:
    """Change it."""
    await world.client.patch(await world.client.get(ConfigMap, KEY), merge_patch({"data": {"n": "1"}}))


async def anything(_: World) -> None:
    """No check."""


def hesitant(delay: float) -> Simulation:
    """An operator whose first attempt fails, and whose second one writes.

    Args:
        delay: seconds between them.
    """

    def make() -> Operator:
        operator = Operator("hesitant")

        @operator.reconciler(ConfigMap)
        async def reconcile(source: ConfigMap, ctx: Context) -> None:
            if source.metadata.name != KEY.name:
                return
            if not ctx.attempt:
                raise TemporaryError("not yet", delay=delay)
            await operator.apply(Secret(metadata=ObjectMeta(name="copy", namespace=KEY.namespace)))

        return operator

    return Simulation(operator=make, environment=envtest.Environment, actions=[create, edit], check=anything)


@pytest.mark.parametrize(("delay", "is_awaited"), [(10.0, True), (200.0, True), (3000.0, False)])
def test_a_rest_waits_for_the_next_attempt(delay: float, is_awaited: bool) -> None:
    """The state before the next action has what the attempt wrote. A rest ends after five minutes in any case."""
    outcome = run_guided(hesitant(delay), [WorkloadStep("create"), WorkloadStep("edit")])
    assert bool(outcome.states[1].objects) is is_awaited


def test_nothing_waits_for_attempts_after_a_harmful_action() -> None:
    """They may fail for ever."""
    outcome = run_guided(hesitant(200.0), [WorkloadStep("create", is_harmful=True), WorkloadStep("edit")])
    assert not outcome.states[1].objects
