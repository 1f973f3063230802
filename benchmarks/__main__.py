"""Speed and memory of opsdk beside other Python clients: ``make bench``.

Each pair of workload and client is a process of its own. Clients take turns, each round in another order, and the
table has medians. Ratios of one run count; seconds belong to the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from benchmarks.model import CheckError, Results, Run, Workload
from benchmarks.process import Outcome
from benchmarks.report import verdict_table, workload_table
from benchmarks.server import World, open_world
from benchmarks.targets import TARGETS
from benchmarks.workloads import events, fan_out, reconcile, single, starts, sync

WORKLOADS: tuple[Workload, ...] = (
    sync.WORKLOAD,
    events.CHURN,
    reconcile.WORKLOAD,
    single.NOOP,
    events.LATENCY,
    single.READS,
    single.REQUESTS,
    single.QUEUE,
    sync.STALLS,
    starts.WORKLOAD,
    fan_out.WORKLOAD,
    events.GROWTH,
)


async def run_workload(world: World, workload: Workload, arguments: argparse.Namespace) -> Results:
    """Run all rounds of one workload, clients in turns."""
    results = Results(workload)
    clients = [client for client in workload.clients if not arguments.clients or client in arguments.clients]
    for round_ in range(min(arguments.rounds, workload.rounds or arguments.rounds)):
        for variant in workload.variants(arguments.scale):
            turn = round_ % max(1, len(clients))
            for client in clients[turn:] + clients[:turn]:
                run = Run(client=client, variant=variant, round=round_, time_limit=arguments.time_limit)
                results.add(run, await _measure(world, workload, run))
    return results


async def _measure(world: World, workload: Workload, run: Run) -> Outcome:
    try:
        outcome = await workload.measure(world, run)
    except CheckError as error:
        outcome = Outcome(failed=f"wrong result: {error}")
    metric = workload.metrics[0]
    if outcome.sample is not None:
        text = f"{metric.name} {metric.value(outcome.sample) or 0:.3f}"
    else:
        text = outcome.skipped or f"FAILED {outcome.failed}\n{outcome.errors}"
    sys.stderr.write(f"({workload.letter}) {run.variant.name}, round {run.round + 1}, {run.client}: {text}\n")
    return outcome


async def run(arguments: argparse.Namespace) -> dict[str, Results]:
    """Run the chosen workloads, each on a server of its own unless a kubeconfig names one."""
    results: dict[str, Results] = {}
    for workload in WORKLOADS:
        if arguments.only and workload.letter not in arguments.only:
            continue
        began = time.perf_counter()
        async with open_world(arguments.kubeconfig) as world:
            results[workload.letter] = await run_workload(world, workload, arguments)
        sys.stdout.write(f"\n({workload.letter}) {workload.title}: {time.perf_counter() - began:.0f} s\n\n")
        sys.stdout.write(workload_table(results[workload.letter]) + "\n")
        sys.stdout.flush()
    return results


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--only", type=names, default=[], metavar="LETTERS", help="workloads, with commas between")
    parser.add_argument("--clients", type=names, default=[], metavar="NAMES", help="clients, with commas between")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each workload")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of objects")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds for each process")
    parser.add_argument("--kubeconfig", type=Path, help="use this cluster instead of a local server")
    return parser.parse_args(arguments)


def main() -> int:
    """Run and print; status 1 if a result was wrong."""
    arguments = parse(sys.argv[1:])
    results = asyncio.run(run(arguments))
    sys.stdout.write("\n" + verdict_table(TARGETS, results) + "\n")
    wrong = [o for r in results.values() for outcomes in r.outcomes.values() for o in outcomes if "wrong" in o.failed]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
