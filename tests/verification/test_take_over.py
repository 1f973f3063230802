"""A standby that becomes the leader with an old view: bugs that no restart of an operator on opsdk shows."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from simulations import REPLICAS

import envtest
from opsdk import Context, GroupVersionKind, Model, Object, ObjectKey, ObjectMeta, Operator, OperatorOptions, Request
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.crd import crd_for
from opsdk.client.patch import merge_patch
from opsdk.engine.world.disturber import WatchMessage
from opsdk.manager.leader_election.leader_elector import LeaderElector
from opsdk.recipes import is_deleting
from opsdk.testing.simulate import Simulation, World
from opsdk.verification.disturbances import Disturbance, DisturbanceKind, guided_disturbances
from opsdk.verification.guided_run import WorkloadStep, run_guided
from opsdk.verification.verify import draw_workload, run_verification, verify_disturbance

KEY = ObjectKey("default", "lamp")
PATH = "/apis/demo.opsdk.dev/v1/lamps"
STEPS = [WorkloadStep("create"), WorkloadStep("turn_on")]
FINALIZER = "demo.opsdk.dev/lamp"


class LampSpec(Model, kw_only=True):
    """Whether it is on."""

    on: bool = False


class Lamp(Object[LampSpec, None]):
    """What the operators reconcile."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Lamp")


async def create(world: World) -> None:
    """Create the lamp."""
    if await world.client.get_or_none(Lamp, KEY) is None:
        await world.client.create(Lamp(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace), spec=LampSpec()))


async def turn_on(world: World) -> None:
    """Turn the lamp on."""
    await world.client.patch(await world.client.get(Lamp, KEY), merge_patch({"spec": {"on": True}}))


async def delete(world: World) -> None:
    """Delete the lamp."""
    await world.client.delete(Lamp, KEY, missing_ok=True)


async def anything(_: World) -> None:
    """No check."""


def light_operator(*, asks: bool, replicas: int = 2) -> Simulation:
    """An operator that deletes the light of a lamp that is off.

    Args:
        asks: it asks the server before.
        replicas: of the operator.
    """

    def make() -> Operator:
        options = OperatorOptions(
            leader_election=True,
            leader_election_namespace="default",
            lease_duration=30,
            renew_deadline=20,
            retry_period=10,
        )
        operator = Operator("lamp", options)

        @operator.reconciler(Lamp, owns=[ConfigMap])
        async def reconcile(lamp: Lamp, ctx: Context) -> None:
            if lamp.spec.on:
                await ctx.apply(ConfigMap(metadata=ObjectMeta(name=lamp.metadata.name)))
                return
            current = await ctx.client.get(Lamp, KEY, uncached=True) if asks else lamp
            existing = await ctx.client.get_or_none(ConfigMap, KEY)
            if existing is not None and not current.spec.on:
                await ctx.client.delete(existing, missing_ok=True)

        return operator

    return Simulation(
        operator=make,
        environment=partial(envtest.Environment, crds=[crd_for(Lamp)]),
        actions=[create, turn_on, delete],
        check=anything,
        replicas=replicas,
    )


@pytest.mark.slow
def test_a_leader_with_an_old_view_is_found() -> None:
    """It deletes what the leader before it created; that it creates it again later does not hide it."""
    summary = run_verification(light_operator(asks=False), [STEPS], kinds=[DisturbanceKind.TAKE_OVER])
    assert summary.broken
    broken = summary.broken[0]
    assert broken.disturbance is not None
    assert broken.disturbance.path == PATH
    assert "configmaps default/lamp was created 2 times, without a fault 1 times" in broken.violations[0]
    assert verify_disturbance(light_operator(asks=False), STEPS, broken.disturbance) == broken.violations


@pytest.mark.slow
def test_an_operator_that_asks_first_survives() -> None:
    """The server knows that the lamp is on."""
    summary = run_verification(light_operator(asks=True), [STEPS], kinds=[DisturbanceKind.TAKE_OVER])
    assert summary.runs[DisturbanceKind.TAKE_OVER] > 2
    assert summary.broken == []


def test_without_a_standby_nobody_takes_over() -> None:
    """One replica is its own leader."""
    summary = run_verification(light_operator(asks=False, replicas=1), [STEPS], kinds=[DisturbanceKind.TAKE_OVER])
    assert not summary.runs


@pytest.mark.slow
def test_a_second_replica_runs_for_the_kinds_that_need_it() -> None:
    """All other disturbances have one replica; the report has the number of workloads, and the test of the replicas."""
    declared = light_operator(asks=False, replicas=1)
    kinds = [DisturbanceKind.REFUSE, DisturbanceKind.TAKE_OVER]
    summary = run_verification(declared, [STEPS], kinds=kinds, with_standby=True)
    assert summary.with_standby == 1
    assert "1 of them with a standby" in str(summary)
    assert set(summary.runs) == set(kinds)
    assert [run.title for run in summary.broken] == [f"{run.disturbance}, with 2 replicas" for run in summary.broken]
    assert summary.broken


