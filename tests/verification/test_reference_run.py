"""The undisturbed runs that tell what is right."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from opsdk.engine.world.outcome import Outcome
from opsdk.engine.world.rest_state import RestState
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.guided_run import WorkloadStep
from opsdk.verification.reference_run import REFERENCE_SEED, ReferenceRun

STEPS = [WorkloadStep("one"), WorkloadStep("two")]
KEY = "core/configmaps/default/a"


def state(**data: str) -> RestState:
    """A state with one ConfigMap."""
    obj: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
    return RestState(objects={KEY: [obj]})


GOOD = Outcome(states={0: state(), 1: state(text="one"), 2: state(text="two")})
BROKEN = Outcome(states={0: state()}, violations=["hot loop: it repeats a write"])


@pytest.mark.parametrize("broken_seed", [REFERENCE_SEED, REFERENCE_SEED + 1])
def test_each_of_the_two_runs_may_break_an_invariant(broken_seed: int) -> None:
    """Then there is nothing to compare with: a run that broke has no state for some of the steps."""
    reference = ReferenceRun(lambda seed: BROKEN if seed == broken_seed else GOOD, STEPS)
    assert reference.violations == BROKEN.violations


def test_what_differs_in_the_two_runs_is_not_compared() -> None:
    """It is named; everything else is compared."""
    other = Outcome(states={0: state(), 1: state(text="another"), 2: state(text="two")})
    reference = ReferenceRun(lambda seed: GOOD if seed == REFERENCE_SEED else other, STEPS)
    assert reference.uncompared == ["configmaps default/a data.text"]
    assert reference.judge(other, counted=True) == ()
    disturbed = Outcome(states={**GOOD.states, 2: state(text="wrong")})
    assert reference.judge(disturbed, counted=True) == [
        "state at rest: configmaps default/a data.text: 'two' -> 'wrong'"
    ]


def test_a_state_that_does_not_work_is_not_compared() -> None:
    """What a failing operator leaves depends on what worked before; the states afterwards are compared."""
    failing = replace(state(text="one"), failing={"default/a": "422 Invalid"})
    usual = Outcome(states={**GOOD.states, 1: failing})
    reference = ReferenceRun(lambda _: usual, STEPS)
    assert reference.judge(Outcome(states={**usual.states, 1: state()}), counted=True) == ()
    assert reference.judge(Outcome(states={**usual.states, 2: state()}), counted=True)


def test_a_transient_object_may_come_and_go() -> None:
    """What existed at rest may not: it was deleted, and created again."""
    gone, there = RestState(created={KEY: 1}), replace(state(), created={KEY: 2})
    reference = ReferenceRun(lambda _: Outcome(states={1: gone, 2: there}), STEPS)
    transient = Outcome(states={1: replace(gone, created={KEY: 2}), 2: replace(there, created={KEY: 3})})
    assert reference.judge(transient, counted=True)
    assert reference.judge(transient, counted=True, transient=True) == ()
    replaced = Outcome(states={1: gone, 2: replace(there, created={KEY: 3})})
    assert reference.judge(replaced, counted=True, transient=True)


def test_of_an_uncertain_state_only_the_numbers_are_compared() -> None:
    """An operator that keeps a larger volume does not create it more often."""
    steps = [WorkloadStep("one"), WorkloadStep("two", is_uncertain=True)]
    reference = ReferenceRun(lambda _: GOOD, steps)
    assert reference.judge(Outcome(states={**GOOD.states, 2: state(text="kept")}), counted=True) == ()
    again = replace(GOOD.states[2], created={KEY: 1})
    assert reference.judge(Outcome(states={**GOOD.states, 2: again}), counted=True)


def test_what_differs_in_an_equal_run_is_not_compared_any_more() -> None:
    """The operator decides it by chance."""
    reference = ReferenceRun(lambda _: GOOD, STEPS)
    chance = Outcome(states={**GOOD.states, 2: state(text="wrong")})
    assert reference.judge(chance, counted=True)
    reference.allow(chance)
    assert reference.judge(chance, counted=True) == ()


def test_what_a_disturbance_leaves_in_a_double_is_reported() -> None:
    """At the end of a run, beyond what undisturbed runs leave there."""
    usual = Outcome(states=GOOD.states, entries={"records": 1})
    reference = ReferenceRun(lambda _: usual, STEPS)
    assert reference.judge(usual, counted=True) == ()
    leaking = Outcome(states=GOOD.states, entries={"records": 2})
    assert reference.judge(leaking, counted=True) == (
        "external system: records has 2 entries at the end, without a fault 1",
    )
