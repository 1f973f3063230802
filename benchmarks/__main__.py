"""Speed and memory of opsdk beside other Python clients: ``make bench``.

Each pair of workload and client is a process of its own. Clients take turns, each round in another order, and the
table has medians. Ratios of one run count; seconds belong to the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from benchmarks import machine
from benchmarks.model import CheckError, Results, Run, Workload
from benchmarks.page import write_page
from benchmarks.process import Outcome
from benchmarks.report import verdict_table, workload_table
from benchmarks.samples import load, save
from benchmarks.server import World, open_world
from benchmarks.targets import TARGETS
from benchmarks.workloads import events, fan_out, reconcile, single, starts, sync
from opsdk import OpsdkError

WRONG = "wrong result"
WORKLOADS: tuple[Workload, ...] = (
    sync.WORKLOAD,
    sync.STALLS,
    single.READS,
    events.CHURN,
    reconcile.WORKLOAD,
    single.NOOP,
    events.LATENCY,
    single.REQUESTS,
    single.QUEUE,
    starts.WORKLOAD,
    fan_out.WORKLOAD,
    events.GROWTH,
)


async def run_workload(world: World, workload: Workload, arguments: argparse.Namespace) -> Results:
    """Run all rounds of one workload, clients in turns."""
    results = Results(workload)
    clients = [client for client in workload.clients if not arguments.clients or client in arguments.clients]
    if len(workload.clients) > 1:
        clients += [str(program.resolve()) for program in arguments.program]
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
        outcome = Outcome(failed=f"{WRONG}: {error}")
    except Exception as error:  # noqa: BLE001 - such as a server that is gone; the other rows are still of use
        outcome = Outcome(failed=f"while preparing: {type(error).__name__}: {error}"[:300])
    metric = workload.metrics[0]
    if outcome.sample is not None:
        text = f"{metric.name} {metric.value(outcome.sample) or 0:.3f}"
    else:
        text = outcome.skipped or f"FAILED {outcome.failed}\n{outcome.errors}"
    sys.stderr.write(f"({workload.letter}) {run.variant.name}, round {run.round + 1}, {run.client}: {text}\n")
    return outcome


async def run(arguments: argparse.Namespace) -> dict[str, Results]:
    """Run the chosen workloads, and print each table when it is complete."""
    results: dict[str, Results] = {}
    chosen = [workload for workload in WORKLOADS if not arguments.only or workload.letter in arguments.only]
    # A server of its own for each workload keeps the history of one out of the other's memory and time.
    for _, workloads in itertools.groupby(chosen, key=lambda workload: workload.world or workload.letter):
        group = list(workloads)
        try:
            async with open_world(arguments.kubeconfig) as world:
                for workload in group:
                    results[workload.letter] = await _run_and_print(world, workload, arguments)
                    if arguments.save:
                        save(arguments.save, results, machine.describe(arguments))
        except (OpsdkError, OSError) as error:
            letters = ", ".join(workload.letter for workload in group if workload.letter not in results)
            sys.stderr.write(f"({letters}) not run: the server cannot be reached: {error}\n")
    return results


async def _run_and_print(world: World, workload: Workload, arguments: argparse.Namespace) -> Results:
    began = time.perf_counter()
    results = await run_workload(world, workload, arguments)
    sys.stdout.write(f"\n({workload.letter}) {workload.title}: {time.perf_counter() - began:.0f} s\n\n")
    sys.stdout.write(workload_table(results) + "\n")
    sys.stdout.flush()
    return results


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    letters = [workload.letter for workload in WORKLOADS]
    known_clients = dict.fromkeys(client for workload in WORKLOADS for client in workload.clients)

    def chosen(known: Iterable[str], text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: use some of {', '.join(known)}")
        return names

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        type=partial(chosen, letters),
        default=[],
        metavar="LETTERS",
        help=f"workloads, with commas between: {', '.join(letters)}",
    )
    parser.add_argument(
        "--clients",
        type=partial(chosen, known_clients),
        default=[],
        metavar="NAMES",
        help=f"clients, with commas between: {', '.join(known_clients)}",
    )
    parser.add_argument(
        "--program",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="one more client, such as one with controller-runtime, that speaks benchmarks/protocol.py",
    )
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each workload")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of objects")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds for each process")
    parser.add_argument("--kubeconfig", type=Path, help="use this cluster instead of a local server")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the samples as JSON")
    parser.add_argument("--from", dest="files", type=Path, nargs="+", metavar="FILE", help="run nothing; read samples")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page, and its plots beside it")
    return parser.parse_args(arguments)


def main() -> int:
    """Run and print; status 1 if a result was wrong."""
    arguments = parse(sys.argv[1:])
    if arguments.files:
        results, descriptions = load(arguments.files, WORKLOADS)
    else:
        results = asyncio.run(run(arguments))
        descriptions = [machine.describe(arguments)]
    sys.stdout.write("\n" + verdict_table(TARGETS, results) + "\n")
    if arguments.markdown:
        write_page(arguments.markdown, results, TARGETS, descriptions, WORKLOADS)
    outcomes = [o for result in results.values() for outcomes in result.outcomes.values() for o in outcomes]
    return 1 if any(outcome.failed.startswith(WRONG) for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
