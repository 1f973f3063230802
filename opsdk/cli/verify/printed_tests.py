"""Writes pytest tests that repeat what ``opsdk verify`` found. They name the operator as the command line does."""

from __future__ import annotations

from opsdk.cli.verify.inputs import OperatorInputs
from opsdk.verification.disturbances import Disturbance
from opsdk.verification.exploration.bounds import Schedule
from opsdk.verification.oracles import OracleFinding
from opsdk.verification.transition import Transition

__all__ = ["life_test", "transition_test"]


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
        options |= {"order": inputs.seed} if inputs.seed else {}
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
