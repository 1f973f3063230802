"""Medians and the choice of the best peer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.model import Run, Variant, percentile, slope
from tests.benchmarks.benchmark_results import CPU, RATE, results


def test_the_median_leaves_failures_out() -> None:
    """A round that failed has no figure; a client without any figure has a reason instead."""
    collected = results(opsdk=[3, -1, 1, 2], one=[-1])
    assert collected.median("small", "opsdk", CPU) == 2
    assert collected.median("small", "one", CPU) is None
    assert collected.reason("small", "one") == "failed: broke"
    assert collected.reason("small", "opsdk") == ""
    assert collected.reason("small", "other") == "not run"


def test_the_best_peer_is_never_opsdk() -> None:
    """The best peer has the smallest figure, or the largest where larger is better, and is another client."""
    collected = results(opsdk=[1], one=[5], other=[4])
    assert collected.best_peer("small", CPU) == ("other", 4)
    assert collected.best_peer("small", RATE) == ("one", 100)
    assert results(opsdk=[1]).best_peer("small", CPU) is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_with_its_share_below_or_equal(values: list[float], share: float) -> None:
    """At least `share` of the values are at most the percentile, and it is one of them."""
    value = percentile(values, share)
    assert value in values
    assert sum(other <= value for other in values) >= share * len(values) - 1e-9


def test_a_namespace_is_a_label() -> None:
    """The namespace of a run is a DNS label, whatever the variant's name."""
    run = Run(client="kubernetes_asyncio", variant=Variant(name="create, 16 at once"), round=2, time_limit=1)
    assert run.namespace == "kubernetes-asyncio-create--16-at-once-2"
    assert len(run.namespace) <= 63


@pytest.mark.parametrize("share", [0.5, 0.99, 0.999])
def test_the_percentile_of_one_value_is_the_value(share: float) -> None:
    """Every percentile of one value is that value."""
    assert percentile([0.25], share) == 0.25


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_the_slope_of_a_line_is_its_slope(rise: float, start: float) -> None:
    """Points on a line have the line's slope."""
    points = [(x, rise * x + start) for x in (1.0, 10.0, 50.0)]
    assert slope(points) == pytest.approx(rise, abs=1e-6)
