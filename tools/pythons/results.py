"""What a test run gave, read from pytest's JUnit XML, and the table of all runs. Values in, values out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

HEADINGS = ("Python", "version", "from", "passed", "failed", "skipped", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one Python.

    Attributes:
        python: what was asked for, such as ``3.13``.
        version: the exact version.
        origin: where the interpreter comes from.
        passed: the number of tests that passed.
        failures: the message of each test that failed, by its name.
        skipped: how many tests were skipped, by reason.
        seconds: the time of the run, without making the environment.
        missing: why there is no result; empty if there is one.
        instead: why the interpreter does not come from a chroot, where it could have.
    """

    python: str
    version: str = ""
    origin: str = ""
    passed: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0
    missing: str = ""
    instead: str = ""


def counted(report: str) -> tuple[int, dict[str, str], dict[str, int]]:
    """Return the number of passed tests, the failures and the reasons of skips of a JUnit XML report."""
    passed, failures, skipped = 0, dict[str, str](), Counter[str]()
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        problems = [*case.iterfind("failure"), *case.iterfind("error")]
        skips = case.findall("skipped")
        if problems:
            # A teardown that fails after its test is another case of the same name.
            failures.setdefault(f"{case.get('classname', '')}::{case.get('name', '')}", problems[0].get("message", ""))
        elif skips:
            skipped[skips[0].get("message", "")] += 1
        else:
            passed += 1
    return passed, failures, dict(skipped)


def cells(result: Result) -> tuple[str, ...]:
    """Return the row of a result."""
    if result.missing:
        return (result.python, "-", "-", "-", "-", "-", "-")
    counts = (result.passed, len(result.failures), sum(result.skipped.values()))
    return (result.python, result.version, result.origin, *(f"{n:,}" for n in counts), f"{result.seconds:.0f}")


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows with columns of equal width: words to the left, the last four columns to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numbers = len(widths) - 4
    for row in rows:
        parts = [
            cell.rjust(width) if column >= numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(parts).rstrip()


def first_line(message: str) -> str:
    """Return the first line of a message, at most 160 characters of it."""
    return (message.strip().splitlines() or ["no message"])[0][:160]


def table(results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of the table, and below it what is missing, skipped and failed."""
    yield from aligned([HEADINGS, *map(cells, results)])
    for result in results:
        if result.missing:
            yield f"{result.python} is missing: {result.missing}"
        elif result.instead:
            yield f"{result.python} comes from {result.origin}: {result.instead}"
    # Most reasons hold for every Python: one line for each reason.
    reasons: dict[str, dict[str, int]] = {}
    for result in results:
        for reason, count in result.skipped.items():
            reasons.setdefault(first_line(reason), {})[result.python] = count
    for reason, counts in sorted(reasons.items(), key=lambda item: (-sum(item[1].values()), item[0])):
        yield f"skipped on {', '.join(f'{python}: {count}' for python, count in counts.items())}: {reason}"
    for result in results:
        for test, message in sorted(result.failures.items()):
            yield f"failed on {result.python}: {test}: {first_line(message)}"


def is_green(results: Sequence[Result]) -> bool:
    """Return whether no test failed. A Python that this machine does not have is no failure."""
    return not any(result.failures for result in results)
