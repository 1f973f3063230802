"""As much as the studies ran, in one piece: ``python -m tests.corpus.scale [plans] [operations]``.

*plans* verifies Sieve's broken operators with guided runs until the first finding, and their twins with all of them.
*operations* runs generated operations on the samples, and on the twins of Acto's operators with one seed after the
other. Results are kept in ``tests/corpus/scale.json``. What is reported of twins and samples is a false alarm.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from planned_scenarios import SCENARIOS

import envtest
from opsdk.engine.doubles import factory_of
from opsdk.verification.generated import GeneratedVerification, VerifiedOperator
from opsdk.verification.generated_run import check_generated
from opsdk.verification.verify import run_verification
from tests.corpus.acto.cases import CASES as ACTO
from tests.corpus.guided_search import first_finding
from tests.corpus.results import ScaleResult, read_scale, write_scale
from tests.corpus.sieve.cases import CASES as SIEVE

PLANS: Final = 2380
"""Test plans of Sieve's table."""
OPERATIONS: Final = 9119
"""Operations of Acto's table."""
_SAMPLES: Final = ("applications", "websites", "databases", "greetings")
_MOST_OPERATIONS: Final = 1000
"""On one kind with one seed: no definition here has as many."""
_FOREVER: Final = 1e9


@dataclass(kw_only=True)
class Part:
    """The runs of one operator.

    Attributes:
        operator: its name.
        count: of plans or operations.
        runs: number of runs for the operations, with those that only compare.
        bugs: 1 if its bug was found.
        alarms: what was reported although it has no bug.
        seconds: of CPU.
    """

    operator: str
    count: int
    runs: int = 0
    bugs: int = 0
    alarms: Sequence[str] = field(default_factory=list)
    seconds: float = 0.0


# ------------------------------------------------------------------ plans
def run_plans(number: int) -> Part:
    """Verify a broken operator until the first finding, and its twin with all guided runs."""
    case, began = SIEVE[number], time.process_time()
    finding, plans, _ = first_finding(case)
    twin = run_verification(case.simulation(repaired=True), [case.workload], name=case.name, time_limit=_FOREVER)
    plans += sum(twin.runs.values())
    return Part(
        operator=case.name,
        count=plans,
        bugs=int(finding is not None),
        alarms=[f"{case.name}: {each.disturbance}: {each.violations[0]}" for each in twin.broken],
        seconds=time.process_time() - began,
    )


# ------------------------------------------------------------------ operations
def generated_of(name: str, seed: int) -> GeneratedVerification:
    """Return the workloads of a sample, or of the twin of a case."""

    def environment(definitions: Sequence[Any]) -> envtest.Environment:
        return envtest.Environment(controllers="cluster", controller_events=False, crds=definitions)

    case = next((each for each in ACTO if each.name == name), None)
    if case is None:
        doubles = factory_of(SCENARIOS[name].operator, SCENARIOS[name].doubles)
    else:
        doubles = factory_of(case.repaired, None)
    operator = VerifiedOperator(doubles, environment=environment)
    return operator.generated(examples=case.examples if case else (), operations=_MOST_OPERATIONS, seed=seed)


def operations_in(verification: GeneratedVerification) -> int:
    """Return the number of operations in workloads, without the object that each begins with, and its deletion."""
    return sum(step.operation is not None for run in verification.runs for step in run.steps)


def run_operations(job: tuple[str, int]) -> Part:
    """Run the generated operations of one operator and seed, and judge them by all oracles."""
    (name, seed), began = job, time.process_time()
    verification = generated_of(name, seed)
    summary = check_generated(verification, time_limit=_FOREVER)
    assert not summary.omitted
    return Part(
        operator=name,
        count=operations_in(verification),
        runs=summary.runs,
        alarms=[f"{name}, seed {seed}: {each.oracle.value}: {each.operation}" for each in summary.findings],
        seconds=time.process_time() - began,
    )


def operation_jobs(least: int) -> Iterator[tuple[str, int]]:
    """Yield the samples, and the twins with one seed after the other, until there are enough operations."""
    twins = [case.name for case in ACTO]
    operations = 0
    for seed in count():
        for name in twins if seed else (*_SAMPLES, *twins):
            if operations >= least:
                return
            operations += operations_in(generated_of(name, seed))
            yield name, seed


# ------------------------------------------------------------------ both
def run_all(run: Callable[[Any], Part], jobs: Sequence[Any], processes: int) -> ScaleResult:
    """Run all jobs in some processes, and print what is done from time to time."""
    began, parts = time.monotonic(), list[Part]()
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for part in pool.imap_unordered(run, jobs):
            parts.append(part)
            print(f"{len(parts)} of {len(jobs)}: {part}", file=sys.stderr, flush=True)  # noqa: T201 - progress
    return ScaleResult(
        operators=len({part.operator for part in parts}),
        count=sum(part.count for part in parts),
        runs=sum(part.runs for part in parts),
        bugs=sum(part.bugs for part in parts),
        alarms=[alarm for part in parts for alarm in part.alarms],
        processes=processes,
        wall_seconds=round(time.monotonic() - began),
        cpu_seconds=round(sum(part.seconds for part in parts)),
    )


def main() -> int:
    """Run what is named, and keep the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.scale", description="Run as much as the studies.")
    parser.add_argument("parts", nargs="*", metavar="PART", help="plans, operations; both without a name")
    parser.add_argument("--processes", type=int, default=2, help="that run at the same time")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help="the least number of operations")
    options = parser.parse_args()
    jobs: dict[str, tuple[Callable[[Any], Part], Sequence[Any]]] = {}
    for name in options.parts or ("plans", "operations"):
        if name == "plans":
            jobs[name] = run_plans, range(len(SIEVE))
        elif name == "operations":
            jobs[name] = run_operations, list(operation_jobs(options.operations))
        else:
            parser.error(f"{name} is neither plans nor operations")
    for name, (run, numbers) in jobs.items():
        result = run_all(run, numbers, options.processes)
        write_scale({**read_scale(), name: result})
        print(f"{name}: {result}")  # noqa: T201 - the result
    return 0


if __name__ == "__main__":
    sys.exit(main())
