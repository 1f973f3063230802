"""Replays a thousand recorded runs: ``python -m tests.simulation.recordings [--seeds 65] [--first 0] [--checkpoints]``.

Prints how many recordings of each operator were replayed, each from its start or from each of its checkpoints. Exits
with 1 at the first one that is not identical.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter

import simulations
from replayed_runs import check_checkpoints, check_seed


def run_seed(job: tuple[str, int, bool]) -> tuple[str, int, str]:
    """Record and replay one seed. Returns the operator, the number of replays, and what differs."""
    name, seed, is_from_checkpoints = job
    try:
        return name, (check_checkpoints if is_from_checkpoints else check_seed)(name, seed), ""
    except AssertionError as error:
        return name, 0, str(error)


def main() -> int:
    """Run the seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.recordings", description="Replay recorded runs.")
    parser.add_argument("--seeds", type=int, default=65, help="runs of each operator")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--checkpoints", action="store_true", help="begin with each checkpoint instead of the start")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    jobs = [(name, seed, options.checkpoints) for seed in seeds for name in simulations.ALL]
    recordings, began = Counter[str](), time.monotonic()
    with multiprocessing.Pool(options.processes) as pool:
        for name, count, difference in pool.imap_unordered(run_seed, jobs, chunksize=2):
            recordings[name] += count
            if difference:
                print(difference)
                return 1
    for name, count in sorted(recordings.items()):
        print(f"{name:20}{count:>8}")
    print(f"{recordings.total()} replays, all identical, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
