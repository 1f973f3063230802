"""Replays a thousand recorded runs: ``python -m tests.simulation.recordings [--seeds 65] [--first 0]``.

Prints how many recordings of each operator were replayed. Exits with 1 at the first one that is not identical.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter

import simulations
from replayed_runs import check_seed


def run_seed(job: tuple[str, int]) -> tuple[str, int, str]:
    """Record and replay one seed. Returns the operator, the number of recordings, and what differs."""
    name, seed = job
    try:
        return name, check_seed(name, seed), ""
    except AssertionError as error:
        return name, 0, str(error)


def main() -> int:
    """Run the seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.recordings", description="Replay recorded runs.")
    parser.add_argument("--seeds", type=int, default=65, help="runs of each operator")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    jobs = [(name, options.first + seed) for seed in range(options.seeds) for name in simulations.ALL]
    recordings, began = Counter[str](), time.monotonic()
    with multiprocessing.Pool(options.processes) as pool:
        for name, count, difference in pool.imap_unordered(run_seed, jobs, chunksize=2):
            recordings[name] += count
            if difference:
                print(difference)
                return 1
    for name, count in sorted(recordings.items()):
        print(f"{name:20}{count:>8}")
    print(f"{recordings.total()} recordings, all identical, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
