"""``python -m tools.pythons``: runs the tests on several Pythons, and prints a table of what each gave.

usage: python -m tools.pythons [--pythons "3.11 3.13"] [--prepare | ARGUMENTS OF PYTEST...]

Each Python has its environment in .venv-pythons. As root on Debian, a Python of another Debian release comes from a
chroot in that folder; elsewhere it comes from PATH, pyenv or uv. The exit status is 1 if a test failed on any of them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tools.pythons.debian import debian_interpreter
from tools.pythons.interpreters import (
    Interpreter,
    MissingPythonError,
    local_interpreter,
    running_interpreter,
    series,
)
from tools.pythons.results import Result, counted, is_green, table

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".venv-pythons"
PYTHONS = "3.11 3.12 3.13 3.14"
PYTEST = ("-q", "-n", "auto", "--dist", "worksteal", "-p", "no:cacheprovider", "-m", "not slow")


def run(interpreter: Interpreter, *command: str | Path, log: Path) -> int:
    """Run a command where the interpreter is; a log gets its output. Returns the exit status."""
    with log.open("wb") as output:
        return subprocess.run(  # noqa: S603 - the commands of this file
            [*interpreter.prefix, *command], cwd=ROOT, env=interpreter.variables, stdout=output,
            stderr=subprocess.STDOUT, check=False,
        ).returncode  # fmt: skip


def install(interpreter: Interpreter, version: str) -> None:
    """Make the environment of an interpreter, unless it has what pyproject.toml wants."""
    if interpreter.python is None:
        return
    log = CACHE / f"{version}.log"
    content = f"{interpreter.version} {hashlib.sha256((ROOT / 'pyproject.toml').read_bytes()).hexdigest()}\n"
    if interpreter.stamp.exists() and interpreter.stamp.read_text() == content:
        return
    started = time.monotonic()
    pip = (interpreter.environment / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    make = (interpreter.python, "-m", "venv", "--clear", interpreter.environment)
    if run(interpreter, *make, log=log) or run(interpreter, *pip, "--editable", ".[dev]", log=log):
        raise MissingPythonError(f"{interpreter.origin} has no environment, see {log}: {tail(log, 1)}")
    interpreter.stamp.write_text(content)
    print(f"     {time.monotonic() - started:5.1f} s  environment of {interpreter.version}", flush=True)


def tail(log: Path, lines: int) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def find(version: str) -> Iterator[Callable[[], Interpreter]]:
    """Yield the ways to get a Python, in the order in which they are tried."""
    own = running_interpreter()
    if series(own.version) == version:
        yield lambda: own
        return
    yield lambda: debian_interpreter(version, CACHE, ROOT, os.environ)
    yield lambda: local_interpreter(version, CACHE, os.environ, Path.home())


def prepare(version: str) -> tuple[Interpreter | None, str]:
    """Return a Python with its environment, and why the ways before it gave none."""
    reasons = list[str]()
    for way in find(version):
        try:
            interpreter = way()
            install(interpreter, version)
        except MissingPythonError as problem:
            reasons.append(str(problem))
        else:
            return interpreter, "; ".join(reasons)
    return None, "; ".join(reasons)


def test(version: str, arguments: Sequence[str]) -> Result:
    """Run the tests on one Python, or return why this machine cannot have it."""
    interpreter, reasons = prepare(version)
    if interpreter is None:
        return Result(python=version, missing=reasons)
    return replace(test_with(interpreter, version, arguments), instead=reasons)


def test_with(interpreter: Interpreter, version: str, arguments: Sequence[str]) -> Result:
    """Run the tests with an interpreter."""
    log, report = CACHE / f"{version}.log", CACHE / f"{version}.xml"
    report.unlink(missing_ok=True)
    started = time.monotonic()
    python = interpreter.environment / "bin/python"
    status = run(interpreter, python, "-m", "pytest", *PYTEST, f"--junitxml={report}", *arguments, log=log)
    seconds = time.monotonic() - started
    passed, failures, skipped = counted(report.read_text()) if report.exists() else (0, {}, {})
    if status and not failures:
        failures = {"pytest": f"status {status}: {tail(log, 1)}"}
    if failures:
        print(tail(log, 60), flush=True)
    print(f"{'FAIL' if failures else 'ok  '} {seconds:5.1f} s  {interpreter.version}, {interpreter.origin}", flush=True)
    return Result(
        python=version, version=interpreter.version, origin=interpreter.origin, passed=passed, failures=failures,
        skipped=skipped, seconds=seconds,
    )  # fmt: skip


def main() -> int:
    """Run the tool; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.pythons", description="Run the tests on several Pythons.")
    parser.add_argument("--pythons", default=PYTHONS, help="the versions, such as '3.11 3.14'; default: %(default)s")
    parser.add_argument("--prepare", action="store_true", help="make the environments only; runs no test")
    arguments, passed_on = parser.parse_known_args()
    try:
        versions = [series(version) for version in arguments.pythons.replace(",", " ").split()]
    except MissingPythonError as problem:
        parser.error(str(problem))
    CACHE.mkdir(exist_ok=True)
    if arguments.prepare:
        for version in versions:
            prepare(version)
        return 0
    print(f"pytest {shlex.join([*PYTEST, *passed_on])}", flush=True)
    results = [test(version, passed_on) for version in versions]
    print("\n".join(["", *table(results)]))
    return 0 if is_green(results) else 1


if __name__ == "__main__":
    sys.exit(main())
