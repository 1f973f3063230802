"""Repeats in a test what ``opsdk verify`` found with generated custom resources.

The command prints tests that import this module, so it keeps its name. They name the operator as the command line does,
relative to the current folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from opsdk.cli.verify.inputs import OperatorInputs
from opsdk.cli.verify.process import check_processes
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.disturbances import Disturbance
from opsdk.verification.exploration.bounds import Choice
from opsdk.verification.exploration.explore import verify_schedule
from opsdk.verification.generated_run import GeneratedSummary, check_generated
from opsdk.verification.life.run import check_life
from opsdk.verification.oracles import Oracle
from opsdk.verification.transition import Transition, Written
from opsdk.verification.verify import verify_disturbance

__all__ = ["VerifyOptions", "verify_life", "verify_transition"]


class VerifyOptions(TypedDict, total=False):
    """How an operator is verified, as on the command line.

    Attributes:
        doubles: ``MODULE:NAME`` of the doubles of external systems; empty for those of the project.
        allowed_hosts: that the operator may reach.
        checks: as ``KIND:EXPRESSION``.
        ignored: what is not compared, as ``RESOURCE`` or ``RESOURCE:PATH``.
        definitions: sources of the definitions of kinds that have no class, as for ``--crds``.
        kubernetes: the version of the local API server; None for the default.
    """

    doubles: str
    allowed_hosts: Sequence[str]
    checks: Sequence[str]
    ignored: Sequence[str]
    definitions: Sequence[str]
    kubernetes: str | None


def verify_transition(
    operator: str, steps: Sequence[Written], disturbance: Disturbance | None = None, *,
    schedule: Sequence[Choice] | None = None, order: int | None = None, references: Sequence[JsonObject] = (),
    replicas: int = 1, **options: Unpack[VerifyOptions],
) -> Sequence[str]:  # fmt: skip
    """Return what is wrong with an operator after some custom resources. Call it from a plain test function.

    Args:
        operator: ``MODULE:NAME`` or a file, as on the command line.
        steps: the custom resources, in order. At the end, the last one is deleted.
        disturbance: what goes wrong; None if nothing does: then the states at rest are judged.
        schedule: of ``--exhaustive``, instead of a disturbance.
        order: the seed of the order of tasks in that search; None for first in, first out.
        references: objects that the custom resources name.
        replicas: of the operator.
        options: see `VerifyOptions`.

    Raises:
        OpsdkError: the operator cannot be verified.
    """
    inputs = OperatorInputs(operator=operator, exhaustive=schedule is not None, **options)
    verification = inputs.transition(Transition(tuple(steps), tuple(references)))
    (workload,) = verification.workloads
    if schedule is not None:
        return verify_schedule(verification.declared, workload, schedule, order=order)
    violations = verify_disturbance(replace(verification.declared, replicas=replicas), workload, disturbance)
    if disturbance is not None or violations:
        return violations
    return list(map(str, check_generated(verification).findings))


def verify_life(
    operator: str, kind: str, oracle: str, *, references: Sequence[JsonObject] = (), **options: Unpack[VerifyOptions]
) -> Sequence[str]:
    """Return what is wrong with an operator in a workload like life. Call it from a plain test function.

    Args:
        operator: ``MODULE:NAME`` or a file, as on the command line.
        kind: of the custom resources.
        oracle: the law that it breaks.
        references: examples of custom resources, and objects that they name.
        options: see `VerifyOptions`.

    Raises:
        OpsdkError: the operator cannot be verified.
    """
    inputs = OperatorInputs(operator=operator, examples=references, **options)
    summary = GeneratedSummary()
    if oracle == Oracle.PROCESSES.value:
        check_processes(inputs, summary)
    else:
        check_life(inputs.generated(), summary)
    return [str(each) for each in summary.findings if (each.kind, each.oracle.value) == (kind, oracle)]
