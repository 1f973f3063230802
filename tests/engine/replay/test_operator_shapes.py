"""Operators of many shapes: a replay sends the requests of the recording, or says what the recording does not have."""

from __future__ import annotations

import pytest
from replayed_runs import operator_of
from replayed_shapes import SHAPES, UNREPEATABLE, simulation_of
from slow_cases import mostly_slow

from opsdk.engine.replay.report import outcome_lines
from opsdk.engine.replay.run import OperatorReplay, ReplayOutcome
from opsdk.engine.replay.timeline import Timeline
from opsdk.recording.redaction import Redactor
from opsdk.recording.unrecorded import unrecorded_calls
from opsdk.testing.simulate import Simulation


def replayed(simulation: Simulation, seed: int) -> list[ReplayOutcome]:
    """Record a run, and replay each start of a replica."""
    _, starts = simulation.record(seed)
    outcomes = []
    for start in starts:
        # As a process writes it: with digests instead of hidden values.
        records = Redactor(b"key").redact(start.records)
        with OperatorReplay(Timeline(records), operator_of(simulation)) as replay:
            outcomes.append(replay.run())
    return outcomes


@pytest.mark.parametrize("name", mostly_slow(SHAPES, every=3))
def test_a_shape_replays_identically(name: str) -> None:
    """Each request in its iteration, byte for byte but for hidden values."""
    for number, outcome in enumerate(replayed(simulation_of(SHAPES[name]), 1)):
        assert outcome.requests
        problems = [*map(str, outcome.divergences[:3]), *map(str, outcome.unsent[:3])]
        assert outcome.is_identical, f"{name}, start {number}: {outcome.identical} of {outcome.requests}: {problems}"


@pytest.mark.parametrize("name", UNREPEATABLE)
def test_what_no_recording_has_is_named_and_shown(name: str) -> None:
    """When the recording begins; and in the replay, with both values of the field, or with the request that differs."""
    make, label = UNREPEATABLE[name]
    _, starts = simulation_of(make).record(0)
    calls = [each for each in unrecorded_calls(["replayed_shapes"]) if each.startswith(f"{label} (")]
    assert bool(calls) == bool(label)
    with OperatorReplay(Timeline(list(starts[0].records)), operator_of(simulation_of(make))) as replay:
        outcome = replay.run()
    lines = "\n".join(outcome_lines(outcome, []))
    assert not outcome.is_identical
    assert ("status.text: recorded '" in lines and "', replayed '" in lines) or "sent in addition: PATCH" in lines
