"""When an operator has nothing more to do, and which of its writes repeat without end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.engine.world.rest import Rest
from opsdk.engine.write_loops import REPEATS, WriteLoop, WriteLoops
from opsdk.engine.writes import Entry, Writer
from opsdk.structured_merge.value import JsonObject

QUIET = 600.0
WRITER = Writer(user="operator", manager="shop")


def child(number: int) -> JsonObject:
    """A child of one owner."""
    metadata = {"name": f"child-{number}", "namespace": "default", "ownerReferences": [{"uid": "owner"}]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def entry(number: int, verb: str) -> Entry:
    """A write of a child; an update is always of the first one."""
    obj = child(0 if verb == "update" else number)
    before, after = (None if verb == "create" else obj), (None if verb == "delete" else obj)
    key = f"core/configmaps/default/{obj['metadata']['name']}"
    return Entry(number, WRITER, key, before, after)


def run(times: list[float], verb: str) -> list[WriteLoop]:
    """Make writes at some times, and look every five seconds until the operator is at rest. Returns the loops."""
    rest, loops, now, waiting = Rest(quiet=QUIET), WriteLoops(), 0.0, list(enumerate(times))
    rest.begin(now)
    while not rest.is_reached(now):
        now += 5.0
        while waiting and waiting[0][1] <= now:
            number, time = waiting.pop(0)
            if loops.add(time, entry(number, verb), ("data.a",) if verb == "update" else ()):
                rest.note_write(time)
    return list(loops.found(now))


@given(st.lists(st.floats(0.0, 60.0), min_size=REPEATS + 1, max_size=200), st.sampled_from(["create", "delete"]))
def test_many_objects_at_once_are_no_loop(times: list[float], verb: str) -> None:
    """However many children an owner gets or loses within a minute, it has nothing more to do afterwards."""
    assert run(sorted(times), verb) == []


@pytest.mark.parametrize("verb", ["create", "update", "delete"])
@pytest.mark.parametrize("period", [1.0, 60.0, 599.0])
def test_writes_that_repeat_are_a_loop(verb: str, period: float) -> None:
    """They do not keep the run from its end, and are named."""
    [loop] = run([period * number for number in range(1000)], verb)
    assert loop.count > REPEATS


def test_objects_that_each_retry_creates_are_a_loop() -> None:
    """The delay of the retries grows up to 100 seconds."""
    times, delay = [0.0], 0.005
    while times[-1] < 86_400.0:
        times.append(times[-1] + delay)
        delay = min(delay * 2, 100.0)
    [loop] = run(times, "create")
    assert not loop.paths


def test_a_field_that_changed_often_is_named_also_if_it_stopped() -> None:
    """The writes of one field in a burst are no batch of objects."""
    assert len(run([0.1 * number for number in range(50)], "update")) == 1
