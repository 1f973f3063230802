"""The results of the corpus, as they are kept in two files of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from opsdk.verification.disturbances import Disturbance
from tests.corpus.acto.cases import CASES as ACTO
from tests.corpus.case import CorpusCase
from tests.corpus.sieve.cases import CASES as SIEVE

RESULTS: Final = Path(__file__).parent / "results.json"
SCALE: Final = Path(__file__).parent / "scale.json"
CASES: Final[Sequence[CorpusCase]] = [*SIEVE, *ACTO]


class ExhaustiveResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What exhaustive search showed of a broken operator, and of its twin.

    Attributes:
        is_found: a schedule broke the operator.
        is_alarm: a schedule broke the twin; it is not searched if the broken operator has no such schedule.
        complete: no schedule of the broken operator within the bounds was left.
        states: number of its different states.
        seconds: of real time for it.
    """

    is_found: bool = False
    is_alarm: bool = False
    complete: bool = False
    states: int = 0
    seconds: float = 0.0

    @property
    def is_counted(self) -> bool:
        """Whether it found the bug: a schedule that breaks the twin too shows something else."""
        return self.is_found and not self.is_alarm


class DeclaredResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``opsdk verify`` with its defaults shows of an operator and of its twin, from the declaration alone.

    Attributes:
        reported: the oracles and disturbances of the bugs that it reports of the broken operator, each once.
        status: of the command.
        seconds: of CPU for it.
        twin_reported: the same of the twin; None if it was not run.
        twin_texts: the first difference of each report of the twin.
        twin_status: of the command for the twin.
        twin_seconds: of CPU for it.
        commit: of the source that was measured.
    """

    reported: Sequence[str] = ()
    status: int
    seconds: float
    twin_reported: Sequence[str] | None = None
    twin_texts: Sequence[str] = ()
    twin_status: int = 0
    twin_seconds: float = 0.0
    commit: str

    @property
    def found_by(self) -> str:
        """The first oracle or disturbance that reports the broken operator and not the twin; empty without one."""
        if self.twin_reported is None:
            return ""
        return next((each for each in self.reported if each not in self.twin_reported), "")


class CaseResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was measured of one case.

    Attributes:
        name: of the case.
        is_found: by guided runs.
        disturbance: that found it; None if the run without a disturbance did.
        oracle: the broken invariant.
        runs: disturbed runs until then.
        seconds: of CPU until then.
        random: number of random seeds that found it; 0 if none did.
        random_seeds: that were tried.
        twin_runs: disturbed runs of the twin.
        twin_seconds: of CPU for them.
        false_alarms: what was reported of the twin.
        generated: the oracle by which generated custom resources found the bug; a dash if they did not, empty if they
            were not tried.
        generated_seconds: of CPU for the search, and for that in the twin.
        generated_alarms: what they showed of the twin.
        exhaustive: what exhaustive search showed; None if it was not tried.
        declared: what the command showed from the declaration alone; None if it was not tried.
    """

    name: str
    is_found: bool = False
    disturbance: Disturbance | None = None
    oracle: str = ""
    runs: int = 0
    seconds: float = 0.0
    random: int = 0
    random_seeds: int = 0
    twin_runs: int = 0
    twin_seconds: float = 0.0
    false_alarms: Sequence[str] = ()
    generated: str = ""
    generated_seconds: tuple[float, float] = (0.0, 0.0)
    generated_alarms: Sequence[str] = ()
    exhaustive: ExhaustiveResult | None = None
    declared: DeclaredResult | None = None


class ScaleResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What many runs in one piece showed.

    Attributes:
        operators: number of different operators; a bug and its twin are one.
        count: of guided plans, or of generated operations.
        runs: number of runs for the operations, with those that only compare.
        bugs: that were found in broken operators.
        alarms: what was reported of operators without a bug.
        processes: that ran at the same time.
        wall_seconds: from begin to end.
        cpu_seconds: of all processes.
    """

    operators: int
    count: int
    runs: int = 0
    bugs: int = 0
    alarms: Sequence[str] = ()
    processes: int
    wall_seconds: float
    cpu_seconds: float


def read_results(path: Path = RESULTS) -> dict[str, CaseResult]:
    """Return the results by case."""
    if not path.exists():
        return {}
    return {each.name: each for each in msgspec.json.decode(path.read_bytes(), type=list[CaseResult])}


def write_results(results: Mapping[str, CaseResult], path: Path = RESULTS) -> None:
    """Write the results in the order of the cases."""
    names = [case.name for case in CASES if case.name in results]
    values = [msgspec.to_builtins(results[name]) for name in names]
    # Another process may read it at the same time.
    written = path.with_suffix(".new")
    written.write_text(json.dumps(values, indent=1) + "\n")
    written.replace(path)


def read_scale(path: Path = SCALE) -> dict[str, ScaleResult]:
    """Return the results of the runs in one piece: of "plans", and of "operations"."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, ScaleResult]) if path.exists() else {}


def write_scale(results: Mapping[str, ScaleResult], path: Path = SCALE) -> None:
    """Write the results of the runs in one piece."""
    path.write_text(json.dumps(msgspec.to_builtins(results), indent=1) + "\n")
