"""Workloads, variants and results as values."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process import Outcome
from benchmarks.protocol import Options, Sample
from benchmarks.server import World

OPSDK = "opsdk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One column of a workload's table.

    Attributes:
        name: the heading, with the unit.
        value: the figure of a sample; None where the sample has no such figure.
        lower_is_better: the direction of ratios.
        digits: digits after the point.
    """

    name: str
    value: Callable[[Sample], float | None]
    lower_is_better: bool = True
    digits: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One size or concurrency of a workload."""

    name: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process to run: which client, which variant, which round."""

    client: str
    variant: Variant
    round: int
    time_limit: float

    @property
    def namespace(self) -> str:
        """A namespace of this run only."""
        name = f"{Path(self.client).name}-{self.variant.name}-{self.round}".lower()
        return "".join(letter if letter.isalnum() else "-" for letter in name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload of the table.

    Attributes:
        letter: its name on the command line.
        title: its heading.
        note: what is done and measured, in sentences for the report.
        clients: modules of `benchmarks.clients`, in the order of the table.
        variants: the sizes for a scale; 1.0 is the scale of ``make bench``.
        metrics: the columns.
        measure: prepares, runs the process, checks the result. It raises `CheckError` when the result is wrong.
        rounds: at most so many rounds; None for as many as the command line says.
        summary: a sentence below the table, made of the results.
        world: workloads of the same name share one server, and so its objects; empty for a server of its own.
    """

    letter: str
    title: str
    note: str
    clients: Sequence[str]
    variants: Callable[[float], Sequence[Variant]]
    metrics: Sequence[Metric]
    measure: Callable[[World, Run], Awaitable[Outcome]]
    rounds: int | None = None
    world: str = ""
    summary: Callable[[Results], str] | None = None


class CheckError(AssertionError):
    """A client's result is wrong: the run has no figures for it."""


@dataclass(slots=True)
class Results:
    """All outcomes of one workload by variant and client, in the order in which they came."""

    workload: Workload
    outcomes: dict[tuple[str, str], list[Outcome]] = field(default_factory=lambda: defaultdict(list))

    def add(self, run: Run, outcome: Outcome) -> None:
        """Add the outcome of one process."""
        self.outcomes[run.variant.name, run.client].append(outcome)

    def clients(self) -> list[str]:
        """Return the workload's clients, and then the programs that ran beside them."""
        return list(dict.fromkeys([*self.workload.clients, *(client for _, client in self.outcomes)]))

    def variants(self) -> list[str]:
        """Return the names of the variants that ran."""
        return list(dict.fromkeys(variant for variant, _ in self.outcomes))

    def median(self, variant: str, client: str, metric: Metric) -> float | None:
        """Return the median of a metric over all rounds; None without a sample."""
        samples = [o.sample for o in self.outcomes.get((variant, client), []) if o.sample is not None]
        values = [value for sample in samples if (value := metric.value(sample)) is not None]
        return statistics.median(values) if values else None

    def reason(self, variant: str, client: str) -> str:
        """Return why a client has no figures; empty if it has some."""
        outcomes = self.outcomes.get((variant, client), [])
        if not outcomes:
            return "not run"
        if any(outcome.sample for outcome in outcomes):
            return ""
        return outcomes[0].skipped or f"failed: {outcomes[0].failed}"

    def best_peer(self, variant: str, metric: Metric) -> tuple[str, float] | None:
        """Return the peer with the best median of a metric, and its median; None without a peer's figure."""
        peers = [client for client in self.workload.clients if not client.startswith(OPSDK)]
        medians = ((client, self.median(variant, client, metric)) for client in peers)
        pairs = ((client, value) for client, value in medians if value is not None)
        return best(pairs, lowest=metric.lower_is_better)


def best(values: Iterable[tuple[str, float]], *, lowest: bool = True) -> tuple[str, float] | None:
    """Return the pair with the smallest, or the largest, value; None if there is no pair.

    >>> best([("a", 2.0), ("b", 1.0)]), best([("a", 2.0), ("b", 1.0)], lowest=False), best([])
    (('b', 1.0), ('a', 2.0), None)
    """
    pairs = list(values)
    if not pairs:
        return None
    return min(pairs, key=lambda pair: pair[1]) if lowest else max(pairs, key=lambda pair: pair[1])


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie (nearest rank).

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5), percentile([1.0, 2.0], 0.99)
    (2.0, 2.0)
    """
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line through points by least squares; 0 for fewer than two distinct places.

    >>> slope([(1, 2.0), (2, 4.0), (3, 6.0)]), slope([(1, 1.0)])
    (2.0, 0.0)
    """
    if len({x for x, _ in points}) < 2:
        return 0.0
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def per_operation(attribute: str, *, scale: float = 1.0) -> Callable[[Sample], float | None]:
    """Return a function for `Metric.value`: an attribute divided by the number of operations."""

    def value(sample: Sample) -> float | None:
        return scale * float(getattr(sample, attribute)) / sample.count if sample.count else None

    return value


def rate(sample: Sample) -> float | None:
    """Operations a second."""
    return sample.count / sample.wall if sample.wall else None


def named(name: str, *, scale: float = 1.0) -> Callable[[Sample], float | None]:
    """Return a function for `Metric.value`: a figure of `Sample.values`."""

    def value(sample: Sample) -> float | None:
        figure = sample.values.get(name)
        return None if figure is None else figure * scale

    return value


def latency(name: str, share: float) -> Callable[[Sample], float | None]:
    """Return a function for `Metric.value`: a percentile of `Sample.latencies` in milliseconds."""

    def value(sample: Sample) -> float | None:
        values = sample.latencies.get(name)
        return percentile(values, share) * 1e3 if values else None

    return value
