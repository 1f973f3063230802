"""Sieve's bugs are found by guided runs, and the operators without them survive."""

from __future__ import annotations

from collections import Counter

import pytest
from guided_samples import sample_violations
from msgspec.structs import replace

from opsdk.verification.verify import verify_disturbance
from tests.corpus.case import CorpusCase, distinct
from tests.corpus.guided_search import first_finding
from tests.corpus.results import CaseResult, DeclaredResult, read_results, read_scale
from tests.corpus.sieve.cases import CASES
from tests.corpus.table import PAGE, render

RESULTS = read_results()
FAST = {case.pattern: case.name for case in CASES}
"""A case of each pattern. The other cases prove that the corpus is found."""
DEEP = [pytest.mark.slow, pytest.mark.deep]
EACH = [
    pytest.param(
        case, id=case.name, marks=[] if case.name in FAST.values() else DEEP if place % 3 else pytest.mark.slow
    )
    for place, case in enumerate(CASES)
]
"""Two of three run with the deep tests, and all with ``make corpus``."""


def test_the_corpus_has_the_bugs_of_the_study() -> None:
    """The numbers by pattern are those of the study's table 3."""
    assert Counter(case.pattern for case in CASES) == {
        "intermediate state": 11,
        "stale state": 19,
        "unobserved state": 7,
        "indirect": 9,
    }
    assert len({case.name for case in CASES}) == len(CASES) == 46


@pytest.mark.parametrize("case", EACH)
def test_the_bug_is_found(case: CorpusCase) -> None:
    """By the disturbance that found it when the table was written, or by another one of its kind."""
    disturbance = RESULTS[case.name].disturbance
    if not verify_disturbance(case.simulation(), case.workload, disturbance):
        assert disturbance is not None
        broken, _, _ = first_finding(case, [disturbance.kind])
        assert broken is not None


@pytest.mark.parametrize("others", [2, pytest.param(4, marks=DEEP)])
@pytest.mark.parametrize("case", EACH)
def test_the_twin_survives(case: CorpusCase, others: int) -> None:
    """Disturbances of the kind that finds the bug, and some others, do no harm. ``make corpus`` runs all of them."""
    disturbance = RESULTS[case.name].disturbance
    violations = sample_violations(
        case.simulation(repaired=True),
        case.workload,
        first=disturbance.kind if disturbance else None,
        most_of_first=2 * others,
        most_of_others=others,
    )
    assert violations == []


def test_the_page_links_each_report() -> None:
    """Those of cases without a result too."""
    page = render({}, {})
    assert all(f"[{case.name.rpartition('-')[2]}]({case.report})" in page for case in CASES)


def test_the_page_counts_two_reports_of_one_cause_once() -> None:
    """Both are linked."""
    assert len(distinct(CASES)) == 44
    assert "| **total** | 46 | 44 |  |  |  |  |  |" in render({}, {})


def test_the_page_names_the_bugs_that_were_not_found() -> None:
    """With their causes; a bug that the command was not run for is not one of them."""
    missed, reported, unmeasured = CASES[:3]
    declared = DeclaredResult(status=0, seconds=1.0, twin_reported=(), commit="c")
    results = {
        missed.name: CaseResult(name=missed.name, declared=declared),
        reported.name: CaseResult(name=reported.name, declared=replace(declared, reported=["stale"])),
        unmeasured.name: CaseResult(name=unmeasured.name),
    }
    page = render(results, {})
    assert f"Not found from the declaration:\n\n- {missed.name}: {missed.cause}\n" in page
    assert reported.cause not in page
    assert unmeasured.cause not in page


def test_the_page_is_that_of_the_results() -> None:
    """``make corpus ARGS=--render`` writes it."""
    assert PAGE.read_text() == render(RESULTS, read_scale())