def test_the_standby_leads_while_its_view_is_old() -> None:
    """Its writes follow the crash of the leader; afterwards its view moves on."""
    declared = light_operator(asks=False)
    reference = run_guided(declared, STEPS)
    places = [each for each in guided_disturbances([], reference.messages) if each.kind is DisturbanceKind.TAKE_OVER]
    turned_on = next(each for each in reference.messages if each.path == PATH and each.action == 1 and each.standby)
    place = next(each for each in places if (each.path, each.number) == (PATH, turned_on.number))
    outcome = run_guided(declared, STEPS, place)
    assert outcome.happened
    assert [each.method for each in reference.writes] == ["PATCH"]
    assert [each.method for each in outcome.writes] == ["PATCH", "DELETE", "PATCH"]
    assert outcome.states[2].objects == reference.states[2].objects


# ---------------------------------------------------------------- a lost lease
async def renew_for_ever(elector: LeaderElector) -> None:
    """The bug: the elector never gives up."""
    while True:
        await asyncio.sleep(elector.options.retry_period)
        await elector._try_with_timeout(elector.options.renew_deadline)


@pytest.mark.slow
def test_a_leader_that_never_gives_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes while the standby leads."""
    monkeypatch.setattr(LeaderElector, "_renew", renew_for_ever)
    monkeypatch.setattr(LeaderElector, "check", lambda self, action: None)
    workloads = [draw_workload(REPLICAS, seed) for seed in range(3)]
    summary = run_verification(REPLICAS, workloads, kinds=[DisturbanceKind.LOSE_LEASE])
    assert any(each.startswith("leadership: ") for broken in summary.broken for each in broken.violations)


@pytest.mark.slow
def test_a_leader_without_its_lease_stops() -> None:
    """The standby does the rest. Without a standby there is no such place."""
    summary = run_verification(light_operator(asks=True), [STEPS], kinds=[DisturbanceKind.LOSE_LEASE])
    assert summary.runs[DisturbanceKind.LOSE_LEASE] > 0
    assert summary.broken == []
    alone = run_verification(light_operator(asks=True, replicas=1), [STEPS], kinds=[DisturbanceKind.LOSE_LEASE])
    assert not alone.runs


@pytest.mark.parametrize(("standby", "keys", "action"), [(False, ("a",), 0), (True, (), 0), (True, ("a",), -1)])
def test_other_messages_are_no_places(standby: bool, keys: tuple[str, ...], action: int) -> None:
    """Messages of the leader, bookmarks, and the first view."""
    message = WatchMessage(path="/p", number=1, keys=keys, action=action, standby=standby)
    take_over = Disturbance(kind=DisturbanceKind.TAKE_OVER, number=1, path="/p")
    assert take_over not in guided_disturbances([], [message])
    place = WatchMessage(path="/p", number=1, keys=("a",), action=0, standby=True)
    assert take_over in guided_disturbances([], [place])


def test_a_view_of_what_is_gone_is_no_place() -> None:
    """A standby that still sees the lamp can only create again what the garbage collector removes."""
    steps = [WorkloadStep("create"), WorkloadStep("delete")]
    summary = run_verification(light_operator(asks=False), [steps], kinds=[DisturbanceKind.TAKE_OVER])
    assert not summary.runs
    assert not summary.broken


def test_the_most_outdated_views_come_first() -> None:
    """First the views without an action that the leader followed; last those without one that changed nothing."""
    steps = [("/sites", 1, 0), ("/sites", 2, 1), ("/pods", 1, 2), ("/sites", 3, 2), ("/pods", 2, 2), ("/sites", 4, 4)]
    messages = [
        WatchMessage(path=path, number=number, keys=("a",), action=action, standby=True)
        for path, number, action in steps
    ]
    places = [each for each in guided_disturbances([], messages) if each.kind is DisturbanceKind.TAKE_OVER]
    assert [(each.path, each.number) for each in places] == [
        ("/pods", 1), ("/sites", 3), ("/pods", 2), ("/sites", 1), ("/sites", 2), ("/sites", 4),
    ]  # fmt: skip


# ---------------------------------------------------------------- children of owners that were let go
def finalizing_operator(*, returns: bool) -> Simulation:
    """An operator with a finalizer of its own.

    Args:
        returns: its pass ends after it has removed the finalizer.
    """

    def make() -> Operator:
        operator = Operator("lamp")

        @operator.reconciler(Lamp, owns=[ConfigMap])
        async def reconcile(request: Request, ctx: Context) -> None:
            lamp = await ctx.client.get_or_none(Lamp, request.key)
            if lamp is None:
                return
            finalizers = [] if is_deleting(lamp) else [FINALIZER]
            if lamp.metadata.finalizers != finalizers:
                await ctx.client.patch(lamp, merge_patch({"metadata": {"finalizers": finalizers}}))
            if not (is_deleting(lamp) and returns):
                await ctx.apply(ConfigMap(metadata=ObjectMeta(name=lamp.metadata.name)), owner=lamp)

        return operator

    return Simulation(
        operator=make,
        environment=partial(envtest.Environment, crds=[crd_for(Lamp)]),
        actions=[create, delete],
        check=anything,
    )


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.slow
def test_a_child_of_an_owner_that_was_let_go_is_found(returns: bool) -> None:
    """The operator has seen the deletion, so it has no reason to create a child, however old its view is."""
    steps = [WorkloadStep("create"), WorkloadStep("delete")]
    summary = run_verification(finalizing_operator(returns=returns), [steps], kinds=[DisturbanceKind.STALE])
    texts = {text for broken in summary.broken for text in broken.violations}
    late = "deletion: configmaps default/lamp was created for an owner that was let go"
    assert (late in texts) is not returns
    assert returns is (summary.broken == [])
