"""Operators in other processes: their bugs are found with the same disturbances. Here they run in virtual time."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest
from foreign_operators import DEFINITION, ELSEWHERE, NAMESPACE, Behaviour, in_process

import envtest
from opsdk.http.asgi_types import App
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.checks import ObjectCheck, parse_check
from opsdk.verification.disturbances import DEFAULT_KINDS, DisturbanceKind
from opsdk.verification.foreign.child import ForeignOperator
from opsdk.verification.foreign.errors import ForeignOperatorError, WorkloadError
from opsdk.verification.foreign.report import ForeignSummary
from opsdk.verification.foreign.run import ForeignSubject, Timing
from opsdk.verification.foreign.verify import ForeignVerification
from opsdk.verification.foreign.workload import UserStep, UserWorkload

REFERENCE = "sites.demo.opsdk.dev/default/a"


def site(text: str) -> JsonObject:
    """The site of all workloads."""
    return {
        "apiVersion": "demo.opsdk.dev/v1",
        "kind": "Site",
        "metadata": {"name": "a", "namespace": NAMESPACE},
        "spec": {"text": text},
    }


RECREATED = UserWorkload(
    name="recreated",
    steps=(
        UserStep(apply=(site("one"),)),
        UserStep(patch=REFERENCE, merge={"spec": {"text": "two"}}),
        UserStep(delete=REFERENCE),
        UserStep(apply=(site("three"),)),
    ),
)


def subject(behaviour: Behaviour, *checks: ObjectCheck) -> ForeignSubject:
    """An operator with a behaviour."""
    return ForeignSubject(
        environment=lambda: envtest.Environment(
            controllers="cluster", controller_events=False, crds=[DEFINITION], compaction_interval=0, hot_loop_limit=0
        ),
        open_operator=in_process(behaviour),
        checks=checks,
        timing=Timing(quiet=5.0, patience=60.0),
    )


async def verified(behaviour: Behaviour, *kinds: DisturbanceKind, workload: UserWorkload = RECREATED) -> ForeignSummary:
    """Run the disturbances of some kinds, or all."""
    verification = ForeignVerification(
        subject(behaviour), [workload], time_limit=1e6, kinds=kinds or DEFAULT_KINDS, parallel=2
    )
    return await verification.run()


@pytest.mark.slow
async def test_a_correct_operator_survives_all_disturbances() -> None:
    """All kinds are tried, also restarts into the past: it lists at any version."""
    summary = await verified(Behaviour.GOOD)
    assert not summary.broken, "\n".join(summary.lines())
    # Merge patches have no resource version: no server answers them with a conflict. The steps of a command wait for a
    # rest each, and nothing deletes or changes its children.
    assert set(summary.runs) == set(DEFAULT_KINDS) - {
        DisturbanceKind.CONFLICT,
        DisturbanceKind.DELETE_CHILD,
        DisturbanceKind.DRIFT,
        DisturbanceKind.EARLY,
        DisturbanceKind.LOSE_LEASE,
        DisturbanceKind.TAKE_OVER,
    }
    assert summary.runs == summary.planned
    assert not summary.unreached


@pytest.mark.slow
async def test_a_crash_between_two_writes_is_found() -> None:
    """The report has the place, what followed, the workload, the requests around it, and the operator's output."""
    summary = await verified(Behaviour.STATUS_FIRST, DisturbanceKind.CRASH_AFTER)
    text = "\n".join(summary.lines())
    assert "crash_after write 2, PATCH /apis/demo.opsdk.dev/v1/namespaces/default/sites/a/status:" in text
    assert "state at rest: configmaps default/a exists 0 times, without a fault 1 times" in text
    assert f'patch {REFERENCE}: {{"spec": {{"text": "two"}}}}' in text
    assert "sites/a/status: 200 crash_after_write" in text
    assert "the operator is status_first" in text


