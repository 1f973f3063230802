"""Acto's bugs are found from the schemas alone; the repaired twins are silent."""

from __future__ import annotations

import pytest

from tests.corpus.acto.cases import CASES
from tests.corpus.case import CorpusCase
from tests.corpus.generated_search import search_with_generated_resources

FOUND_BY = {
@@PINS@@
}
"""The workload that finds the bug of a case, among those from its definition, and the oracle."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_bug_is_found(case: CorpusCase) -> None:
    """One workload is enough, so that this takes a second."""
    workload, oracle = FOUND_BY[case.name]
    assert search_with_generated_resources(case, workload=workload).oracle == oracle


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_search_finds_the_bug_and_nothing_else(case: CorpusCase) -> None:
    """All workloads find it; in the twin they find nothing."""
    assert search_with_generated_resources(case).findings
    assert search_with_generated_resources(case, repaired=True).findings == []


def test_each_case_has_a_report() -> None:
    """Names are unique, and each cause is one sentence."""
    assert len({case.name for case in CASES}) == len(CASES) >= 40
    for case in CASES:
        assert case.report.startswith("https://")
        assert case.cause.endswith(".")
        assert case.broken().custom_kinds()
        assert case.repaired().custom_kinds()
