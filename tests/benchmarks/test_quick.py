"""The counted operations, at a small size."""

from __future__ import annotations

import json

import pytest

from benchmarks.quick import operations
from benchmarks.quick.__main__ import EXPECTED, PYTHON, count
from benchmarks.quick.counting import TOLERANCE, Counts, compare

SMALL = 20


@pytest.mark.slow
@pytest.mark.parametrize("name", operations.OPERATIONS)
def test_an_operation_costs_no_more_than_expected(name: str) -> None:
    """Calls and bytecodes stay within the tolerance of the checked-in counts, twice that at this small size."""
    stored = json.loads(EXPECTED.read_text())
    if PYTHON not in stored:
        pytest.skip(f"no counts for Python {PYTHON}: make bench-quick ARGS=--update")
    assert compare({name: count(name, SMALL)}, stored[PYTHON], tolerance=2 * TOLERANCE) == []


def test_calls_repeat_exactly() -> None:
    """Two runs of one operation count the same: virtual time, and no sockets."""
    name = "cached get"
    assert count(name, SMALL).compared == count(name, SMALL).compared


def test_a_count_without_expectation_is_a_problem() -> None:
    """A new operation must be given a count."""
    assert compare({"new": Counts(calls=1, bytecodes=1, blocks=0)}, {}) == ["new: no expected count; run with --update"]
