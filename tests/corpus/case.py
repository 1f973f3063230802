"""A published bug as an operator of a few lines, beside its repaired twin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

import envtest
from opsdk import Context, Operator, crd_for
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.simulate import Action, Simulation
from opsdk.verification.guided_run import WorkloadStep


class Study(StrEnum):
    """Where the bug was published."""

    SIEVE = "Sieve"
    ACTO = "Acto"


Reconciler = Callable[..., Coroutine[Any, Any, Any]]
"""Reconciles an object in a context; the keyword ``repaired`` tells the twin from the operator with the bug."""


class CorpusOperator(Protocol):
    """Creates an operator: with the bug, or repaired."""

    def __call__(self, *, repaired: bool) -> Operator:
        """Return a new operator."""
        ...


def corpus_operator(
    of_twins: Reconciler, new_operator: Callable[[], Operator], kind: type[Any], **declared: Any
) -> CorpusOperator:
    """Return a factory of an operator with one reconciler; it has the docstring of the reconciler.

    Args:
        of_twins: the reconciler of both twins.
        new_operator: creates an operator without reconcilers.
        kind: that is reconciled.
        declared: what else the declaration of the reconciler says, such as ``owns``.
    """

    def factory(*, repaired: bool) -> Operator:
        operator = new_operator()

        async def reconcile(obj: Any, ctx: Context) -> Any:
            return await of_twins(obj, ctx, repaired=repaired)

        # An operator reads the type of the first argument: it passes an object or a request.
        reconcile.__annotations__["obj"] = kind
        operator.reconciler(kind, **declared)(reconcile)
        return operator

    factory.__doc__ = of_twins.__doc__
    return factory


@dataclass(frozen=True, kw_only=True)
class CorpusCase:
    """One root cause.

    Attributes:
        name: of the operator, and the number of its report, such as ``cass-operator-398``.
        study: that published it.
        pattern: the column of the study's table that counts it, such as ``intermediate state``.
        report: address of the public report.
        cause: what the operator does wrong, in one sentence.
        broken: creates the operator with the bug.
        repaired: creates its twin without it.
        kinds: the operator's own kinds, whose definitions the environment serves.
        harmful: the numbers of the actions after which a correct operator may fail for ever, from 0.
        actions: what users do, in this order; random workloads repeat them in any order. Each accepts any state.
        check: what its author would check at the end of a random run. Guided runs do not need it.
        examples: custom resources to generate others from.
        out_of_reach: why the fault cannot reach an operator that stands on opsdk, with the test that proves it; else
            empty.
        replicas: of the operator. With two, one is the leader and the other is a standby.
        repaired_kinds: of the twin, where the bug is in the definition; None for `kinds`.
    """

    name: str
    study: Study
    pattern: str
    report: str
    cause: str
    broken: partial[Operator]
    repaired: partial[Operator]
    kinds: Sequence[type[Any]]
    actions: Sequence[Action]
    check: Action
    examples: Sequence[JsonObject] = ()
    out_of_reach: str = ""
    replicas: int = 1
    repaired_kinds: Sequence[type[Any]] | None = None
    harmful: Collection[int] = ()

    @property
    def project(self) -> str:
        """The operator of the study."""
        return self.name.rpartition("-")[0]

    @property
    def operator(self) -> tuple[Any, ...]:
        """What creates the operator: two reports with one cause have one operator, and count once."""
        return self.broken.func, *self.broken.args

    @property
    def workload(self) -> Sequence[WorkloadStep]:
        """The actions as a workload for guided runs."""
        return [
            WorkloadStep(action.__name__, is_harmful=number in self.harmful)
            for number, action in enumerate(self.actions)
        ]

    def simulation(self, *, repaired: bool = False) -> Simulation:
        """Declare the operator, or its twin, for random and for guided runs."""
        kinds = self.kinds if self.repaired_kinds is None or not repaired else self.repaired_kinds
        return Simulation(
            operator=self.repaired if repaired else self.broken,
            environment=partial(
                envtest.Environment,
                crds=[crd_for(kind) for kind in kinds],
                # Without the controller that removes them, these finalizers would keep deleted claims.
                disable_admission_plugins=["StorageObjectInUseProtection"],
            ),
            actions=list(dict.fromkeys(self.actions)),
            check=self.check,
            replicas=self.replicas,
            settle=60.0,
        )


def distinct(cases: Iterable[CorpusCase]) -> list[CorpusCase]:
    """Return the first case of each operator."""
    first: dict[tuple[Any, ...], CorpusCase] = {}
    for case in cases:
        first.setdefault(case.operator, case)
    return list(first.values())
