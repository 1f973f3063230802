"""Looks for the bug of a case with generated custom resources, from the definition alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import envtest
from opsdk import Operator
from opsdk.testing.doubles import factory_of
from opsdk.verification.generated import GeneratedVerification, generated_verification
from opsdk.verification.generated_run import check_generated
from tests.corpus.case import CorpusCase

OPERATIONS = 60
"""Operations on the kind of a case, as of the command."""


@dataclass(frozen=True, kw_only=True)
class GeneratedSearch:
    """What generated custom resources show of an operator.

    Attributes:
        findings: one text each.
        oracle: of the first finding; empty without any.
        seconds: of CPU.
    """

    findings: Sequence[str]
    oracle: str
    seconds: float


def search_with_generated_resources(
    case: CorpusCase, *, repaired: bool = False, workload: int | None = None
) -> GeneratedSearch:
    """Return what generated custom resources show of the operator of a case, or of its twin.

    The search for a bug ends with the first finding; that for false alarms does not end early.

    Args:
        case: the case.
        repaired: look at the twin.
        workload: the number of the only workload to run; None runs all.
    """
    verification = generated_for(case.repaired if repaired else case.broken, case)
    if workload is not None:
        verification = replace(verification, runs=[verification.runs[workload]])
    began = time.process_time()
    summary = check_generated(verification, stop_at_first=not repaired)
    return GeneratedSearch(
        findings=[str(finding) for finding in summary.findings],
        oracle=summary.findings[0].oracle.value if summary.findings else "",
        seconds=time.process_time() - began,
    )


def generated_for(operator: Callable[[], Operator], case: CorpusCase) -> GeneratedVerification:
    """Return the workloads of an operator of a case."""

    def environment(definitions: Sequence[Any]) -> envtest.Environment:
        return envtest.Environment(controllers="cluster", controller_events=False, crds=definitions)

    return generated_verification(
        factory_of(operator, None), environment=environment, examples=case.examples, operations=OPERATIONS
    )
