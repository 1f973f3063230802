"""Runs ``opsdk verify`` on each planted operator and on its twin, and prints what it finds and what it costs.

``python -m planted.table [NAME...]`` in ``tests/support``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

FOLDER: Final = Path(__file__).parents[1]
_FACTORY: Final = re.compile(r"^def ([a-z_]+)\(", re.MULTILINE)
_MODULES: Final = ("names", "memory", "references", "shapes", "habits", "deletion", "external")
_MAX_TEXT: Final = 110


class Planted(msgspec.Struct, frozen=True):
    """One planted bug: the references of the operator with it, and of the repaired twin."""

    name: str
    module: str

    def arguments(self, *, repaired: bool) -> list[str]:
        """Return the words of the command line."""
        name = f"{self.name}_repaired" if repaired else self.name
        reference = f"planted.{self.module}:{name}"
        if self.module == "external":
            return ["planted.kinds:operator_of", "--doubles", reference]
        return [reference]


class Verdict(msgspec.Struct, frozen=True):
    """What one run of the command says; the error if it has no report."""

    found: list[str]
    status: int
    seconds: float
    error: str = ""


def planted() -> Iterator[Planted]:
    """Yield all planted bugs, in the order of the files: the functions with a repaired twin."""
    for module in _MODULES:
        names = _FACTORY.findall((Path(__file__).parent / f"{module}.py").read_text())
        yield from (Planted(name, module) for name in names if f"{name}_repaired" in names)


def run(words: list[str], *options: str, folder: Path = FOLDER, environment: dict[str, str] | None = None) -> Verdict:
    """Run the command in a process of its own, with one worker.

    Args:
        words: that name the operator.
        options: more of the command.
        folder: in which it runs.
        environment: its variables; None for those of this process.
    """
    command = [
        str(Path(sys.executable).with_name("opsdk")),
        "verify",
        *words,
        "--parallel",
        "1",
        "--output",
        "json",
        *options,
    ]
    before = os.times()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    report: dict[str, Any] = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if not report:
        return Verdict([], done.returncode, seconds, error=done.stderr[-300:])
    problems = [f"{each['oracle']}: {(each['differences'] or [''])[0]}" for each in report["findings"]]
    problems += [f"{each['disturbance'] or 'none'}: {each['violations'][0]}" for each in report["broken"]]
    return Verdict(problems, done.returncode, seconds)


def _line(each: Planted) -> tuple[str, Verdict, Verdict]:
    broken, twin = run(each.arguments(repaired=False)), run(each.arguments(repaired=True))
    first = broken.found[0][:_MAX_TEXT] if broken.found else broken.error or "MISSED"
    alarms = f"{len(twin.found)}: {twin.found[0][:_MAX_TEXT]}" if twin.found else twin.error or "0"
    statuses = f"{broken.status}/{twin.status}"
    cost = f"{broken.seconds:.1f}/{twin.seconds:.1f} s"
    return f"{each.name:22} {statuses} {cost:14} {first}\n{'':42}twin: {alarms}", broken, twin


def main(names: list[str]) -> None:
    """Print one line for each planted bug."""
    chosen = [each for each in planted() if not names or each.name in names]
    verdicts = []
    with ThreadPoolExecutor(1) as pool:
        for text, broken, twin in pool.map(_line, chosen):
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
            verdicts.append((broken, twin))
    bugs = sum(bool(broken.found) for broken, _ in verdicts)
    alarms = sum(bool(twin.found) for _, twin in verdicts)
    cost = median(each.seconds for pair in verdicts for each in pair)
    sys.stdout.write(f"found {bugs} of {len(verdicts)}, false alarms {alarms}, median {cost:.1f} CPU s\n")


if __name__ == "__main__":
    main(sys.argv[1:])
