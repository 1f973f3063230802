"""The targets, as data, and their verdicts.

A target compares a median of opsdk with a limit, or its ratio to the best peer, or to one peer, in the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from benchmarks.model import OPSDK, Metric, Results

BEST_PEER = "the best peer"


class Verdict(Enum):
    """What became of a target."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One line of the table of targets.

    Attributes:
        letter: the workload.
        metric: the name of its metric.
        limit: the largest allowed figure; the smallest one if larger figures are better.
        against: the client whose median divides opsdk's, `BEST_PEER`, or empty for a figure without a ratio.
        variant: the variant that counts; empty for every variant that ran.
    """

    letter: str
    metric: str
    limit: float
    against: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A target with the figure that was measured.

    Attributes:
        variant: the variant; empty if none ran.
        figure: opsdk's median, or its ratio; None where one side is missing.
        against: the client that the ratio is to.
    """

    target: Target
    variant: str
    figure: float | None
    against: str
    verdict: Verdict


def judge(target: Target, results: Mapping[str, Results]) -> list[Judgement]:
    """Return one judgement for each variant that the target is about."""
    result = results.get(target.letter)
    metrics = {} if result is None else {metric.name: metric for metric in result.workload.metrics}
    variants = [] if result is None else [v for v in result.variants() if target.variant in {"", v}]
    if result is None or not variants:
        return [_judgement(target, "", None, target.against, metric=None)]
    metric = metrics[target.metric]
    judgements = []
    for variant in variants:
        figure, against = _figure(target, result, variant, metric)
        judgements.append(_judgement(target, variant, figure, against, metric=metric))
    return judgements


def _figure(target: Target, result: Results, variant: str, metric: Metric) -> tuple[float | None, str]:
    own = result.median(variant, OPSDK, metric)
    if not target.against:
        return own, ""
    if target.against == BEST_PEER:
        peer = result.best_peer(variant, metric)
        against, other = peer if peer is not None else (BEST_PEER, None)
    else:
        against, other = target.against, result.median(variant, target.against, metric)
    return (own / other if own is not None and other else None), against


def _judgement(target: Target, variant: str, figure: float | None, against: str, *, metric: Metric | None) -> Judgement:
    if figure is None or metric is None:
        verdict = Verdict.NOT_MEASURED
    else:
        met = figure <= target.limit if metric.lower_is_better else figure >= target.limit
        verdict = Verdict.MET if met else Verdict.MISSED
    return Judgement(target=target, variant=variant, figure=figure, against=against, verdict=verdict)


TARGETS: tuple[Target, ...] = (
    Target(letter="c", metric="CPU ms per object", limit=0.6, against=BEST_PEER),
    Target(letter="c", metric="objects/s", limit=1.0, against=BEST_PEER),
)
