"""Repeats in a test what ``opsdk verify`` found with generated custom resources.

The command prints such tests. They name the operator as the command line does, relative to the current folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opsdk.cli.verify_inputs import OperatorInputs
from opsdk.cli.verify_process import check_processes
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.disturbances import Disturbance
from opsdk.verification.exploration.bounds import Choice, Schedule
from opsdk.verification.exploration.explore import verify_schedule
from opsdk.verification.generated_run import GeneratedSummary, check_generated
from opsdk.verification.life.run import check_life
from opsdk.verification.oracles import Oracle, OracleFinding
from opsdk.verification.transition import Transition, Written
from opsdk.verification.verify import verify_disturbance

__all__ = ["life_test", "transition_test", "verify_life", "verify_transition"]


def verify_transition(
    operator: str,
    steps: Sequence[Written],
    disturbance: Disturbance | None = None,
    *,
    schedule: Sequence[Choice] | None = None,
    references: Sequence[JsonObject] = (),
    doubles: str = "",
    allowed_hosts: Sequence[str] = (),
    checks: Sequence[str] = (),
    ignored: Sequence[str] = (),
    definitions: Sequence[str] = (),
    kubernetes: str | None = None,
    replicas: int = 1,
) -> Sequence[str]:
    """Return what is wrong with an operator after some custom resources. Call it from a plain test function.

    Args:
        operator: ``MODULE:NAME`` or a file, as on the command line.
        steps: the custom resources, in order. At the end, the last one is deleted.
        disturbance: what goes wrong; None if nothing does: then the states at rest are judged.
        schedule: of ``--exhaustive``, instead of a disturbance.
        references: objects that the custom resources name.
        doubles: ``MODULE:NAME`` of the doubles of external systems; empty for those of the project.
        allowed_hosts: that the operator may reach.
        checks: as ``KIND:EXPRESSION``.
        ignored: what is not compared, as ``RESOURCE`` or ``RESOURCE:PATH``.
        definitions: sources of the definitions of kinds that have no class, as for ``--crds``.
        kubernetes: the version of the local API server; None for the default.
        replicas: of the operator.

    Raises:
        OpsdkError: the operator cannot be verified.
    """
    inputs = OperatorInputs(
        operator=operator, doubles=doubles, allowed_hosts=allowed_hosts, checks=checks, ignored=ignored,
        definitions=definitions, kubernetes=kubernetes, exhaustive=schedule is not None,
    )  # fmt: skip
    verification = inputs.transition(Transition(tuple(steps), tuple(references)))
    (workload,) = verification.workloads
    if schedule is not None:
        return verify_schedule(verification.declared, workload, schedule)
    violations = verify_disturbance(replace(verification.declared, replicas=replicas), workload, disturbance)
    if disturbance is not None or violations:
        return violations
    return list(map(str, check_generated(verification).findings))


def transition_test(
    inputs: OperatorInputs,
    title: str,
    transition: Transition,
    disturbance: Disturbance | None = None,
    *,
    schedule: Schedule | None = None,
    replicas: int = 1,
) -> str:
    """Return a pytest test that fails while a bug is there.

    Args:
        inputs: the operator.
        title: of the finding; its first words are the name of the test.
        transition: the custom resources.
        disturbance: what goes wrong.
        schedule: of an exhaustive search.
        replicas: of the operator.
    """
    options = inputs.options() | ({"references": list(transition.references)} if transition.references else {})
    if replicas > 1:
        options["replicas"] = replicas
    if schedule is not None:
        options["schedule"] = list(schedule)
    arguments = [repr(inputs.reference), "steps"]
    arguments += [repr(disturbance)] if disturbance is not None else []
    arguments += [f"{name}={value!r}" for name, value in options.items()]
    steps = "".join(f"        {step!r},\n" for step in transition.steps)
    imports = ["from opsdk.cli.verify_transition import verify_transition\n"]
    if disturbance is not None:
        imports.append("from opsdk.verification.disturbances import Disturbance, DisturbanceKind\n")
    if schedule:
        imports.append("from opsdk.verification.exploration.bounds import Choice, Option\n")
    imports.append("from opsdk.verification.transition import Written\n")
    return (
        f"{''.join(imports)}\n\n"
        f"def test_{_identifier(title)}() -> None:\n"
        f"    # {title}\n"
        f"    steps = [\n{steps}    ]\n"
        f"    violations = verify_transition({', '.join(arguments)})\n"
        f"    assert not violations, violations\n"
    )


def verify_life(
    operator: str, kind: str, oracle: str, *, doubles: str = "", allowed_hosts: Sequence[str] = (),
    checks: Sequence[str] = (), ignored: Sequence[str] = (), definitions: Sequence[str] = (),
    kubernetes: str | None = None, references: Sequence[JsonObject] = (),
) -> Sequence[str]:  # fmt: skip
    """Return what is wrong with an operator in a workload like life. Call it from a plain test function.

    Args:
        operator: ``MODULE:NAME`` or a file, as on the command line.
        kind: of the custom resources.
        oracle: the law that it breaks.
        doubles: ``MODULE:NAME`` of the doubles of external systems; empty for those of the project.
        allowed_hosts: that the operator may reach.
        checks: as ``KIND:EXPRESSION``.
        ignored: what is not compared, as ``RESOURCE`` or ``RESOURCE:PATH``.
        definitions: sources of the definitions of kinds that have no class, as for ``--crds``.
        kubernetes: the version of the local API server; None for the default.
        references: examples of custom resources, and objects that they name.

    Raises:
        OpsdkError: the operator cannot be verified.
    """
    inputs = OperatorInputs(
        operator=operator, doubles=doubles, allowed_hosts=allowed_hosts, checks=checks, ignored=ignored,
        definitions=definitions, kubernetes=kubernetes, examples=references,
    )  # fmt: skip
    summary = GeneratedSummary()
    if oracle == Oracle.PROCESSES.value:
        check_processes(inputs, summary)
    else:
        check_life(inputs.generated(), summary)
    return [str(each) for each in summary.findings if (each.kind, each.oracle.value) == (kind, oracle)]


def life_test(inputs: OperatorInputs, finding: OracleFinding) -> str:
    """Return a pytest test that fails while a workload like life shows a bug."""
    options = inputs.options() | ({"references": list(inputs.examples)} if inputs.examples else {})
    arguments = [repr(inputs.reference), repr(finding.kind), repr(finding.oracle.value)]
    arguments += [f"{name}={value!r}" for name, value in options.items()]
    return (
        "from opsdk.cli.verify_transition import verify_life\n\n\n"
        f"def test_{_identifier(finding.oracle.value)}() -> None:\n"
        f"    # {finding.operation}\n"
        f"    violations = verify_life({', '.join(arguments)})\n"
        f"    assert not violations, violations\n"
    )


def _identifier(title: str) -> str:
    """Return the words before a colon or a comma as a part of a name.

    >>> _identifier("path independence: Site 1: Update spec.text")
    'path_independence'
    """
    words = title.partition(":")[0].partition(",")[0]
    return "_".join("".join(char if char.isalnum() else " " for char in words).split()).lower()