@pytest.mark.parametrize(
    ("behaviour", "violations"),
    [
        (Behaviour.GOOD, []),
        (Behaviour.STALE_DELETION, ["creations and deletions: configmaps default/a was created 3 times"]),
    ],
)
async def test_a_restart_into_the_past_is_found(behaviour: Behaviour, violations: list[str]) -> None:
    """Sieve's time travel: after the re-creation, a list at any version shows the former object about to be deleted."""
    summary = await verified(behaviour, DisturbanceKind.PAST)
    assert summary.runs[DisturbanceKind.PAST] > 0
    assert not summary.unreached
    texts = [violation for run in summary.broken for violation in run.outcome.violations]
    assert [any(each.startswith(violation) for each in texts) for violation in violations] == [True] * len(violations)
    assert bool(texts) == bool(violations), texts


async def test_only_reversed_changes_are_a_past() -> None:
    """Without a re-creation there is no view to go back to."""
    once = UserWorkload(name="once", steps=RECREATED.steps[:3])
    assert (await verified(Behaviour.GOOD, DisturbanceKind.PAST, workload=once)).planned.total() == 0


@pytest.mark.slow
async def test_an_operator_that_ends_in_a_disturbed_run_crashed() -> None:
    """With its exit status."""
    summary = await verified(Behaviour.FRAGILE, DisturbanceKind.REFUSE)
    assert [run.outcome.violations for run in summary.broken] == [
        ["crash: the operator ended by itself, with status 1"]
    ]


async def test_a_restless_operator_is_named_once() -> None:
    """The reference run tells it, so there are no disturbed ones."""
    summary = await verified(Behaviour.RESTLESS)
    (run,) = summary.broken
    assert run.disturbance is None
    assert "it goes on writing" in run.outcome.violations[0]
    assert "PATCH /api/v1/namespaces/default/configmaps/a" in run.outcome.violations[0]
    assert not summary.planned


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (Behaviour.EXITS, "ended with status 3 before the first step: it must run until it is killed"),
        (Behaviour.DEAF, "did not contact the API server within 30 s: it must use KUBECONFIG, or {kubeconfig}"),
        (Behaviour.IDLE, "wrote nothing while recreated ran: apply an object that it handles"),
    ],
)
async def test_an_operator_that_cannot_be_verified_is_an_error(behaviour: Behaviour, message: str) -> None:
    """The message says what to do, and has the last lines of its output."""
    with pytest.raises(ForeignOperatorError) as caught:
        await verified(behaviour)
    assert message in str(caught.value)
    assert f"the operator is {behaviour.value}" in str(caught.value)


@pytest.mark.slow
async def test_a_slow_start_is_waited_for() -> None:
    """The first request is not the end of the start: the first watch is."""
    summary = await verified(Behaviour.SLOW, DisturbanceKind.REFUSE)
    assert summary.runs
    assert not summary.broken
    assert not summary.unreached


async def test_a_disturbed_run_whose_operator_does_not_start_is_an_error() -> None:
    """It is no bug: a port may be taken by a run beside it."""
    starts: list[None] = []

    def opened(environment: object, app: App) -> AbstractAsyncContextManager[ForeignOperator]:
        starts.append(None)
        behaviour = Behaviour.GOOD if len(starts) <= 2 else Behaviour.EXITS
        return in_process(behaviour)(environment, app)

    flaky = replace(subject(Behaviour.GOOD), open_operator=opened)
    with pytest.raises(ExceptionGroup) as caught:
        await ForeignVerification(flaky, [RECREATED], kinds=[DisturbanceKind.REFUSE]).run()
    assert caught.group_contains(ForeignOperatorError, match=r"before the first step: .*write \{port\} for each port")


async def test_kinds_that_are_not_served_are_named() -> None:
    """With what to pass."""
    config_map: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
    other = UserWorkload(name="other", steps=(UserStep(apply=(config_map,)),))
    bare = replace(subject(Behaviour.BLIND), environment=envtest.Environment)
    with pytest.raises(ForeignOperatorError) as caught:
        await ForeignVerification(bare, [other]).run()
    assert "not served: /apis/demo.opsdk.dev/v1/sites; pass its definition with --crds" in str(caught.value)


