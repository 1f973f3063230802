"""Guided disturbances: bugs that need a certain place of a run are found, and correct operators pass."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import simulations
from guided_samples import sample_violations
from slow_cases import mostly_deep

import envtest
from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator, Result
from opsdk.aio.clock import monotonic
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.crd import crd_for
from opsdk.errors import ConflictError, UsageError
from opsdk.recipes import set_controller_reference
from opsdk.testing.simulate import Simulation, Step, World
from opsdk.verification.checks import parse_check, rest_checks
from opsdk.verification.disturbances import DEFAULT_KINDS, FOREIGN, Disturbance, DisturbanceKind, most_different
from opsdk.verification.guided_run import WorkloadStep, run_guided
from opsdk.verification.verify import draw_workload, run_verification, verify, verify_disturbance

NAMESPACE = "default"
STEPS = [WorkloadStep("create_site"), WorkloadStep("edit_site"), WorkloadStep("delete_site")]
Body = Callable[..., object]


class SiteSpec(Model, kw_only=True):
    """A text."""

    text: str = ""


class SiteStatus(Model, kw_only=True):
    """What the reconciler reports."""

    text: str = ""
    secret: str = ""


class Site(Object[SiteSpec, SiteStatus]):
    """What the operators reconcile."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")


# ---------------------------------------------------------------- users
def site(text: str) -> Site:
    """The one site of all workloads."""
    return Site(metadata=ObjectMeta(name="site", namespace=NAMESPACE), spec=SiteSpec(text=text))


async def create_site(world: World) -> None:
    """Create the site, or change its text back."""
    await world.client.apply(site("one"), field_owner="user", force=True)


async def edit_site(world: World) -> None:
    """Change its text."""
    await world.client.apply(site("two"), field_owner="user", force=True)


async def delete_site(world: World) -> None:
    """Delete it."""
    await world.client.delete(site(""), missing_ok=True)


async def anything(_: World) -> None:
    """No check: the end without a disturbance tells what is right."""


def declare(reconcile: Body, *, children: type = ConfigMap) -> Simulation:
    """An operator with one reconciler, and the three actions."""

    def make() -> Operator:
        operator = Operator("site")
        operator.reconciler(Site, owns=[children])(reconcile)
        return operator

    return Simulation(
        operator=make,
        environment=partial(envtest.Environment, crds=[crd_for(Site)]),
        actions=[create_site, edit_site, delete_site],
        check=anything,
        children=[children],
    )


# ---------------------------------------------------------------- operators
async def good(site: Site, ctx: Context) -> None:
    """Applies a ConfigMap, and reports the text."""
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": site.spec.text}))
    async with ctx.status(site) as patch:
        patch.status.text = site.spec.text


async def create_once(site: Site, ctx: Context) -> None:
    """The bug: the server chooses the name, and a crash before it is written down forgets it."""
    if site.status is not None and site.status.secret:
        return
    secret = Secret(metadata=ObjectMeta(generate_name="login-", namespace=NAMESPACE), string_data={"password": "x"})
    set_controller_reference(site, secret)
    created = await ctx.client.create(secret)
    async with ctx.status(site) as patch:
        patch.status.secret = created.metadata.name


async def swallow_conflicts(site: Site, ctx: Context) -> None:
    """The bug: a write that meets a conflict is lost, and nothing queues the object again."""
    if site.status is not None and site.status.text == site.spec.text:
        return
    site.status = SiteStatus(text=site.spec.text)
    try:
        await ctx.client.status().update(site)
    except ConflictError:
        return


async def report_before_the_child(site: Site, ctx: Context) -> None:
    """The bug: the status says that all is done before it is, and then nothing is done any more."""
    if site.status is not None and site.status.text == site.spec.text:
        return
    async with ctx.status(site) as patch:
        patch.status.text = site.spec.text
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": site.spec.text}))


async def give_up(site: Site, ctx: Context) -> Result | None:
    """The bug: an error of the server is taken for an answer."""
    try:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": site.spec.text}))
    except Exception:  # noqa: BLE001 - this is the bug
        return None
    return None


class RememberingOperator:
    """The bug: what was once done is remembered in the process, and not looked at again."""

    def __init__(self) -> None:
        self.done: set[tuple[str, str]] = set()

    async def reconcile(self, site: Site, ctx: Context) -> None:
        """Create the child of each text once."""
        if (site.metadata.uid, site.spec.text) in self.done:
            return
        self.done.add((site.metadata.uid, site.spec.text))
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": site.spec.text}))


