"""Histories of recorded runs: whose changes they have, and what the same operator makes of them.

The journal of the simulated server says who made each write. A recording does not have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import simulations
from hypothesis import given, settings
from hypothesis import strategies as st
from replayed_runs import operator_of
from slow_cases import mostly_slow

import envtest
from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.engine.foreign_changes import ForeignAction, ForeignChange, read_history, write_history
from opsdk.engine.replay.history import foreign_changes
from opsdk.engine.replay.run import OperatorReplay, PlaceKind, ReplayPlace
from opsdk.engine.replay.state import snapshot_of
from opsdk.engine.replay.timeline import Timeline
from opsdk.engine.writes import SIMULATED, Entry
from opsdk.testing.simulate import Fault, Simulation, Step
from tests.engine.played_histories import RecordedHistory, comparable, controllers_of, history_of, play

ENDING = {Fault.CRASH.value, Fault.CRASH_AFTER_WRITE.value, Fault.STOP.value, Fault.LOSE_LEASE.value}
"""Faults that end a recording."""
WRITING = {Fault.CONFLICTING_WRITE.value, Fault.DELETE_CHILD.value, Fault.DELETE_IN_GAP.value}
"""Faults that write as another client."""
UNEQUAL = {
    # A relist showed a deletion and a pause that ended it at once: the deletion waits, and the object after it too.
    ("pauses", 4),
}
"""Runs whose end differs, with the reason."""


def recorded(name: str, steps: Sequence[Step], seed: int) -> tuple[RecordedHistory | None, Sequence[Entry]]:
    """Record a run. Returns the history of its first start, and the writes that a server with a journal stored."""
    simulation, writes = simulations.ALL[name], list[Entry]()

    def make_environment() -> Any:
        env = simulation.environment()
        if isinstance(env, envtest.Environment):
            env.journal.subscribe(writes.append)
        return env

    _, starts = replace(simulation, environment=make_environment).record(seed, steps)
    return history_of(starts[0].records, simulation), writes


def check_end(name: str, seed: int) -> int:
    """Play the history of a seed. Returns the number of changes that were made."""
    simulation = simulations.ALL[name]
    history, _ = recorded(name, [step for step in simulation.plan(seed) if step.name not in ENDING], seed)
    if history is None or (name, seed) in UNEQUAL:
        return 0
    objects, played = play(simulation, history, controllers_of(name, history))
    kinds = {kind.kind for kind in history.state.kinds} - {"Namespace", "CustomResourceDefinition"}
    assert comparable(objects, kinds) == comparable(history.end, kinds), f"{name}, seed {seed}"
    return sum(not each.skipped for each in played)


@pytest.mark.parametrize("name", mostly_slow(simulations.ALL, every=3))
def test_the_same_operator_ends_as_in_its_recording(name: str) -> None:
    """With the changes of others at their times: faults of the network included."""
    assert sum(check_end(name, seed) for seed in range(1)) >= 1


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("name", simulations.ALL)
def test_the_same_operator_ends_as_in_its_recording_for_more_seeds(name: str) -> None:
    """Eleven more."""
    assert sum(check_end(name, seed) for seed in range(1, 12)) >= 20


# ------------------------------------------------------------------ whose changes
def actions_of(simulation: Simulation, seed: int) -> Sequence[Step]:
    """Return the steps of users in the plan of a seed."""
    names = {action.__name__ for action in simulation.actions}
    return [step for step in simulation.plan(seed) if step.name in names]


def expected_in(history: RecordedHistory, writes: Sequence[Entry]) -> Counter[tuple[str, str]]:
    """Return what users did after the place of a history, by action and subject."""
    since = max((int(obj["metadata"]["resourceVersion"]) for obj in history.state.objects), default=0)
    kinds = {kind.kind for kind in history.state.kinds}
    changes = Counter[tuple[str, str]]()
    for entry in writes:
        obj = entry.after or entry.before or {}
        if entry.revision <= since or entry.writer.manager != "user" or obj["kind"] not in kinds:
            continue
        before = (entry.before or obj)["metadata"]
        begins_deletion = "deletionTimestamp" in obj["metadata"] and "deletionTimestamp" not in before
        changes["delete" if begins_deletion else entry.verb, subject_of_tree(obj)] += 1
    return changes


def collected_in(writes: Sequence[Entry]) -> set[tuple[str, str]]:
    """Return what the garbage collector deleted."""
    return {
        ("delete", subject_of_tree(entry.before))
        for entry in writes
        if entry.before is not None and entry.after is None and entry.writer.user in SIMULATED
    }


def changes_in(history: Sequence[ForeignChange], *, without: set[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return the changes of a history, by action and subject."""
    changes = Counter((change.action.value, change.subject) for change in history)
    return Counter({key: count for key, count in changes.items() if key not in without})


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(name=st.sampled_from(["boxes", "families", "websites", "replicas"]), seed=st.integers(0, 10_000))
def test_own_writes_are_never_foreign_and_foreign_ones_never_own(name: str, seed: int) -> None:
    """Without faults, the history has exactly the writes of users: the operator reads and writes the same objects."""
    history, writes = recorded(name, actions_of(simulations.ALL[name], seed), seed)
    if history is None:
        return
    expected = expected_in(history, writes)
    assert changes_in(history.history, without=collected_in(writes) - set(expected)) == expected


