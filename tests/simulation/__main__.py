"""Simulates seven operators with many seeds on all cores: ``python -m tests.simulation [--seeds 2000] [--first 0]``.

Some workloads of each run with every guided disturbance too. Prints a line for each operator, and for each failing seed
or disturbance a test that repeats it. Exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter

from simulations import ALL

from opsdk.testing.simulate import minimize
from opsdk.verification.verify import VerificationSummary
from tests.simulation.worker import prepare, run_seed, run_workload

_PROGRESS = 100
"""Schedules between two lines of progress."""
_MAX_SHRUNK = 5
"""Failures that are made small: each takes many runs."""

_GUIDED = [name for name in ALL if name != "pauses"]
"""Operators whose workloads run with guided disturbances. The check of pauses expects a fresh view within seconds."""


def main() -> int:
    """Run the seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulate seven operators.")
    parser.add_argument("--seeds", type=int, default=2000, help="number of schedules, shared among the operators")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workloads", type=int, default=2, help="workloads of each operator for guided disturbances")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = list(ALL)
    jobs = [(names[i % len(names)], options.first + i // len(names)) for i in range(options.seeds)]
    runs, reconciles, failures = Counter[str](), Counter[str](), list[tuple[str, int]]()
    cpu, virtual = Counter[str](), Counter[str]()
    began = time.monotonic()
    with multiprocessing.Pool(options.processes, initializer=prepare) as pool:
        for name, seed, seconds, violations, count, end in pool.imap_unordered(run_seed, jobs, chunksize=10):
            runs[name] += 1
            cpu[name] += seconds  # type: ignore[assignment]
            virtual[name] += end  # type: ignore[assignment]
            reconciles[name] += count
            if violations:
                failures.append((name, seed))
                print(f"{name}: seed {seed} breaks {violations[0]}", file=sys.stderr, flush=True)
            if runs.total() % _PROGRESS == 0:
                passed = time.monotonic() - began
                print(f"{runs.total()} schedules, {len(failures)} fail, {passed:.0f} s", file=sys.stderr, flush=True)
    print(f"{'operator':12}{'schedules':>10}{'violations':>11}{'reconciles':>11}{'virtual h':>10}{'CPU s each':>11}")
    for name in names:
        bad = sum(1 for failed, _ in failures if failed == name)
        each = cpu[name] / max(runs[name], 1)
        hours = virtual[name] / 3600
        print(f"{name:12}{runs[name]:>10}{bad:>11}{reconciles[name]:>11}{hours:>10.1f}{each:>11.2f}")
    print(f"{options.seeds} schedules in {time.monotonic() - began:.0f} s on {options.processes} cores")
    for name, seed in sorted(failures)[:_MAX_SHRUNK]:
        simulation = ALL[name]
        print(f"\n{name}: {minimize(simulation, simulation.run(seed), name=f'simulations.{name.upper()}')}")
    workloads = [(name, options.first + number) for number in range(options.workloads) for name in _GUIDED]
    return 1 if (_disturb(workloads, options.processes) + len(failures)) else 0


def _disturb(workloads: list[tuple[str, int]], processes: int) -> int:
    """Run workloads with each guided disturbance. Returns the number of bugs."""
    summaries: dict[str, list[VerificationSummary]] = {name: [] for name, _ in workloads}
    with multiprocessing.Pool(processes, initializer=prepare) as pool:
        for name, summary in pool.imap_unordered(run_workload, workloads):
            summaries[name].append(summary)
    totals = {name: VerificationSummary.sum_of(parts) for name, parts in summaries.items()}
    for name, total in totals.items():
        print(f"{name:12}{total}")
    for broken in [run for total in totals.values() for run in total.broken][:_MAX_SHRUNK]:
        print(f"\n{broken}\n{broken.test_text()}")
    return sum(len(total.broken) for total in totals.values())


if __name__ == "__main__":
    sys.exit(main())
