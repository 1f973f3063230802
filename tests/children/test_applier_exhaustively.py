"""An applier beside a server: every sequence of passes, requests, changes, old caches and lost responses in bounds.

The bounds limit changes and faults, so each search ends: there is no further state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from state_search import reachable_states

from tests.children.applier_machine import ApplierBounds, ApplierMachine
from tests.children.childkit import new_term

_NO_LIMIT = 1000
"""Operations: more than any sequence within the bounds has."""


def search(bounds: ApplierBounds) -> int:
    """Carry out every sequence within the bounds. Returns the number of different states."""
    with new_term():
        return reachable_states(lambda: ApplierMachine(bounds), _NO_LIMIT, at_rest=ApplierMachine.come_to_rest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        (ApplierBounds(changes=3), 300),
        pytest.param(ApplierBounds(changes=2, edits=1, faults=1), 2000, marks=pytest.mark.slow),
    ],
)
async def test_children_obey_the_laws_in_every_state(bounds: ApplierBounds, states: int) -> None:
    """Changes of the owner, edits of the child, a lost response or another leader."""
    assert search(bounds) > states


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        pytest.param(ApplierBounds(changes=3, faults=1, old_standby=True), 5000, marks=pytest.mark.deep),
        pytest.param(ApplierBounds(changes=2, edits=1, faults=1, old_standby=True), 5000, marks=pytest.mark.deep),
        pytest.param(ApplierBounds(changes=2, edits=1, faults=2), 3000, marks=pytest.mark.deep),
        (ApplierBounds(changes=1, edits=3, faults=1), 1000),
        pytest.param(ApplierBounds(changes=4, faults=1), 10_000, marks=pytest.mark.deep),
    ],
)
async def test_children_obey_the_laws_in_more_states(bounds: ApplierBounds, states: int) -> None:
    """More changes, or a leader with an older cache."""
    assert search(bounds) > states


# ------------------------------------------------------------------ planned bugs
async def trust(check: Any) -> None:
    """The bug: a create does not check the owner."""


def forget_nothing(memory: Any, gvk: Any, key: Any) -> None:
    """The bug: an object that leaves the cache is remembered."""


def ignore_version(record: Any, uid: str, resource_version: str) -> bool:
    """The bug: a changed object of the same uid counts as unchanged."""
    return bool(record.uid == uid)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "bug", "bounds", "message"),
    [
        (
            "opsdk.children.applier._OwnerCheck.before_create",
            trust,
            ApplierBounds(changes=3, faults=1, old_standby=True),
            "is taken for .*\nafter .*, another replica leads, a pass begins",
        ),
        (
            "opsdk.children.applier_memory.ApplierMemory.forget",
            forget_nothing,
            ApplierBounds(changes=2),
            "remembers a child that does not exist.*\nafter .*, the owner wants none, and then at rest",
        ),
        (
            "opsdk.children.apply_record.ApplyRecord.is_at",
            ignore_version,
            ApplierBounds(changes=1, edits=1),
            "the child is {'color': 'green'}, not .*\nafter .*, kubectl edits the child, and then at rest",
        ),
    ],
)
async def test_a_planted_bug_is_found_with_its_sequence(
    target: str, bug: Callable[..., Any], bounds: ApplierBounds, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shortest one."""
    monkeypatch.setattr(target, bug)
    with pytest.raises(AssertionError, match=message):
        search(bounds)
