"""The table of the corpus: ``python -m tests.corpus.table [--only NAME] [--render]``.

Each broken operator is verified with guided runs until the first finding, and simulated with random seeds for as long.
Each twin is verified with all guided runs: what they report is a false alarm. Seconds are seconds of CPU.
Results are kept in ``tests/corpus/results.json``, and written as ``docs/corpus.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from opsdk.verification.disturbances import Disturbance
from opsdk.verification.verify import BrokenRun, VerificationSummary, run_verification
from tests.corpus.acto.cases import CASES as ACTO
from tests.corpus.case import CorpusCase, Study
from tests.corpus.sieve import CASES as SIEVE

RESULTS: Final = Path(__file__).parent / "results.json"
PAGE: Final = Path(__file__).parents[2] / "docs" / "corpus.md"
CASES: Final[Sequence[CorpusCase]] = [*SIEVE, *ACTO]
_LEAST_SECONDS: Final = 2.0


class CaseResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was measured of one case.

    Attributes:
        name: of the case.
        found: guided runs found the bug.
        disturbance: that found it; None if the run without a disturbance did.
        oracle: the broken invariant.
        runs: disturbed runs until then.
        seconds: of CPU until then.
        random: number of random seeds that found it; 0 if none did.
        random_seeds: that were tried.
        twin_runs: disturbed runs of the twin.
        twin_seconds: of CPU for them.
        false_alarms: what was reported of the twin.
    """

    name: str
    found: bool = False
    disturbance: Disturbance | None = None
    oracle: str = ""
    runs: int = 0
    seconds: float = 0.0
    random: int = 0
    random_seeds: int = 0
    twin_runs: int = 0
    twin_seconds: float = 0.0
    false_alarms: Sequence[str] = ()


class _FoundError(Exception):
    """Ends a verification at its first finding."""


# ------------------------------------------------------------------ measuring
def first_finding(case: CorpusCase) -> tuple[BrokenRun | None, int, float]:
    """Verify the broken operator until the first finding. Returns it, the disturbed runs, and the seconds."""
    latest = VerificationSummary()

    def stop(summary: VerificationSummary) -> None:
        nonlocal latest
        latest = summary
        if summary.broken:
            raise _FoundError

    began = time.process_time()
    with contextlib.suppress(_FoundError):
        run_verification(case.simulation(), [case.workload], name=case.name, progress=stop)
    return next(iter(latest.broken), None), sum(latest.runs.values()), time.process_time() - began


def random_finding(case: CorpusCase, seconds: float) -> tuple[int, int]:
    """Simulate random seeds for some seconds. Returns the number of the first that finds the bug, and the last.

    A seed finds the bug if the twin passes it: else it finds something else.
    """
    broken, twin = case.simulation(), case.simulation(repaired=True)
    ends, seed = time.process_time() + seconds, 0
    while time.process_time() < ends:
        seed += 1
        if broken.run(seed).violations and not twin.run(seed).violations:
            return seed, seed
    return 0, seed


def measure(case: CorpusCase) -> CaseResult:
    """Measure one case."""
    began = time.process_time()
    twin = run_verification(case.simulation(repaired=True), [case.workload], name=case.name)
    twin_seconds = time.process_time() - began
    finding, runs, seconds = first_finding(case)
    random, seeds = random_finding(case, max(seconds, _LEAST_SECONDS))
    return CaseResult(
        name=case.name,
        found=finding is not None,
        disturbance=finding.disturbance if finding else None,
        oracle=finding.violations[0].partition(":")[0] if finding else "",
        runs=runs,
        seconds=round(seconds, 1),
        random=random,
        random_seeds=seeds,
        twin_runs=sum(twin.runs.values()),
        twin_seconds=round(twin_seconds, 1),
        false_alarms=[f"{each.disturbance}: {each.violations[0]}" for each in twin.broken],
    )


def read_results(path: Path = RESULTS) -> dict[str, CaseResult]:
    """Return the results by case."""
    if not path.exists():
        return {}
    return {each.name: each for each in msgspec.json.decode(path.read_bytes(), type=list[CaseResult])}


def write_results(results: Mapping[str, CaseResult], path: Path = RESULTS) -> None:
    """Write the results in the order of the cases."""
    names = [case.name for case in CASES if case.name in results]
    values = [msgspec.to_builtins(results[name]) for name in names]
    path.write_text(json.dumps(values, indent=1) + "\n")


