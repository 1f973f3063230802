"""Hot loops under faults: each is named and slowed, and ends with its cause; a correct operator has no alarm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opsdk.controller.steps import hot_loops
from opsdk.controller.steps.hot_loops import HotLoops
from opsdk.testing.simulate import simulate
from tests.testing.hot_loop_simulation import LOOPS, NO_LOOPS


@pytest.mark.slow
def test_loops_are_found_and_let_go() -> None:
    """Whatever happens to server, network and process.

    In schedule 1 the answers to half of the writes are lost. In schedule 108 slow passes come before fast ones. In
    schedule 136 the child of a loop is deleted.
    """
    simulate(LOOPS, [1, 108, 136, *range(2, 7)], name="LOOPS")


@pytest.mark.slow
def test_a_correct_operator_has_no_alarm() -> None:
    """The same faults and actions are not a hot loop."""
    simulate(NO_LOOPS, range(8), name="NO_LOOPS")


def never_find(patch: pytest.MonkeyPatch) -> None:
    """A loop has no alarm, and is not slowed."""
    patch.setattr(HotLoops, "ended", lambda *_: None)


def find_everywhere(patch: pytest.MonkeyPatch) -> None:
    """The causes of all passes count as own."""
    patch.setattr(hot_loops, "_link", lambda cause, writes: str(cause))


def slow_without_growth(patch: pytest.MonkeyPatch) -> None:
    """The waits of a loop stay at a second."""
    patch.setattr(hot_loops, "_MAX_DELAY", 1.0)


def never_let_go(patch: pytest.MonkeyPatch) -> None:
    """A foreign cause waits in a loop."""
    begins = HotLoops.begins

    def held(self: HotLoops, request: Any, causes: Any, now: float) -> float:
        row = self.rows[request]
        return row.next_at - now if now < row.next_at else begins(self, request, causes, now)

    patch.setattr(HotLoops, "begins", held)


@pytest.mark.parametrize("plant", [never_find, find_everywhere, slow_without_growth, never_let_go])
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """One of four schedules breaks an invariant."""
    plant(monkeypatch)
    assert any(LOOPS.run(seed).violations for seed in range(4))