# ---------------------------------------------------------------- what is found
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "children", "kind", "oracle"),
    [
        (create_once, Secret, DisturbanceKind.CRASH_AFTER, "state at rest: secrets default/login-* exists 2 times"),
        (create_once, Secret, DisturbanceKind.LOSE_ANSWER, "state at rest: secrets default/login-* exists 2 times"),
        (swallow_conflicts, ConfigMap, DisturbanceKind.CONFLICT, "state at rest: sites default/site"),
        (report_before_the_child, ConfigMap, DisturbanceKind.CRASH_AFTER, "state at rest: configmaps default/site"),
        (give_up, ConfigMap, DisturbanceKind.REFUSE, "state at rest: configmaps default/site"),
    ],
)
def test_a_bug_at_one_place_is_found(bug: Body, children: type, kind: DisturbanceKind, oracle: str) -> None:
    """Each place is tried, so the first workload finds it; the message says what went wrong, and how to repeat it."""
    with pytest.raises(AssertionError) as caught:
        verify(declare(bug, children=children), range(1), kinds=[kind])
    text = str(caught.value)
    assert text.startswith(f"{kind.value} write ")
    assert oracle in text
    assert "The operator's journal" in text or "def test_disturbed" in text


def test_a_remembered_child_is_found() -> None:
    """A write that is refused once is never tried again."""

    def make() -> Operator:
        operator = Operator("site")
        operator.reconciler(Site, owns=[ConfigMap])(RememberingOperator().reconcile)
        return operator

    with pytest.raises(AssertionError, match="state at rest: configmaps default/site"):
        verify(replace(declare(good), operator=make), range(1), kinds=[DisturbanceKind.REFUSE])


class ChanceOperator:
    """Writes a number that is another one in each run.

    Args:
        equal: number of the first runs that write the same one.
    """

    def __init__(self, *, equal: int) -> None:
        self._equal, self._runs = equal, 0

    async def reconcile(self, site: Site, ctx: Context) -> None:
        """Keep the number that the child has."""
        existing = await ctx.client.get_or_none(ConfigMap, site.metadata.name, namespace=NAMESPACE)
        if existing is None:
            self._runs += 1
            number = str(max(self._runs, self._equal))
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"number": number}))


@pytest.mark.slow
def test_what_differs_in_two_runs_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not compared, and the sentence says when that is right."""
    verify(declare(ChanceOperator(equal=0).reconcile), range(1), kinds=[DisturbanceKind.STALE])
    output = capsys.readouterr().out
    assert "not compared, since two runs without a disturbance differ: configmaps default/site data.number: " in output


def test_a_run_that_differs_by_chance_is_no_bug() -> None:
    """An equal run without a disturbance differs too."""
    declared = declare(ChanceOperator(equal=2).reconcile)
    summary = run_verification(declared, [STEPS[:1]], kinds=[DisturbanceKind.REFUSE])
    assert summary.broken == []
    assert summary.unrepeated == 1
    assert any("1 broken runs were not confirmed, since equal runs differ" in text for text in summary.advice())


async def toss_a_coin(site: Site, ctx: Context) -> None:
    """Writes what Python's random numbers decide."""
    text = "heads" if random.random() < 0.5 else "tails"
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"text": text}))


def test_random_numbers_of_an_operator_are_noted() -> None:
    """Those of opsdk and of the server come from elsewhere."""
    assert run_guided(declare(toss_a_coin, children=Secret), STEPS[:1]).draws_random
    assert not run_guided(declare(good), STEPS).draws_random


async def write_for_ever(site: Site, ctx: Context) -> Result:
    """Never comes to rest, and does not write so often that it is a hot loop."""
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name), data={"at": str(monotonic())}))
    return Result(requeue_after=timedelta(seconds=20))


async def end_the_process(site: Site, ctx: Context) -> None:
    """Ends its process."""
    sys.exit(3)


@pytest.mark.slow
def test_writes_that_go_on_are_noted() -> None:
    """They are no bug: they may be a heartbeat. States at rest say little then."""
    outcome = run_guided(declare(write_for_ever, children=Secret), [STEPS[0], STEPS[2]])
    assert outcome.restless == ["PATCH /api/v1/namespaces/default/configmaps/site"]
    assert run_guided(declare(good), STEPS).restless == []


