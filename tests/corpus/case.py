"""A published bug as an operator of a few lines, beside its repaired twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from opsdk import Operator
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.simulate import Action


class Study(StrEnum):
    """Where the bug was published."""

    SIEVE = "Sieve"
    ACTO = "Acto"


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
        actions: what users do, in this order; random workloads repeat them in any order. Each accepts any state.
        check: what its author would check at the end of a random run. Guided runs do not need it.
        examples: custom resources to generate others from.
        out_of_reach: why the fault cannot reach an operator that stands on opsdk, with the test that proves it; else
            empty.
    """

    name: str
    study: Study
    pattern: str
    report: str
    cause: str
    broken: Callable[[], Operator]
    repaired: Callable[[], Operator]
    kinds: Sequence[type[Any]]
    actions: Sequence[Action]
    check: Action
    examples: Sequence[JsonObject] = ()
    out_of_reach: str = ""
