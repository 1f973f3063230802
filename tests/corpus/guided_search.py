"""Looks for the bug of a case with guided runs, with random seeds, and with exhaustive search."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Final

from opsdk.verification.disturbances import DEFAULT_KINDS, DisturbanceKind
from opsdk.verification.exploration.bounds import Bounds
from opsdk.verification.exploration.explore import Exploration, explore
from opsdk.verification.verify import BrokenRun, VerificationSummary, run_verification
from tests.corpus.case import CorpusCase
from tests.corpus.results import ExhaustiveResult

EXHAUSTIVE_BOUNDS: Final = Bounds(crashes=1, stale_views=1, deviations=0)
"""Of exhaustive search: larger ones have some thousand states even for the smallest of these operators."""
EXHAUSTIVE_SECONDS: Final = 30.0
"""Real seconds for the exhaustive search of one case."""


class _FoundError(Exception):
    """Ends a verification at its first finding."""


def first_finding(
    case: CorpusCase, kinds: Sequence[DisturbanceKind] = DEFAULT_KINDS
) -> tuple[BrokenRun | None, int, float]:
    """Verify the broken operator until the first finding. Returns it, the disturbed runs, and the seconds."""
    latest = VerificationSummary()

    def stop(summary: VerificationSummary) -> None:
        nonlocal latest
        latest = summary
        if summary.broken:
            raise _FoundError

    began = time.process_time()
    with contextlib.suppress(_FoundError):
        run_verification(case.simulation(), [case.workload], name=case.name, kinds=kinds, progress=stop)
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


def exhaustive_finding(case: CorpusCase) -> ExhaustiveResult:
    """Run the broken operator under every schedule within small bounds, and its twin if there is a finding."""
    broken = _explored(case, repaired=False)
    twin = _explored(case, repaired=True) if broken.counterexamples else None
    return ExhaustiveResult(
        is_found=bool(broken.counterexamples),
        is_alarm=twin is not None and bool(twin.counterexamples),
        complete=broken.complete,
        states=broken.states,
        seconds=round(broken.seconds, 1),
    )


def _explored(case: CorpusCase, *, repaired: bool) -> Exploration:
    return explore(case.simulation(repaired=repaired), case.workload, EXHAUSTIVE_BOUNDS, time_limit=EXHAUSTIVE_SECONDS)
