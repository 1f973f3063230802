"""Conditions: what people and tools wait for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from opsdk.apimachinery.meta import Condition
from opsdk.recipes.conditions import get_condition, is_condition_true, set_condition

NOON = datetime(2026, 1, 1, 12, 0, 0, 999, tzinfo=UTC)


def test_the_transition_time_moves_with_the_status() -> None:
    """A new reason or message is a change but not a transition; nothing new is not a change."""
    conditions: list[Condition] = []
    later = NOON + timedelta(hours=1)
    assert set_condition(conditions, "Ready", False, "Waiting", now=NOON)
    assert not set_condition(conditions, "Ready", "False", "Waiting", now=later)
    assert set_condition(conditions, "Ready", False, "Still", "words", now=later)
    assert conditions[0].last_transition_time == NOON.replace(microsecond=0)
    assert set_condition(conditions, "Ready", True, "Done", now=later, observed_generation=3)
    assert conditions[0].last_transition_time == later.replace(microsecond=0)
    assert set_condition(conditions, "Ready", True, "Done", now=later, observed_generation=4)
    assert len(conditions) == 1


def test_each_type_stands_alone() -> None:
    """Setting a condition changes no other type, and a missing condition is neither true nor false."""
    conditions = [Condition(type="A", status="True"), Condition(type="B", status="Unknown")]
    set_condition(conditions, "B", True, "X", now=NOON)
    assert [c.type for c in conditions] == ["A", "B"]
    assert is_condition_true(conditions, "B")
    assert get_condition(conditions, "C") is None
    assert not is_condition_true(conditions, "C")
