"""Counts calls, bytecodes and memory blocks of opsdk's hot paths: ``make bench-quick``.

Fails when an operation makes 10 % more calls, or runs 10 % more bytecodes, than ``benchmarks/quick/counts.json`` says
for this version of Python.
``--update`` rewrites that file. Where ``perf`` counts instructions, these are printed too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.quick.counting import Counts, Profiler, compare
from benchmarks.quick.operations import OPERATIONS, measure
from opsdk.testing.loop import VirtualLoop

EXPECTED = Path(__file__).with_name("counts.json")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_OPERATIONS = 200


def count(name: str, operations: int) -> Counts:
    """Count one operation in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(measure(name, operations))


def _perf(command: list[str]) -> int | None:
    """Return the instructions of a command in user space; None where `perf` is missing or cannot count them."""
    perf = shutil.which("perf")
    if perf is None:
        return None
    result = subprocess.run(
        [perf, "stat", "-x", ",", "-e", "instructions:u", *command], capture_output=True, text=True, check=False
    )
    lines = [line for line in result.stderr.splitlines() if "instructions" in line]
    figure = lines[-1].split(",")[0] if lines else ""
    return int(figure) if figure.isdigit() else None


def instructions(name: str) -> str:
    """Return the instructions of one operation: the difference of two runs, the server and the profiler included."""
    totals = []
    for operations in (_OPERATIONS, 2 * _OPERATIONS):
        command = [sys.executable, "-m", "benchmarks.quick", "--no-perf", "--only", name]
        totals.append(_perf([*command, "--operations", str(operations)]) or 0)
    return f"{(totals[1] - totals[0]) / _OPERATIONS:,.0f} instructions, server and profiler included"


def _shown(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{figure:10,.1f} {unit}" for unit, figure in figures.items())


def main() -> int:
    """Count, print and compare; status 1 if something grew."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quick", description=__doc__)
    parser.add_argument("--only", choices=OPERATIONS, help="count one operation")
    parser.add_argument("--operations", type=int, default=_OPERATIONS, help="how often each operation runs")
    parser.add_argument("--update", action="store_true", help="write the counts as the expected ones")
    parser.add_argument("--functions", type=int, default=0, help="list so many functions, by their bytecodes")
    parser.add_argument("--no-perf", action="store_true", help="do not run perf")
    arguments = parser.parse_args()
    stored: dict[str, dict[str, dict[str, float]]] = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    expected = stored.get(PYTHON, {})
    counts: dict[str, Counts] = {}
    has_perf = not arguments.no_perf and _perf(["true"]) is not None
    if not has_perf and not arguments.no_perf:
        print("perf counts no instructions here: calls only")
    for name in [name for name in OPERATIONS if arguments.only in {None, name}]:
        figures = counts[name] = count(name, arguments.operations)
        print(f"{name:32} {_shown(figures.compared)}, {figures.blocks:,.1f} blocks kept")
        if name in expected:
            print(f"{'expected':>32} {_shown(expected[name])}")
        for function, bytecodes in Profiler.functions.most_common(arguments.functions):
            print(f"{'':32} {bytecodes / arguments.operations:10,.1f} {function}")
        if has_perf:
            print(f"{'':32} {instructions(name)}")
    if arguments.update:
        stored[PYTHON] = {**expected, **{name: figures.compared for name, figures in counts.items()}}
        EXPECTED.write_text(json.dumps(dict(sorted(stored.items())), indent=2) + "\n")
        return 0
    if not expected:
        print(f"no expected counts for Python {PYTHON}: run with --update")
        return 0
    problems = compare(counts, expected)
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
