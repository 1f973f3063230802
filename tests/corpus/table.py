"""The table of the corpus: ``python -m tests.corpus.table [--only NAME] [--columns guided] [--render]``.

The column ``declared`` runs the command with its defaults: nothing but the declaration is known of an operator. Guided
runs of each broken operator end with the first finding; random seeds get as much time. Each twin runs with all
disturbances: a finding is a false alarm. Seconds are seconds of CPU.
Results are kept in ``tests/corpus/results.json``, and written as ``docs/corpus.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from textwrap import fill
from typing import Final

import msgspec

from opsdk.verification.verify import run_verification
from tests.corpus.case import CorpusCase, Study, distinct
from tests.corpus.declared_search import declared_search, with_the_twin
from tests.corpus.generated_search import compare_with_the_twin
from tests.corpus.guided_search import (
    EXHAUSTIVE_BOUNDS,
    EXHAUSTIVE_SECONDS,
    exhaustive_finding,
    first_finding,
    random_finding,
)
from tests.corpus.results import CASES, CaseResult, DeclaredResult, ScaleResult, read_results, read_scale, write_results

PAGE: Final = Path(__file__).parents[2] / "docs" / "corpus.md"
_LEAST_SECONDS: Final = 2.0
_WIDTH: Final = 120


def measure(case: CorpusCase, before: CaseResult) -> CaseResult:
    """Measure one case. What generated custom resources showed of it is kept."""
    began = time.process_time()
    twin = run_verification(case.simulation(repaired=True), [case.workload], name=case.name)
    twin_seconds = time.process_time() - began
    finding, runs, seconds = first_finding(case)
    random, seeds = random_finding(case, max(seconds, _LEAST_SECONDS))
    return msgspec.structs.replace(
        before,
        is_found=finding is not None,
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


def measure_exhaustive(case: CorpusCase, result: CaseResult) -> CaseResult:
    """Return a result with what exhaustive search shows."""
    return msgspec.structs.replace(result, exhaustive=exhaustive_finding(case))


def measure_generated(case: CorpusCase, result: CaseResult) -> CaseResult:
    """Return a result with what generated custom resources show."""
    search, twin = compare_with_the_twin(case)
    return msgspec.structs.replace(
        result,
        generated=search.oracle or "-",
        generated_seconds=(round(search.seconds, 1), round(twin.seconds, 1)),
        generated_alarms=[f"{each.oracle.value}: {each.operation}" for each in twin.findings],
    )


def measure_declared(case: CorpusCase, result: CaseResult) -> CaseResult:
    """Return a result with what ``opsdk verify`` shows from the declaration alone."""
    return msgspec.structs.replace(result, declared=with_the_twin(case, declared_search(case)))


# ------------------------------------------------------------------ the page
_INTRO: Final = """# Corpus of published bugs

{headline}

Published studies found these bugs in operators that many clusters run. Each root cause is an operator of a few lines in
`tests/corpus`, with its cause and its report, beside a twin without the bug. A report of a twin is a false alarm,
unless it is right: then the twin was repaired and measured again, and its docstring says so.

| column | what found the bug | knows of the bug |
| --- | --- | --- |
| declaration | `opsdk verify` with its defaults reports it of the operator, and not of its twin | nothing |
| generated | generated custom resources, without disturbances | nothing |
| guided | each disturbance at each place of a run, until a finding | written actions, {actions:.1f} on average |
| random | seeds of `opsdk.testing.simulate`, in the same time, at least {least:g} s | the actions, and a check |
| exhaustive | `opsdk verify --exhaustive` with {bounds}, {limit:g} s on two processors | the actions |

An empty cell was not measured. Two reports with one cause have one operator, and count once. `make corpus` measures
one case after the other, and writes this page; `make corpus ARGS="--only zookeeper"` measures some.
`tests/corpus/results.json` has the disturbance, the oracle and the seconds of each case.
"""
_SCALE_TEXT: Final = """
## As much as the studies ran

`make corpus-scale` runs at least as many test plans as Sieve and as many operations as Acto. The studies ran whole
operators on real clusters, so the times do not compare.

"""
_SIEVE_TEXT: Final = """
Sieve's 19 bugs of stale state need a restart: the new process reads an API server that is behind. An operator on opsdk
cannot read the past that way (`tests/corpus/test_restart.py`). The same root causes do harm where a standby with an old
view becomes the leader, by the disturbance `take_over`. Exhaustive search has no such option, and finds none of them.

