"""Workloads from an operator's declaration alone: short runs over generated custom resources."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
from guided_samples import sample_violations
from planned_scenarios import SCENARIOS

import envtest
from opsdk import Operator
from opsdk.engine.doubles import factory_of
from opsdk.errors import UsageError
from opsdk.verification.generated import GeneratedVerification, VerifiedOperator
from opsdk.verification.guided_run import run_guided

COUNTED_ID = "applications default/example status.record.id"
"""The double of the DNS numbers its records: an operator that sees fewer changes may create fewer of them."""


def generated(name: str, operations: int = 12) -> GeneratedVerification:
    """The workloads of a sample."""
    scenario = SCENARIOS[name]
    operator = VerifiedOperator(
        factory_of(scenario.operator, scenario.doubles),
        environment=lambda definitions: envtest.Environment(controllers="cluster", crds=definitions),
    )
    return operator.generated(operations=operations)


@pytest.mark.parametrize("name", ["websites", "greetings", "applications", "databases"])
def test_each_workload_stands_alone(name: str) -> None:
    """It creates its object, changes it a few times, and deletes it, so that the place of a bug is easy to see."""
    verification = generated(name)
    assert verification.workloads
    for workload in verification.workloads:
        names = [step.name.partition(": ")[2].lower() for step in workload]
        assert names[0].startswith(("create", "recreate"))
        assert names[-1] == "delete"
        assert 2 <= len(workload) <= 5
        assert not any("beyond" in each for each in names)


def test_operations_reach_the_operator() -> None:
    """The server admits them, and the operator writes."""
    verification = generated("websites", 3)
    outcome = run_guided(verification.declared, verification.workloads[0])
    assert outcome.violations == ()
    assert any(write.changed for write in outcome.writes)
    assert len(outcome.states) == len(verification.workloads[0]) + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["websites", "greetings", pytest.param("applications", marks=pytest.mark.deep), "databases"]
)
def test_the_samples_survive(name: str) -> None:
    """Some disturbances of each workload of a few operations."""
    verification = generated(name, 6)
    for workload in verification.workloads:
        violations = sample_violations(verification.declared, workload, most_of_others=8)
        assert [each for each in violations if COUNTED_ID not in each] == []


def test_an_operator_without_kinds_of_its_own_is_refused() -> None:
    """There is no schema to generate objects from."""
    with pytest.raises(UsageError, match="declares no kind of its own"):
        VerifiedOperator(factory_of(partial(Operator, "a"), None), environment=lambda _: envtest.Environment())


@pytest.mark.parametrize(("retry_period", "expected"), [(2, 10), (20, 20)])
def test_a_lease_is_renewed_seldom(retry_period: float, expected: float) -> None:
    """Renewals were most requests of a run; longer durations of the author stay."""
    scenario = SCENARIOS["websites"]
    assert scenario.operator is not None

    def elected() -> Operator:
        operator = scenario.operator()
        operator.options = msgspec.structs.replace(
            operator.options, lease_duration=60, renew_deadline=40, retry_period=retry_period
        )
        return operator

    verified = VerifiedOperator(factory_of(elected, None), environment=lambda _: envtest.Environment())
    assert verified.generated(operations=2).declared.new_doubles().operator().options.retry_period == expected