# ------------------------------------------------------------------ the page
_INTRO: Final = """# Corpus of published bugs

Published studies found these bugs in operators that many clusters run. Each root cause is an operator of a few lines in
`tests/corpus`, beside a twin without the bug. They measure [guided runs](howto/verify.md): how many bugs are found, how
fast, and what is reported of the twins, which are false alarms.

`python -m tests.corpus.table` measures one case after the other in one process, and writes this page. A broken operator
is verified until the first finding. Random seeds (`opsdk.testing.simulate`) get the same time, at least {least:g}
seconds. A seed counts if the twin passes it. Each twin is verified with all guided runs. Seconds are seconds of CPU.

- *guided*: the disturbance that found the bug; "none" if the run without one did.
- *oracle*: what was broken. "check" is the check that the author of the operator writes, "rest" is the state at rest,
  "counts" are creations and deletions.
- *random*: the number of the first seed that found the bug, or a dash and the number of seeds that were tried.
- *generated* and *exhaustive*: found by generated custom resources, and by exhaustive search. A dash is: not measured.
"""
_SIEVE_TEXT: Final = """
Sieve needed a restart of the operator for its 19 bugs of stale state: the new process reads an API server that is
behind. An operator on opsdk cannot read the past that way. Its first list of each kind is a consistent read, without
`resourceVersion=0`, and its watches begin there. `tests/corpus/test_restart.py` proves it from the requests of runs.
The same root causes do harm where two replicas run: a standby with an old view becomes the leader. The disturbance
`take_over` does that.

The causes marked as assumed are those of reports without details.

Sieve's own table: 2,380 test plans in 316.6 machine hours on 8 cores, 46 bugs, 8 false positives of 227 failures.
"""
_ORACLES: Final = {"converged": "check", "state at rest": "rest", "creations and deletions": "counts"}


def render(results: Mapping[str, CaseResult]) -> str:
    """Return the page."""
    return _INTRO.format(least=_LEAST_SECONDS) + "".join(
        part
        for study in Study
        for part in _study_parts(study, [case for case in CASES if case.study is study], results)
    )


def _study_parts(study: Study, cases: Sequence[CorpusCase], results: Mapping[str, CaseResult]) -> Iterator[str]:
    if not cases:
        return
    yield f"\n## {study.value}\n"
    if study is Study.SIEVE:
        yield _SIEVE_TEXT
    yield "\n" + _projects_table(cases, results)
    yield "\n" + _bugs_table(cases, results)
    alarms = [f"- {name}: {text}\n" for name, text in _false_alarms(cases, results)]
    if alarms:
        yield "\nFalse alarms:\n\n" + "".join(alarms)


def _false_alarms(cases: Sequence[CorpusCase], results: Mapping[str, CaseResult]) -> Iterator[tuple[str, str]]:
    for case in cases:
        for text in results[case.name].false_alarms if case.name in results else ():
            yield case.name, text


def _projects_table(cases: Sequence[CorpusCase], results: Mapping[str, CaseResult]) -> str:
    """Return a row for each operator of the study: its bugs by pattern, those that were found, runs and seconds."""
    patterns = list(dict.fromkeys(case.pattern for case in cases))
    projects = list(dict.fromkeys(case.project for case in cases))
    rows = [
        ["operator", *patterns, "total", "guided", "random", "out of reach", "guided runs", "seconds", "false alarms"]
    ]
    for title, part in [
        *((project, [case for case in cases if case.project == project]) for project in projects),
        ("**total**", cases),
    ]:
        measured = [results[case.name] for case in part if case.name in results]
        rows.append([
            title,
            *(str(sum(case.pattern == pattern for case in part)) for pattern in patterns),
            str(len(part)),
            str(sum(each.found for each in measured)),
            str(sum(each.random > 0 for each in measured)),
            str(sum(bool(case.out_of_reach) for case in part)),
            f"{sum(each.runs + each.twin_runs for each in measured):,}",
            f"{sum(each.seconds + each.twin_seconds for each in measured):,.1f}",
            str(sum(len(each.false_alarms) for each in measured)),
        ])  # fmt: skip
    return _markdown(rows)


def _bugs_table(cases: Sequence[CorpusCase], results: Mapping[str, CaseResult]) -> str:
    """Return a row for each bug."""
    rows = [
        ["bug", "pattern", "cause", "guided", "oracle", "runs", "seconds", "random", "generated", "exhaustive", "twin"]
    ]
    for case in cases:
        result = results.get(case.name, CaseResult(name=case.name))
        guided = "out of reach" if case.out_of_reach else "-"
        if result.found:
            guided = f"`{result.disturbance.kind.value}`" if result.disturbance else "none"
        rows.append([
            f"[{case.name}]({case.report})",
            case.pattern,
            case.cause,
            guided,
            _ORACLES.get(result.oracle, result.oracle) or "-",
            str(result.runs),
            f"{result.seconds:.1f}",
            f"seed {result.random}" if result.random else f"- ({result.random_seeds})",
            "-",
            "-",
            f"{result.twin_runs} runs, {len(result.false_alarms)} alarms",
        ])  # fmt: skip
    return _markdown(rows)


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + " --- |" * head.count(" | ") + " --- |", *body]) + "\n"


def main() -> int:
    """Measure the cases, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.table", description="Measure the corpus.")
    parser.add_argument("--only", default="", help="measure cases whose names contain this, and keep other results")
    parser.add_argument("--render", action="store_true", help="write the page from the results that there are")
    parser.add_argument("--missing", action="store_true", help="measure only cases without a result")
    options = parser.parse_args()
    results = read_results()
    for case in () if options.render else CASES:
        if options.only not in case.name or (options.missing and case.name in results):
            continue
        result = results[case.name] = measure(case)
        print(json.dumps(msgspec.to_builtins(result)), flush=True)  # noqa: T201 - progress
        write_results(results)
    PAGE.write_text(render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
