"""Looks for the bug of a case with generated custom resources, from the definition alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import envtest
from opsdk import Operator
from opsdk.engine.doubles import factory_of
from opsdk.verification.generated import GeneratedVerification, VerifiedOperator
from opsdk.verification.generated_run import check_generated
from opsdk.verification.oracles import OracleFinding
from tests.corpus.case import CorpusCase

OPERATIONS = 60
"""Operations on the kind of a case, as of the command."""


@dataclass(frozen=True, kw_only=True)
class GeneratedSearch:
    """What generated custom resources show of an operator.

    Attributes:
        findings: each bug once.
        seconds: of CPU.
    """

    findings: Sequence[OracleFinding]
    seconds: float

    @property
    def oracle(self) -> str:
        """The oracle of the first finding; empty without any."""
        return self.findings[0].oracle.value if self.findings else ""


def search_with_generated_resources(
    case: CorpusCase, *, repaired: bool = False, workload: int | None = None, stop_at_first: bool = True
) -> GeneratedSearch:
    """Return what generated custom resources show of the operator of a case, or of its twin.

    Args:
        case: the case.
        repaired: look at the twin.
        workload: the number of the only workload to run; None runs all.
        stop_at_first: end with the first finding.
    """
    verification = generated_for(case.repaired if repaired else case.broken, case)
    if workload is not None:
        verification = replace(verification, runs=[verification.runs[workload]])
    began = time.process_time()
    summary = check_generated(verification, stop_at_first=stop_at_first)
    return GeneratedSearch(findings=summary.findings, seconds=time.process_time() - began)


def compare_with_the_twin(case: CorpusCase) -> tuple[GeneratedSearch, GeneratedSearch]:
    """Return what is found in the operator of a case and not in its twin, and what is found in the twin.

    Twins that share one definition ignore many of its fields. A finding in both does not show the bug.
    """
    twin = search_with_generated_resources(case, repaired=True, stop_at_first=False)
    search = search_with_generated_resources(case, stop_at_first=not twin.findings)
    findings = [each for each in search.findings if not each.is_among(twin.findings)]
    return replace(search, findings=findings), twin


def generated_for(operator: Callable[[], Operator], case: CorpusCase) -> GeneratedVerification:
    """Return the workloads of an operator of a case."""

    def environment(definitions: Sequence[Any]) -> envtest.Environment:
        return envtest.Environment(controllers="cluster", controller_events=False, crds=definitions)

    verified = VerifiedOperator(factory_of(operator, None), environment=environment)
    return verified.generated(examples=case.examples, operations=OPERATIONS)
