"""A plan says what then really happens."""

from __future__ import annotations

import pytest
from planned_scenarios import SCENARIOS
from planned_worlds import compare
from slow_cases import mostly_slow


@pytest.mark.parametrize("name", mostly_slow(SCENARIOS, every=3))
def test_a_plan_equals_what_then_happens(name: str) -> None:
    """Objects, actions and fields of each write of the operator, and the plan only reads.

    See ``python -m tests.simulation.plans`` for more worlds.
    """
    comparisons = [compare(SCENARIOS[name], seed) for seed in range(2)]
    assert [each.difference for each in comparisons if not each.is_exact] == []
    assert any(each.happened for each in comparisons)
    assert {method for each in comparisons for method in each.methods} == {"GET"}
    assert [each.connections for each in comparisons if each.connections] == []
