"""Views that are held back: all of them move on."""

from __future__ import annotations

import asyncio

import envtest
from opsdk import Context, Operator, OperatorOptions
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.testing.simulate import Simulation, World
from opsdk.verification.disturbances import Disturbance, DisturbanceKind
from opsdk.verification.disturbers import disturber_of
from opsdk.verification.guided_run import WorkloadRun, WorkloadStep, run_guided
from opsdk.verification.held_views import HeldViews

STEPS = [WorkloadStep("write_one"), WorkloadStep("write_two")]


async def write(world: World, text: str) -> None:
    """Write a ConfigMap."""
    child = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"text": text})
    await world.client.apply(child, field_owner="user", force=True)


async def write_one(world: World) -> None:
    """Create it."""
    await write(world, "one")


async def write_two(world: World) -> None:
    """Change it."""
    await write(world, "two")


async def anything(_: World) -> None:
    """No check."""


def reader() -> Operator:
    """Reads ConfigMaps, on a leader and a standby."""
    options = OperatorOptions(leader_election=True, leader_election_namespace="default")
    operator = Operator("reader", options)

    @operator.reconciler(ConfigMap)
    async def reconcile(obj: ConfigMap, ctx: Context) -> None:
        """Do nothing."""

    return operator


async def test_all_hidden_views_move_on() -> None:
    """One event for each client."""
    views = HeldViews()
    events = {"replica-0": asyncio.Event(), "replica-1": asyncio.Event()}
    views.hide(events, ["default/a"], 0)
    assert views.any_held
    views.release()
    assert all(event.is_set() for event in events.values())
    assert not views.any_held


def test_each_replica_lists_anew_after_a_hidden_message() -> None:
    """The message is hidden from the standby too, which must not wait for its list for ever."""
    declared = Simulation(
        operator=reader, environment=envtest.Environment, actions=[write_one, write_two], check=anything, replicas=2
    )
    reference = run_guided(declared, STEPS)
    message = next(each for each in reference.messages if each.keys == ("default/a",) and not each.standby)
    hide = Disturbance(kind=DisturbanceKind.HIDE, path=message.path, number=message.number)
    run = WorkloadRun(declared, STEPS, disturber_of(hide))
    assert run.execute().happened
    requests = [each for each in run.cluster.observer.exchanges if each.path == message.path]
    lists = {each.client for each in requests if not each.is_watch and each.status == 200}
    assert lists == {"replica-0.1", "replica-1.1"}