Sieve's own table: 2,380 test plans in 316.6 machine hours on 8 cores, 46 bugs, 8 false positives of 227 failures.
"""
_ACTO_TEXT: Final = """
These bugs need no fault: a custom resource is enough. The causes are models of what goes wrong with it; the code of the
real operator may differ. Fifteen of the 56 bugs are missing: their input is not known, or they need a running
container. `tests/corpus/acto` names them.

Acto's own table: 9,119 operations in about 1,920 machine hours, 56 bugs.
"""


def render(results: Mapping[str, CaseResult], scale: Mapping[str, ScaleResult]) -> str:
    """Return the page.

    Args:
        results: by case.
        scale: of the runs in one piece, by what they ran.
    """
    actions = mean(len(case.actions) for case in distinct(CASES))
    intro = _INTRO.format(
        headline=_headline(results), actions=actions, least=_LEAST_SECONDS, bounds=EXHAUSTIVE_BOUNDS,
        limit=EXHAUSTIVE_SECONDS,
    )  # fmt: skip
    studies = (
        part
        for study in Study
        for part in _study_parts(study, [case for case in CASES if case.study is study], results)
    )
    return "".join([intro, *_scale_parts(scale), *studies])


def _headline(results: Mapping[str, CaseResult]) -> str:
    """Return the number that counts: what the command finds with its defaults, from the declaration alone."""
    cases = distinct(CASES)
    declared = [each for case in cases if (each := _declared(case, results)) is not None]
    twins = [each for each in declared if each.twin_reported is not None]
    bugs, alarms = sum(bool(each.found_by) for each in declared), sum(bool(each.twin_reported) for each in twins)
    if not twins:
        return f"Of the {len(cases)} pairs, none was run from the declaration alone."
    cost = median(seconds for each in twins for seconds in (each.seconds, each.twin_seconds))
    commits = ", ".join(sorted({each.commit for each in declared}))
    part = "All" if len(declared) == len(cases) else f"These {len(declared)} of the"
    text = (
        f"At {commits}, `opsdk verify` finds {bugs} of {len(declared)} bugs from the declaration alone, and reports "
        f"{alarms} of {len(twins)} repaired twins. {part} {len(cases)} pairs were run with the defaults. The median of "
        f"a run is {cost:.0f} CPU seconds. Twins that an earlier run reported, rightly, were repaired before: these "
        "figures say nothing about other operators. The last 34 pairs ran for the first time at 31ee410f: 33 bugs were "
        "found, and 5 twins reported."
    )
    return fill(text, _WIDTH, break_on_hyphens=False)


def _declared(case: CorpusCase, results: Mapping[str, CaseResult]) -> DeclaredResult | None:
    result = results.get(case.name)
    return None if result is None else result.declared


def _scale_parts(scale: Mapping[str, ScaleResult]) -> Iterator[str]:
    """Yield the section about the runs in one piece."""
    if not scale:
        return
    yield _SCALE_TEXT
    rows = [["", "number", "operators", "processes", "minutes", "CPU minutes", "bugs found", "false alarms"]]
    titles = {"plans": "guided plans", "operations": "generated operations"}
    for name, each in scale.items():
        rows.append([
            titles[name],
            f"{each.count:,}",
            str(each.operators),
            str(each.processes),
            f"{each.wall_seconds / 60:.1f}",
            f"{each.cpu_seconds / 60:.1f}",
            str(each.bugs) if name == "plans" else "-",
            str(len(each.alarms)),
        ])  # fmt: skip
    yield _markdown(rows)
    names = Counter(alarm.partition(",")[0] for each in scale.values() for alarm in each.alarms)
    if names:
        counted = ", ".join(f"{count} of {name}" for name, count in names.items())
        yield f"\nFalse alarms: {counted} (`tests/corpus/scale.json`).\n"


def _study_parts(study: Study, cases: Sequence[CorpusCase], results: Mapping[str, CaseResult]) -> Iterator[str]:
    if not cases:
        return
    yield f"\n## {study.value}\n"
    yield _SIEVE_TEXT if study is Study.SIEVE else _ACTO_TEXT
    yield "\n" + _projects_table(cases, results)
    missed = [f"- {case.name}: {case.out_of_reach or case.cause}\n" for case in _missed(cases, results)]
    if missed:
        yield "\nNot found from the declaration:\n\n" + "".join(missed)
    alarms = [f"- {name}: `{text}`\n" for name, text in _false_alarms(cases, results)]
    if alarms:
        yield "\nFalse alarms:\n\n" + "".join(alarms)


def _missed(cases: Sequence[CorpusCase], results: Mapping[str, CaseResult]) -> Iterator[CorpusCase]:
    """Yield the cases whose bug the command was expected to find, and did not."""
    for case in distinct(cases):
        declared = _declared(case, results)
        if case.out_of_reach or (declared is not None and not declared.found_by):
            yield case


def _false_alarms(cases: Sequence[CorpusCase], results: Mapping[str, CaseResult]) -> Iterator[tuple[str, str]]:
    for case in cases:
        result = results.get(case.name, CaseResult(name=case.name))
        yield from ((case.name, text) for text in (*result.false_alarms, *result.generated_alarms))
        if result.declared is not None and result.declared.twin_texts:
            first, *rest = result.declared.twin_texts
            yield case.name, f"{first}{f' (and {len(rest)} more)' if rest else ''}"
        if result.exhaustive is not None and result.exhaustive.is_alarm:
            yield case.name, "exhaustive search finds a schedule that breaks the twin too"


def _projects_table(cases: Sequence[CorpusCase], results: Mapping[str, CaseResult]) -> str:
    """Return a row for each operator of the study: its reports, and how many of its bugs were found."""
    counted = distinct(cases)
    rows = [["operator", "reports", "bugs", "declaration", "generated", "guided", "random", "exhaustive"]]
    for project in dict.fromkeys(case.project for case in cases):
        reports = ", ".join(_link(case) for case in cases if case.project == project)
        rows.append([project, reports, *_counts([case for case in counted if case.project == project], results)])
    rows.append(["**total**", str(len(cases)), *_counts(counted, results)])
    return _markdown(rows)


def _link(case: CorpusCase) -> str:
    return f"[{case.name.rpartition('-')[2]}]({case.report})"


def _counts(part: Sequence[CorpusCase], results: Mapping[str, CaseResult]) -> list[str]:
    """Return the number of the bugs, and how many each way found."""
    measured = [results[case.name] for case in part if case.name in results]
    return [
        str(len(part)),
        _count([bool(each.declared.found_by) for each in measured if each.declared is not None], part),
        _count([each.generated != "-" for each in measured if each.generated], part),
        _count([each.is_found for each in measured if each.twin_runs], part),
        _count([each.random > 0 for each in measured if each.random_seeds], part),
        _count([each.exhaustive.is_counted for each in measured if each.exhaustive is not None], part),
    ]


def _count(found: Sequence[bool], part: Sequence[CorpusCase]) -> str:
    """Return how many bugs were found, of how many if not all were measured; empty if none was."""
    if not found:
        return ""
    return str(sum(found)) if len(found) == len(part) else f"{sum(found)} of {len(found)}"


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + " --- |" * head.count(" | ") + " --- |", *body]) + "\n"


_COLUMNS: Final[Mapping[str, Callable[[CorpusCase, CaseResult], CaseResult]]] = {
    "guided": measure,
    "generated": measure_generated,
    "exhaustive": measure_exhaustive,
    "declared": measure_declared,
}


def main() -> int:
    """Measure the cases, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.table", description="Measure the corpus.")
    parser.add_argument("--only", default="", help="measure cases whose names contain this, and keep other results")
    parser.add_argument("--study", default="", choices=["", *Study], help="measure cases of this study only")
    parser.add_argument("--render", action="store_true", help="write the page from the results that there are")
    parser.add_argument("--columns", nargs="*", default=list(_COLUMNS), choices=_COLUMNS, help="to measure")
    options = parser.parse_args()
    for case in () if options.render else CASES:
        if options.only not in case.name or options.study not in ("", case.study):
            continue
        for column in options.columns:
            # Sieve's bugs need a fault, or one certain object: they have no examples to generate others from.
            if column == "generated" and case.study is Study.SIEVE:
                continue
            if column == "declared" and case not in distinct(CASES):
                continue
            before = read_results().get(case.name, CaseResult(name=case.name))
            result = _COLUMNS[column](case, before)
            # Another process may have written other cases meanwhile.
            write_results({**read_results(), case.name: result})
            print(json.dumps(msgspec.to_builtins(result)), flush=True)  # noqa: T201 - progress
    PAGE.write_text(render(read_results(), read_scale()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
