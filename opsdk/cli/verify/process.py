"""Runs an operator in other processes, whose strings have other hashes, and compares what they decide."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from opsdk.cli.verify.inputs import OperatorInputs
from opsdk.engine.world.rest_state import RestState
from opsdk.errors import OpsdkError
from opsdk.verification.generated_run import GeneratedSummary
from opsdk.verification.life.run import life_states
from opsdk.verification.oracles import Oracle, OracleFinding, StateDifference, state_differences_of

__all__ = ["check_processes"]

_SEEDS: Final = ("1", "2")
"""Of the hashes: fixed, so that two verifications compare the same."""
_REAL_SECOND: Final = 1.0
_MAX_SHOWN: Final = 5
_ADVICE: Final = "do not use hash(), and sort sets, before a value is written"
States = Mapping[str, Mapping[int, RestState]]


def check_processes(inputs: OperatorInputs, summary: GeneratedSummary) -> None:
    """Run a short workload of each kind in processes with other hashes, and add what differs."""
    began = time.monotonic()
    with ThreadPoolExecutor(len(_SEEDS)) as threads:
        first, *others = threads.map(lambda seed: _states(inputs, seed), _SEEDS)
    summary.runs += len(_SEEDS)
    again: States | None = None
    for kind, states in first.items():
        summary.checks[Oracle.PROCESSES] += 1
        differences = [each for other in others for each in _differences(states, other.get(kind, {}))]
        if not differences:
            continue
        if again is None:
            # What differs in two processes with equal hashes is the time.
            time.sleep(max(began + _REAL_SECOND - time.monotonic(), 0.0))
            again = _states(inputs, _SEEDS[0])
        varying = {each.place for each in _differences(states, again.get(kind, {}))}
        if lasting := [each for each in differences if each.place not in varying]:
            texts = dict.fromkeys(each.text for each in lasting)
            summary.add(
                OracleFinding(
                    oracle=Oracle.PROCESSES,
                    kind=kind,
                    operation=f"{kind}: another process, in which strings have other hashes",
                    differences=(*list(texts)[:_MAX_SHOWN], _ADVICE),
                    places=frozenset(each.place for each in lasting),
                )
            )


def _differences(states: Mapping[int, RestState], others: Mapping[int, RestState]) -> Iterator[StateDifference]:
    for number in states.keys() & others.keys():
        yield from state_differences_of(states[number], others[number], "in another process")


def _states(inputs: OperatorInputs, seed: str) -> States:
    """Return the states of a process."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "states"
        words: Sequence[str] = (sys.executable, "-m", "opsdk.cli.verify.process", str(result))
        done = subprocess.run(  # noqa: S603 - this interpreter, and this module
            words,
            input=pickle.dumps((sys.path, inputs)),
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=False,
        )
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise OpsdkError(f"the operator does not run in another process: {lines[-1] if lines else 'no message'}")
        states: States = pickle.loads(result.read_bytes())  # noqa: S301 - written by this module
        return states


def _main() -> None:
    sys.path[:], inputs = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - written by this module
    Path(sys.argv[1]).write_bytes(pickle.dumps(life_states(inputs.generated())))


if __name__ == "__main__":
    _main()
