"""Verdicts of targets."""

from __future__ import annotations

from benchmarks.__main__ import WORKLOADS
from benchmarks.targets import BEST_PEER, TARGETS, Target, Verdict, judge
from tests.benchmarks.benchmark_results import results

RATIO = Target(letter="x", metric="cpu", limit=0.6, against=BEST_PEER)


def test_a_ratio_is_to_the_best_peer_of_the_same_variant() -> None:
    """Opsdk's median is divided by the smallest peer median."""
    [judgement] = judge(RATIO, {"x": results(opsdk=[1], one=[4], other=[2])})
    assert (judgement.figure, judgement.against, judgement.verdict) == (0.5, "other", Verdict.MET)


def test_a_ratio_above_the_limit_is_missed() -> None:
    """The limit itself is met, more is missed."""
    [judgement] = judge(RATIO, {"x": results(opsdk=[1.3], one=[2])})
    assert judgement.verdict is Verdict.MISSED
    [judgement] = judge(RATIO, {"x": results(opsdk=[1.2], one=[2])})
    assert judgement.verdict is Verdict.MET


def test_larger_is_better_turns_the_comparison_round() -> None:
    """A rate must be at least the limit."""
    target = Target(letter="x", metric="rate", limit=100, at_least=True)
    [judgement] = judge(target, {"x": results(opsdk=[1])})
    assert judgement.verdict is Verdict.MET
    [judgement] = judge(Target(letter="x", metric="rate", limit=101, at_least=True), {"x": results(opsdk=[1])})
    assert judgement.verdict is Verdict.MISSED


def test_without_a_figure_there_is_no_verdict() -> None:
    """A workload that did not run, a failed client and a missing peer are not measured: neither met nor missed."""
    for collected in ({}, {"x": results(opsdk=[-1], one=[1])}, {"x": results(opsdk=[1], one=[-1])}):
        [judgement] = judge(RATIO, collected)
        assert judgement.verdict is Verdict.NOT_MEASURED
        assert judgement.figure is None


def test_a_pattern_selects_variants() -> None:
    """A target of other variants does not judge this one."""
    [judgement] = judge(Target(letter="x", metric="cpu", limit=1, variant="*large"), {"x": results(opsdk=[1])})
    assert (judgement.variant, judgement.verdict) == ("", Verdict.NOT_MEASURED)


def test_each_target_names_a_workload_and_a_metric() -> None:
    """The table of targets fits the workloads, and letters are unique."""
    workloads = {workload.letter: workload for workload in WORKLOADS}
    assert len(workloads) == len(WORKLOADS)
    for target in TARGETS:
        [metric] = [metric for metric in workloads[target.letter].metrics if metric.name == target.metric]
        assert target.at_least is not metric.lower_is_better, target
        assert target.against in {"", BEST_PEER, *workloads[target.letter].clients}, target
