"""A bounded, even sample of the guided disturbances of a workload: ``make corpus`` and ``make sim`` run all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from opsdk.engine.world.declaration import SimulatedOperator
from opsdk.verification.disturbances import COUNTED, DEFAULT_KINDS, DisturbanceKind, guided_disturbances
from opsdk.verification.guided_run import WorkloadStep, run_guided
from opsdk.verification.reference_run import REFERENCE_SEED, ReferenceRun

T = TypeVar("T")


def sample_violations(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], *,
    first: DisturbanceKind | None = None, most_of_first: int = 8, most_of_others: int = 4,
) -> list[str]:  # fmt: skip
    """Return the violations of a workload without a disturbance, and with a sample of them, each with its disturbance.

    Args:
        declared: the operator, its environment, its actions and its invariants.
        steps: the workload.
        first: a kind of disturbances of which more are run than of the others; None for no such kind.
        most_of_first: the most disturbances of that kind.
        most_of_others: the most disturbances of all other kinds.
    """
    reference = ReferenceRun(lambda seed: run_guided(declared, steps, seed=seed), steps)
    if reference.violations:
        return list(reference.violations)
    places = [
        each
        for each in guided_disturbances(reference.outcome.writes, reference.outcome.messages)
        if each.kind in DEFAULT_KINDS
    ]
    of_first = [each for each in places if each.kind is first]
    others = [each for each in places if each.kind is not first]
    sample = [*evenly(of_first, most_of_first), *evenly(others, most_of_others)]
    assert sample
    violations: list[str] = []
    for each in sample:
        outcome = run_guided(declared, steps, each, seed=REFERENCE_SEED)
        violations += (f"{each}: {text}" for text in reference.judge(outcome, counted=each.kind in COUNTED))
    return violations


def evenly(values: Sequence[T], most: int) -> list[T]:
    """Return some values with equal distances, from the first to the last.

    >>> evenly(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(values) <= most:
        return list(values)
    return [values[number * (len(values) - 1) // (most - 1)] for number in range(most)]
