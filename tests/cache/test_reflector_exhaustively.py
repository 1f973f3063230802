"""Reflector, store and own writes beside a server: every sequence of requests, responses, events and faults in bounds.

The bounds limit writes and faults, so each search ends: there is no further state.
"""

from __future__ import annotations

from collections.abc import Container

import pytest
from state_search import reachable_states

from opsdk.cache.entry import StoreEntry
from opsdk.cache.own_writes import OwnWrites
from opsdk.cache.reflector import CheckRevision, Reflector, ReflectorStep, Wait, WatchFrom
from opsdk.errors import OpsdkError
from tests.cache.cache_machine import CacheBounds
from tests.cache.own_writes_machine import OwnWritesMachine

_NO_LIMIT = 1000
"""Operations: more than any sequence within the bounds has."""


def search(bounds: CacheBounds, machine: type[OwnWritesMachine] = OwnWritesMachine) -> int:
    """Carry out every sequence within the bounds. Returns the number of different states."""
    return reachable_states(lambda: machine(bounds), _NO_LIMIT, at_rest=OwnWritesMachine.come_to_rest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        pytest.param(CacheBounds(foreign="a", commits=2), 3000, marks=pytest.mark.slow),
        pytest.param(CacheBounds(foreign="a", commits=2, watch_list=True), 2000, marks=pytest.mark.slow),
        (CacheBounds(foreign="a", commits=2, faults=0, restores=1), 1800),
        pytest.param(
            CacheBounds(foreign="ab", commits=2, faults=0, restores=1, page_size=1), 2500, marks=pytest.mark.slow
        ),
    ],
)
async def test_reads_and_handlers_obey_the_laws_in_every_state(bounds: CacheBounds, states: int) -> None:
    """Two writes, own or foreign, with a fault or a server that goes back."""
    assert search(bounds) > states


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        (CacheBounds(foreign="a", commits=3), 23_000),
        (CacheBounds(foreign="a", commits=2, faults=2), 22_000),
        (CacheBounds(foreign="a", commits=3, faults=0, restores=1), 15_000),
        (CacheBounds(foreign="a", commits=2, restores=1, unconditional=True), 15_000),
        (CacheBounds(commits=3, faults=0, restores=1, watch_list=True), 15_000),
    ],
)
async def test_reads_and_handlers_obey_the_laws_in_more_states(bounds: CacheBounds, states: int) -> None:
    """Three writes, two faults, or a fault and a server that goes back."""
    assert search(bounds) > states


@pytest.mark.slow
async def test_reads_and_handlers_obey_the_laws_with_two_objects() -> None:
    """Two own objects in a list of two pages."""
    assert search(CacheBounds(own="ab", commits=2, page_size=1)) > 4000


# ------------------------------------------------------------------ planted bugs
class ForgetfulWrites(OwnWrites):
    """The bug: a list ends every own write, also one that was acknowledged after the request."""

    def listed(self, keys: Container[object], revision: int | None) -> list[StoreEntry]:
        """End all."""
        self.list_started()
        return super().listed(keys, revision)


class HastyWrites(OwnWrites):
    """The bug: any state of the object that the watch shows ends an own write, also an older one."""

    def shown(self, entry: StoreEntry) -> StoreEntry | None:
        """End the write."""
        self.pending.pop(entry.key, None)
        return super().shown(entry)


class HastyReflector(Reflector):
    """The bug: a broken watch resumes without a check."""

    def on_watch_error(self, error: OpsdkError, *, now: float) -> ReflectorStep:
        """Watch again after the last resource version."""
        step = super().on_watch_error(error, now=now)
        if isinstance(step.next, Wait) and isinstance(step.next.then, CheckRevision):
            step.next = Wait(step.next.seconds, WatchFrom(self.resource_version))
        return step


class ForgetfulMachine(OwnWritesMachine):
    """A machine with the first bug."""

    own_writes_class = ForgetfulWrites


class HastyWritesMachine(OwnWritesMachine):
    """A machine with the second bug."""

    own_writes_class = HastyWrites


class HastyReflectorMachine(OwnWritesMachine):
    """A machine with the third bug."""

    reflector_class = HastyReflector


@pytest.mark.parametrize(
    ("machine", "bounds", "message"),
    [
        (ForgetfulMachine, CacheBounds(foreign="a", commits=2), "is read at 0 behind .*\nafter .*own create a"),
        (HastyWritesMachine, CacheBounds(foreign="a", commits=3, faults=0), "is read at 200 behind the write of 400"),
        (HastyReflectorMachine, CacheBounds(foreign="a", commits=1, restores=1), ", restore 1, and then at rest"),
    ],
)
async def test_a_planted_bug_is_found_with_its_sequence(
    machine: type[OwnWritesMachine], bounds: CacheBounds, message: str
) -> None:
    """The shortest one."""
    with pytest.raises(AssertionError, match=message):
        search(bounds, machine)
