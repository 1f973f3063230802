"""Compares plans with what then really happens: ``python -m tests.simulation.plans [--seeds 100] [--first 0]``.

Prints a line for each operator, and how each plan differs that is not exact. Exits with 1 if more than one in a hundred
differs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter

from planned_scenarios import SCENARIOS
from planned_worlds import compare


def run_seed(job: tuple[str, int]) -> tuple[str, int, bool, str]:
    """Play one world: its operator, its seed, whether something happened, and how the plan differs."""
    name, seed = job
    comparison = compare(SCENARIOS[name], seed)
    problems = [] if comparison.is_exact else [comparison.difference]
    if comparison.methods != {"GET"} or comparison.connections:
        problems.append(f"the plan sent {sorted(comparison.methods)}, and reached for {comparison.connections}")
    return name, seed, bool(comparison.happened), "\n".join(problems)


def main() -> int:
    """Run the seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.plans", description="Compare plans with reality.")
    parser.add_argument("--seeds", type=int, default=100, help="worlds of each operator")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    jobs = [(name, options.first + seed) for seed in range(options.seeds) for name in SCENARIOS]
    changed, inexact = Counter[str](), list[tuple[str, int, str]]()
    began = time.monotonic()
    with multiprocessing.Pool(options.processes) as pool:
        for name, seed, happened, difference in pool.imap_unordered(run_seed, jobs, chunksize=4):
            changed[name] += happened
            if difference:
                inexact.append((name, seed, difference))
    print(f"{'operator':20}{'worlds':>8}{'with changes':>14}{'exact':>8}")
    for name in SCENARIOS:
        wrong = sum(1 for each, _, _ in inexact if each == name)
        print(f"{name:20}{options.seeds:>8}{changed[name]:>14}{options.seeds - wrong:>8}")
    print(f"{len(jobs)} worlds in {time.monotonic() - began:.0f} s on {options.processes} processes")
    for name, seed, difference in sorted(inexact)[:20]:
        print(f"\n{name}, seed {seed}:\n{difference}")
    return 1 if len(inexact) * 100 > len(jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