def test_an_operator_that_ends_its_process_crashed() -> None:
    """The verification goes on."""
    assert run_guided(declare(end_the_process), STEPS).violations == (
        "crash: the operator ended its process with status 3",
    )


@pytest.mark.slow
def test_a_finding_is_repeated_by_its_test() -> None:
    """Workload and disturbance are in the printed test, and give the same violations in any run."""
    steps = [WorkloadStep("create_site"), WorkloadStep("edit_site")]
    lost = Disturbance(kind=DisturbanceKind.CRASH_AFTER, number=1)
    declared = declare(report_before_the_child)
    first = verify_disturbance(declared, steps, lost)
    assert first
    assert first == verify_disturbance(declared, steps, lost)
    assert verify_disturbance(declared, steps, None) == ()


@pytest.mark.slow
def test_a_printed_test_runs_as_it_is_printed() -> None:
    """With its imports, beside the simulation that it names."""
    declared = declare(report_before_the_child)
    summary = run_verification(declared, [STEPS], kinds=[DisturbanceKind.CRASH_AFTER])
    names: dict[str, Any] = {"SIMULATION": declared}
    exec(summary.broken[0].test_text(), names)
    with pytest.raises(AssertionError, match="configmaps default/site"):
        names["test_disturbed"]()


# ---------------------------------------------------------------- what is no finding
async def only_the_first_text(site: Site, ctx: Context) -> None:
    """Refuses what is not the first text that it has seen: a user's mistake does not change the child."""
    if site.spec.text != "two":
        await good(site, ctx)


@pytest.mark.slow
def test_states_after_harmful_steps_are_not_compared() -> None:
    """With an old view, the operator sees the mistake before the first text, and has no child yet."""
    steps = [WorkloadStep("create_site"), WorkloadStep("edit_site"), WorkloadStep("create_site")]
    declared = declare(only_the_first_text)
    assert run_verification(declared, [steps], kinds=[DisturbanceKind.STALE]).broken
    steps[1] = WorkloadStep("edit_site", is_harmful=True)
    assert not run_verification(declared, [steps], kinds=[DisturbanceKind.STALE]).broken


@pytest.mark.slow
def test_processes_share_the_workloads() -> None:
    """Two of them find what one does."""
    declared = declare(report_before_the_child)
    workloads = [draw_workload(declared, seed) for seed in range(2)]
    kinds = [DisturbanceKind.CRASH_AFTER, DisturbanceKind.CONFLICT]
    progress: list[int] = []
    one = run_verification(declared, workloads, kinds=kinds)
    two = run_verification(
        declared, workloads, kinds=kinds, processes=2, progress=lambda summary: progress.append(summary.workloads)
    )
    assert (two.workloads, two.runs, two.omitted) == (one.workloads, one.runs, one.omitted)
    assert {run.violation_kinds for run in two.broken} == {run.violation_kinds for run in one.broken} != set()
    assert progress[-1] == 2


@pytest.mark.slow
def test_a_budget_has_the_most_different_disturbances_first() -> None:
    """Each kind has a turn before any has two, the others are counted, and processes do not change the choice."""
    declared = declare(good)
    workloads = [draw_workload(declared, seed) for seed in range(2)]
    one = run_verification(declared, workloads, budget=14)
    two = run_verification(declared, workloads, budget=14, processes=2)
    assert one.runs == two.runs
    assert one.runs.total() == 14
    assert set(one.beyond) <= set(one.runs)
    assert one.beyond.total() > 0
    assert "beyond the budget: " in str(one)


def test_each_workload_begins_at_another_place() -> None:
    """A small budget meets different actions, not the first write of each workload."""
    writes = [Disturbance(kind=DisturbanceKind.REFUSE, number=n, path="/api/v1/pods") for n in (1, 2, 3)]
    places = [(workload, each) for workload in range(3) for each in writes]
    chosen, _ = most_different(places, 3)
    assert [(workload, each.number) for workload, each in chosen] == [(0, 1), (1, 2), (2, 3)]


def test_old_views_have_more_turns_than_lost_leases() -> None:
    """A lost lease stops any leader alike, and each old view is another one."""
    kinds = (DisturbanceKind.LOSE_LEASE, DisturbanceKind.REFUSE, DisturbanceKind.TAKE_OVER)
    places = [(0, Disturbance(kind=kind, number=n, path="/api/v1/pods")) for kind in kinds for n in range(20)]
    chosen, beyond = most_different(places, 17)
    assert [sum(each.kind is kind for _, each in chosen) for kind in kinds] == [1, 4, 12]
    assert beyond.total() == 43


