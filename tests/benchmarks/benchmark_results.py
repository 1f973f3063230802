"""Results of an invented workload, for tests of the benchmarks' pure parts."""

from __future__ import annotations

from benchmarks.model import Metric, Results, Run, Variant, Workload
from benchmarks.process import Outcome
from benchmarks.protocol import Sample
from benchmarks.server import World

CPU = Metric(name="cpu", value=lambda sample: sample.cpu)
RATE = Metric(name="rate", value=lambda sample: sample.count / sample.wall, lower_is_better=False)
VARIANT = Variant(name="small")


async def _measure(_: World, __: Run) -> Outcome:
    return Outcome()


def workload(letter: str = "x") -> Workload:
    """A workload of three clients and two metrics."""
    return Workload(
        letter=letter,
        title="Example",
        note="",
        clients=("opsdk", "one", "other"),
        variants=lambda _: [VARIANT],
        metrics=(CPU, RATE),
        measure=_measure,
    )


def results(**cpu: list[float]) -> Results:
    """Results with one sample for each figure; -1 stands for a failure."""
    collected = Results(workload())
    for client, figures in cpu.items():
        for round_, figure in enumerate(figures):
            run = Run(client=client, variant=VARIANT, round=round_, time_limit=1)
            sample = Sample(wall=1, cpu=figure, count=100) if figure >= 0 else None
            collected.add(run, Outcome(sample=sample, failed="" if sample else "broke"))
    return collected
