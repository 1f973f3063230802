"""The targets, as data, and their verdicts.

A target compares a median of opsdk with a limit, or its ratio to the best peer, or to one peer, in the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

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
        limit: the largest allowed figure; the smallest one with `at_least`.
        at_least: larger figures are better, as the metric says.
        against: the client whose median divides opsdk's, `BEST_PEER`, or empty for a figure without a ratio.
        variant: a pattern with ``*`` for the variants that count; empty for every variant that ran.
        last: of these only the last one, which is the largest.
    """

    letter: str
    metric: str
    limit: float
    at_least: bool = False
    against: str = ""
    variant: str = ""
    last: bool = False


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
    variants = [] if result is None else [v for v in result.variants() if fnmatchcase(v, target.variant or "*")]
    variants = variants[-1:] if target.last else variants
    if result is None or not variants:
        return [_judgement(target, "", None, target.against)]
    metric = metrics[target.metric]
    judgements = []
    for variant in variants:
        figure, against = _figure(target, result, variant, metric)
        judgements.append(_judgement(target, variant, figure, against))
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


def _judgement(target: Target, variant: str, figure: float | None, against: str) -> Judgement:
    if figure is None:
        verdict = Verdict.NOT_MEASURED
    else:
        met = figure >= target.limit if target.at_least else figure <= target.limit
        verdict = Verdict.MET if met else Verdict.MISSED
    return Judgement(target=target, variant=variant, figure=figure, against=against, verdict=verdict)


TARGETS: tuple[Target, ...] = (
    Target(letter="a", metric="RSS KiB per object", limit=1.8, variant="*configmaps", last=True),
    Target(letter="a", metric="RSS KiB per object", limit=4.0, variant="*pods", last=True),
    Target(letter="a", metric="peak - steady MB", limit=10.0),
    Target(letter="a", metric="CPU ms per object", limit=1.0, against=BEST_PEER),
    Target(letter="c", metric="CPU ms per object", limit=0.6, against=BEST_PEER),
    Target(letter="c", metric="objects/s", limit=1.0, at_least=True, against=BEST_PEER),
    Target(letter="d", metric="ms per pass", limit=0.4),
    Target(letter="d", metric="requests", limit=0.0),
    Target(letter="e", metric="above delivery p50 ms", limit=2.0, variant="100 events/s"),
    Target(letter="e", metric="above delivery p99 ms", limit=10.0, variant="100 events/s"),
    Target(letter="f", metric="gets/s", limit=40_000, at_least=True),
    Target(letter="g", metric="CPU ms per request", limit=1.0, against="aiohttp"),
    Target(letter="i", metric="stall ms", limit=25.0),
    Target(letter="j", metric="ms", limit=150.0, variant="import"),
    Target(letter="j", metric="ms", limit=250.0, variant="first status"),
    Target(letter="k", metric="MB for the watchers", limit=150.0),
    Target(letter="k", metric="creates/s", limit=2500.0, at_least=True),
    Target(letter="k", metric="ready ms", limit=400.0),
)