@pytest.mark.slow
def test_a_correct_operator_survives_all_disturbances(capsys: pytest.CaptureFixture[str]) -> None:
    """The line at the end says how many of each kind."""
    summary = verify(declare(good), range(1), name="GOOD")
    alone = {
        DisturbanceKind.TAKE_OVER,
        DisturbanceKind.LOSE_LEASE,
        DisturbanceKind.PAST,
    }  # there is no standby, and no list of the past
    assert set(summary.runs) == set(DEFAULT_KINDS) - alone
    assert not summary.omitted
    assert capsys.readouterr().out.startswith("verify GOOD: ")


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_deep(["WEBSITES", "FAMILIES", "SINGLES"], every=3))
def test_operators_of_the_project_survive(name: str) -> None:
    """No false alarm: also of users who choose among what they find. ``make sim`` runs all disturbances."""
    declared = getattr(simulations, name)
    for seed in range(2):
        assert sample_violations(declared, draw_workload(declared, seed), most_of_others=20) == []


# ---------------------------------------------------------------- runs
def test_runs_are_equal_until_their_disturbance() -> None:
    """So the number of a write names the same write in each run."""
    declared = declare(good)
    steps = draw_workload(declared, 1)
    reference = run_guided(declared, steps)
    assert reference == run_guided(declared, steps)
    crash = Disturbance(kind=DisturbanceKind.CRASH_AFTER, number=3)
    disturbed = run_guided(declared, steps, crash)
    assert disturbed.happened
    assert [(each.method, each.path) for each in disturbed.writes[:3]] == [
        (each.method, each.path) for each in reference.writes[:3]
    ]


def test_a_hidden_event_is_never_delivered() -> None:
    """The client lists anew after the object has changed again: it sees the second text only."""
    texts: list[str] = []

    async def note(site: Site, ctx: Context) -> None:
        texts.append(site.spec.text)
        await good(site, ctx)

    declared = declare(note)
    steps = [WorkloadStep("create_site"), WorkloadStep("edit_site")]
    path = "/apis/demo.opsdk.dev/v1/sites"
    messages = [each for each in run_guided(declared, steps).messages if each.path == path and each.action == 0]
    texts.clear()
    assert run_guided(
        declared, steps, Disturbance(kind=DisturbanceKind.HIDE, number=messages[0].number, path=path)
    ).happened
    assert set(texts) == {"two"}


def test_a_workload_without_actions_is_an_error() -> None:
    """There is nothing to disturb."""
    nothing = Simulation(operator=lambda: Operator("a"), environment=envtest.Environment, check=anything)
    with pytest.raises(UsageError, match="declare actions"):
        verify(nothing, range(1))


def test_a_verification_that_ends_before_its_budget_fails() -> None:
    """The time limit decides nothing silently: the message names the disturbances left, and what to change."""
    with pytest.raises(AssertionError, match=r"unfinished: .* after 0 of 20 disturbances: pass a longer time_limit"):
        verify(declare(good), range(1), time_limit=0.0, budget=20)


@pytest.mark.parametrize(
    ("workloads", "kinds"), [((), DEFAULT_KINDS), (range(1), ()), (range(1), [DisturbanceKind.TAKE_OVER])],
    ids=["no workload", "no kind", "a kind without a place"],
)  # fmt: skip
def test_a_verification_that_attacks_nothing_fails(workloads: Sequence[int], kinds: Sequence[DisturbanceKind]) -> None:
    """A run without a disturbance shows nothing, so it is no success."""
    with pytest.raises(AssertionError, match=r"nothing was attacked, .*: pass workloads"):
        verify(declare(good), workloads, kinds=kinds)


@pytest.mark.slow
def test_a_verification_runs_its_budget() -> None:
    """The budget is a number of disturbances, so a busy machine tests the same; the others are counted."""
    summary = verify(declare(good), range(1), budget=10)
    assert summary.runs.total() == 10
    assert summary.beyond.total() > 0


def test_the_time_limit_is_kept() -> None:
    """What was left out is counted."""
    summary = run_verification(declare(good), [draw_workload(declare(good), 0)], time_limit=0.0)
    assert not summary.runs
    assert summary.omitted.total() > len(summary.omitted) > 3
    assert "left for lack of time: " in str(summary)
    assert all(f" {kind.value}" in str(summary) for kind in summary.omitted)


