"""Recordings come from anywhere: a checkpoint that lacks records, or has others, ends in a clear error or a replay."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import simulations
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from replayed_runs import operator_of

from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.errors import OpsdkError
from opsdk.recording.records import CheckpointBegan, CheckpointEnded, QueuedRequest, Record

SIMULATION = simulations.ALL["replicas"]


@cache
def recorded() -> Sequence[Record]:
    """Return a recording that begins with a checkpoint of a leader."""
    _, starts = SIMULATION.record(1, checkpoint_period=5.0)
    checkpoints = [checkpoint for start in starts for checkpoint in start.checkpoints()]
    return max(checkpoints, key=lambda each: sum(isinstance(record, QueuedRequest) for record in each.records)).records


def replayed(records: Sequence[Record]) -> str:
    """Replay a recording. Returns the error; empty if there was none."""
    try:
        with OperatorReplay(Timeline(records), operator_of(SIMULATION)) as replay:
            replay.run()
    except OpsdkError as error:
        return str(error)
    return ""


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_checkpoint_without_some_records(data: st.DataObject) -> None:
    """Whatever is missing: the replay says so, or does what is left."""
    records = list(recorded())
    end = next(place for place, record in enumerate(records) if isinstance(record, CheckpointEnded))
    missing = data.draw(st.sets(st.integers(2, end), max_size=6))
    replayed([record for place, record in enumerate(records) if place not in missing])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lease=st.binary(max_size=20), bits=st.lists(st.integers(0, 1 << 32), max_size=4))
def test_a_checkpoint_with_other_values(lease: bytes, bits: list[int]) -> None:
    """The error says that it is damaged."""
    began = recorded()[1]
    assert isinstance(began, CheckpointBegan)
    damaged = replace(began, lease_times=lease, random=(3, tuple(bits), None))
    assert "it is damaged" in replayed([recorded()[0], damaged, *recorded()[2:]])