def faults_of(simulation: Simulation, seed: int) -> Sequence[Step]:
    """Return the faults in the plan of a seed that neither end a recording nor write."""
    steps = [step for step in simulation.plan(seed) if step not in actions_of(simulation, seed)]
    return [step for step in steps if step.name not in ENDING | WRITING]


@pytest.mark.parametrize("name", mostly_slow(simulations.ALL, every=3))
def test_a_run_without_users_has_no_history(name: str) -> None:
    """Whatever the network does to the operator's own writes."""
    for seed in (1, 3):
        history, _ = recorded(name, faults_of(simulations.ALL[name], seed), seed)
        assert history is None or not history.history, f"seed {seed}"


@pytest.mark.parametrize("name", ["boxes", "families", "pauses", "websites"])
def test_faults_add_no_changes_to_those_of_users(name: str) -> None:
    """A gap may hide changes. Those of the operator are never among the others."""
    for seed in range(2):
        simulation = simulations.ALL[name]
        steps = sorted([*actions_of(simulation, seed), *faults_of(simulation, seed)], key=lambda step: step.time)
        history, writes = recorded(name, steps, seed)
        if history is None:
            continue
        own = changes_in(history.history, without=collected_in(writes)) - expected_in(history, writes)
        assert not own, f"seed {seed}: {own}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["boxes", "families", "pauses", "websites"])
def test_a_recording_that_begins_with_a_checkpoint_has_the_rest_of_the_history(name: str) -> None:
    """Its watches were open before, and its lists had the objects of the caches."""
    simulation = simulations.ALL[name]
    _, starts = simulation.record(4, actions_of(simulation, 4), checkpoint_period=5.0)
    checkpoints = starts[0].checkpoints()
    sizes = []
    for checkpoint in checkpoints:
        timeline = Timeline(starts[0].records)
        with OperatorReplay(timeline, operator_of(simulation)) as replay:
            replay.run(ReplayPlace(PlaceKind.TIME, Timeline(checkpoint.records).start_time + 0.001))
            place: dict[str, Any] = {"after": replay.iteration, "since": replay.outcome.seconds}
            objects = snapshot_of(replay).objects
        whole, rest = (
            foreign_changes(Timeline(each.records), objects=objects, **place) for each in (starts[0], checkpoint)
        )
        assert rest == whole
        sizes.append(len(rest))
    assert max(sizes)


@given(
    st.lists(
        st.builds(
            ForeignChange,
            seconds=st.floats(0, 1e6),
            action=st.sampled_from([ForeignAction.UPDATE, ForeignAction.DELETE]),
            api_version=st.text(max_size=5),
            kind=st.text(max_size=5),
            name=st.text(max_size=5),
            manager=st.text(max_size=5),
            after=st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
        ),
        max_size=5,
    )
)
def test_a_file_keeps_each_change(history: list[ForeignChange]) -> None:
    """Whatever its texts are."""
    assert read_history(write_history(history)) == history
