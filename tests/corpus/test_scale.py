"""As much as the studies ran: which operators and seeds, and how their operations are counted."""

from __future__ import annotations

import pytest

from tests.corpus.results import read_scale
from tests.corpus.scale import OPERATIONS, PLANS, generated_of, operation_jobs, operations_in


@pytest.mark.slow
def test_jobs_have_just_enough_operations() -> None:
    """Samples run with one seed; twins with one after the other, until there are enough operations."""
    jobs = list(operation_jobs(1500))
    counts = [operations_in(generated_of(name, seed)) for name, seed in jobs]
    assert sum(counts) >= 1500 > sum(counts[:-1])
    assert {seed for _, seed in jobs} == {0, 1}
    assert jobs[0] == ("applications", 0)


def test_operations_are_those_between_creation_and_deletion() -> None:
    """Each workload begins with an object, and ends with its deletion: neither is counted."""
    verification = generated_of("greetings", 0)
    steps = [step for run in verification.runs for step in run.steps]
    ends = [step for step in steps if step.operation is None]
    assert operations_in(verification) == len(steps) - len(ends) > 0
    assert all(run.steps[-1].operation is None for run in verification.runs)


def test_the_page_has_as_much_as_the_studies() -> None:
    """The results that are kept are of at least as many plans and operations."""
    results = read_scale()
    assert results["plans"].count >= PLANS
    assert results["operations"].count >= OPERATIONS