# ---------------------------------------------------------------- what holds at rest
ONE = parse_check("configmaps: self.data.text == 'one'")


def test_a_check_holds_at_each_rest() -> None:
    """Also between two steps: the last one repairs it here."""
    declared = replace(declare(good), at_rest=rest_checks([ONE]))
    steps = [WorkloadStep("create_site"), WorkloadStep("edit_site"), WorkloadStep("create_site")]
    (broken,) = run_verification(declared, [steps]).broken
    assert broken.disturbance is None
    assert broken.violations == ("check: configmaps default/site: self.data.text == 'one': is false",)
    assert run_guided(declared, [steps[0]]).violations == ()
    assert declared.run(0, []).violations == ()


def test_a_check_need_not_hold_after_a_harmful_step() -> None:
    """No operator starts a pod whose image does not exist."""
    declared = replace(declare(good), at_rest=rest_checks([ONE]))
    steps = [WorkloadStep("create_site"), WorkloadStep("edit_site", is_harmful=True), WorkloadStep("create_site")]
    assert run_guided(declared, steps).violations == ()


def test_a_simulation_ends_with_its_checks() -> None:
    """After the last fault."""
    declared = replace(declare(good), at_rest=rest_checks([ONE]))
    edit = Step(time=1.0, name="edit_site")
    assert declared.run(0, [edit]).violations[0].startswith("check: configmaps default/site: ")


# ---------------------------------------------------------------- the outside
async def report_conflicts(site: Site, ctx: Context) -> None:
    """Sends errors of the server to a service outside of the cluster, and tries again."""
    try:
        await good(site, ctx)
    except ConflictError:
        await asyncio.open_connection("errors.example.com", 443)
        raise


@pytest.mark.slow
def test_a_connection_of_a_disturbed_run_is_named() -> None:
    """It is no bug, but such runs are not verified."""
    summary = run_verification(declare(report_conflicts), [STEPS], kinds=[DisturbanceKind.CONFLICT])
    assert list(summary.connections) == ["errors.example.com:443"]
    assert summary.broken == []
    with pytest.raises(AssertionError, match=r"does not reach errors\.example\.com:443: declare doubles") as caught:
        verify(declare(report_conflicts), range(1), kinds=[DisturbanceKind.CONFLICT])
    assert str(caught.value).count("errors.example.com:443") == 1


# ---------------------------------------------------------------- foreign clients
async def create_if_missing(site: Site, ctx: Context) -> None:
    """Creates a ConfigMap, and never looks at what it holds."""
    if await ctx.client.get_or_none(ConfigMap, site.metadata.name, namespace=NAMESPACE) is None:
        child = ConfigMap(metadata=ObjectMeta(name=site.metadata.name, namespace=NAMESPACE), data={"text": "one"})
        set_controller_reference(site, child)
        await ctx.client.create(child)


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_what_foreign_clients_do_is_undone(kind: DisturbanceKind) -> None:
    """An apply repairs a child, and creates it again."""
    summary = run_verification(declare(good), [STEPS], kinds=[kind])
    assert summary.runs == {kind: 1}
    assert summary.broken == []


@pytest.mark.slow
def test_an_edit_that_stays_is_found() -> None:
    """A deletion does not stay: the operator watches its children."""
    summary = run_verification(declare(create_if_missing), [STEPS], kinds=list(FOREIGN))
    assert len(summary.runs) == 3
    (broken,) = summary.broken
    assert "edit_child core/configmaps/default/site after 1 actions" in str(broken)
    assert broken.violations == ["state at rest: configmaps default/site data.text: 'one' -> 'edited'"]


@pytest.mark.slow
def test_drift_that_the_next_process_restores_is_found() -> None:
    """An operator may keep what others change, and one that restores it does so without a restart."""
    broken = run_verification(declare(good, children=Secret), [STEPS], kinds=[DisturbanceKind.DRIFT]).broken
    assert [each.partition(":")[0] for run in broken for each in run.violations] == ["drift"]
    assert not run_verification(declare(create_if_missing), [STEPS], kinds=[DisturbanceKind.DRIFT]).broken


def test_a_deletion_that_stays_is_found() -> None:
    """An operator that does not watch its children."""
    declared = declare(create_if_missing, children=Secret)
    broken = run_verification(declared, [STEPS], kinds=[DisturbanceKind.DELETE_CHILD]).broken
    assert [run.violations for run in broken] == [
        ["state at rest: configmaps default/site exists 0 times, without a fault 1 times"]
    ]