async def test_an_object_that_nothing_creates_is_named() -> None:
    """With what to do; a workload that applies it is verified."""
    with pytest.raises(ForeignOperatorError) as caught:
        await verified(Behaviour.NEEDY)
    sentence = "the operator looks for /api/v1/namespaces/default/secrets/login, which nothing creates: apply it in the"
    assert sentence in str(caught.value)
    login: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": NAMESPACE}}
    complete = UserWorkload(name="complete", steps=(UserStep(apply=(login, site("one"))),))
    summary = await verified(Behaviour.NEEDY, DisturbanceKind.REFUSE, workload=complete)
    assert summary.runs
    assert not summary.missing


@pytest.mark.slow
async def test_a_namespace_that_nothing_creates_is_named() -> None:
    """With what to do; a workload that applies it is verified."""
    summary = await verified(Behaviour.ELSEWHERE, DisturbanceKind.REFUSE)
    sentence = "the operator writes into the namespace shop-system, which does not exist: apply it in the workload"
    assert list(summary.lines()).count(sentence) == 1
    assert summary.as_json()["absent_namespaces"] == [ELSEWHERE]
    namespace: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ELSEWHERE}}
    complete = UserWorkload(name="complete", steps=(UserStep(apply=(namespace, site("one"))),))
    assert not (await verified(Behaviour.ELSEWHERE, DisturbanceKind.REFUSE, workload=complete)).absent_namespaces.names


async def test_a_step_that_the_server_refuses_is_an_error() -> None:
    """With its number and the server's message."""
    wrong = UserWorkload(name="wrong", steps=(UserStep(delete="unicorns/a"),))
    with pytest.raises(WorkloadError, match=r"step 1 of wrong, delete unicorns/a: .*unicorns"):
        await verified(Behaviour.GOOD, workload=wrong)


async def test_checks_hold_at_rest() -> None:
    """A violated one names the object, also in the reference run."""
    check = parse_check("configmaps: self.metadata.name != 'a'")
    verification = ForeignVerification(subject(Behaviour.GOOD, check), [RECREATED])
    (run,) = (await verification.run()).broken
    assert run.outcome.violations == ["check: configmaps default/a: self.metadata.name != 'a': is false"]


@pytest.mark.slow
async def test_the_budget_of_disturbances_has_each_kind_first() -> None:
    """What is beyond the budget is counted by kind, and is not left for lack of time: the run is finished."""
    verification = ForeignVerification(subject(Behaviour.GOOD), [RECREATED], time_limit=1e6, budget=5)
    summary = await verification.run()
    assert summary.runs == summary.planned
    assert summary.runs.total() == len(summary.runs) == 5
    assert not summary.unfinished
    assert summary.beyond
    assert f"{summary.beyond.total()} beyond the budget: " in str(summary)
    beyond = summary.as_json()["beyond"]
    assert beyond == {kind.value: count for kind, count in sorted(summary.beyond.items())}


async def test_a_disturbed_run_rests_as_long_as_the_operator_needs_to_react() -> None:
    """Undisturbed runs wait for the quiet time after each step, and measure the reactions; the others do not wait."""
    kinds = (DisturbanceKind.LOSE_ANSWER,)
    verification = ForeignVerification(subject(Behaviour.GOOD), [RECREATED], time_limit=1e6, kinds=kinds, budget=2)
    summary = await verification.run()
    undisturbed = 2 * 5.0 * (len(RECREATED.steps) + 1)
    assert undisturbed < summary.seconds < 1.5 * undisturbed
    assert (summary.runs.total(), summary.unreached, summary.broken) == (2, 0, [])


@pytest.mark.slow
async def test_the_time_limit_leaves_out_no_kind_wholly() -> None:
    """Kinds take turns, and what is left is counted."""
    verification = ForeignVerification(subject(Behaviour.GOOD), [RECREATED], time_limit=100.0)
    summary = await verification.run()
    assert len(summary.runs) >= 3
    assert 0 < summary.runs.total() < summary.planned.total()
    assert f"{summary.omitted.total()} left for lack of time" in str(summary)
