"""The operator that ``opsdk verify`` attacks in this process, as the command line names it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from opsdk.builder.operator import Operator
from opsdk.cli.fresh_modules import compiled_once, imported_modules, renew_imports
from opsdk.cli.generate.sources import read_all_definitions
from opsdk.cli.loading import load_operator, operator_reference
from opsdk.cli.plan.inputs import load_doubles
from opsdk.cli.project import find_project
from opsdk.engine.doubles import Doubles, DoublesFactory, factory_of
from opsdk.engine.environments import defined_environment
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.engine.world.masks import parse_ignored
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.checks import parse_check
from opsdk.verification.generated import GeneratedVerification, VerifiedOperator
from opsdk.verification.transition import Transition

__all__ = ["OPERATIONS", "AttackLimits", "OperatorInputs", "fresh_operator"]

OPERATIONS: Final = 60
"""Operations on each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorInputs:
    """What is verified.

    Attributes:
        operator: that names the operator; empty for that of the project.
        doubles: ``MODULE:NAME`` of the doubles; empty for those of the project.
        allowed_hosts: that the operator may reach.
        checks: as ``KIND:EXPRESSION``.
        ignored: what is not compared, as ``RESOURCE`` or ``RESOURCE:PATH``, beside ``verify-ignore`` of the project.
        exhaustive: all schedules are run: of short workloads, without pods.
        examples: custom resources to begin with, and objects that they name.
        operations: on each kind.
        seed: chooses the order of the fields.
        definitions: sources of the definitions of kinds that have no class, as `read_definitions` reads them.
        kubernetes: the version of the local API server; None for the default.
    """

    operator: str = ""
    doubles: str = ""
    allowed_hosts: Sequence[str] = ()
    checks: Sequence[str] = ()
    ignored: Sequence[str] = ()
    exhaustive: bool = False
    examples: Sequence[JsonObject] = ()
    operations: int = OPERATIONS
    seed: int = 0
    definitions: Sequence[str] = ()
    kubernetes: str | None = None

    def generated(self) -> GeneratedVerification:
        """Return the verification of generated workloads. Raises `OpsdkError`: the operator cannot be verified."""
        return self._verified().generated(
            examples=self.examples,
            operations=self.operations,
            per_workload=1 if self.exhaustive else 3,
            seed=self.seed,
        )

    def transition(self, transition: Transition) -> GeneratedVerification:
        """Return the verification of a printed test. Raises `OpsdkError`."""
        return self._verified().transition(transition)

    def _verified(self) -> VerifiedOperator:
        return VerifiedOperator(
            self.doubles_factory(),
            environment=defined_environment(
                controllers="none" if self.exhaustive else "cluster", kubernetes=self.kubernetes
            ),
            allowed_hosts=self.allowed_hosts,
            checks=[parse_check(text) for text in self.checks],
            ignored=self._all_ignored(),
            definitions=read_all_definitions(self.definitions),
        )

    def options(self) -> dict[str, Any]:
        """Return the attributes that differ from their defaults, without the operator."""
        values = {
            name: getattr(self, name)
            for name in ("doubles", "allowed_hosts", "checks", "ignored", "definitions", "kubernetes")
        }
        return {name: list(value) if not isinstance(value, str) else value for name, value in values.items() if value}

    @property
    def reference(self) -> str:
        """The reference of the operator, also if it is that of the project. Raises `UsageError`."""
        return operator_reference(self.operator)

    def doubles_factory(self) -> DoublesFactory:
        """Return what creates the doubles of a run. Each start of its operator is that of a new process."""
        reference, doubles = self.reference, load_doubles(self.operator, self.doubles)
        if doubles is None:
            return factory_of(lambda: fresh_operator(reference), None)
        return _with_fresh_modules(doubles)

    def _all_ignored(self) -> list[str]:
        project = find_project(Path.cwd())
        is_project = project is not None and self.operator in ("", project.operator)
        texts = [*(project.verify_ignore if project is not None and is_project else ()), *self.ignored]
        for text in texts:
            parse_ignored(text)
        return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackLimits:
    """How much is run.

    Attributes:
        disturbances: their number; None for the default.
        seconds: of real time, after which no further one is run.
        processes: that share them; None for the default.
    """

    disturbances: int | None
    seconds: float
    processes: int | None

    @property
    def all_processes(self) -> int:
        """The number of processes; by default one on each processor."""
        return self.processes or os.cpu_count() or 1


def fresh_operator(reference: str) -> Operator:
    """Return an operator from modules that are imported anew: a process that starts again remembers nothing."""
    package = Path(reference.partition(":")[0]).stem.partition(".")[0]
    names = [name for name in sys.modules if name == package or name.startswith(f"{package}.")]
    for name in imported_modules(names):
        del sys.modules[name]
    with compiled_once():
        return load_operator(reference)


def _with_fresh_modules(doubles: DoublesFactory) -> DoublesFactory:
    """Return a factory whose operators come from modules that are imported anew. The module of the doubles stays."""

    def created(snapshot: ClusterSnapshot) -> Doubles[Any]:
        doubled = doubles(snapshot)

        def operator() -> Operator:
            module = getattr(doubled.operator, "__module__", "")
            if module in sys.modules:
                renew_imports(module)
            return doubled.operator()

        return Doubles(operator=operator, systems=doubled.systems)

    return created
