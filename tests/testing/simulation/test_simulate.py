"""Simulations of seven operators: nothing is violated, and one seed is one run."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
import simulations
from slow_cases import mostly_slow

from opsdk.testing.simulate import Failure, Fault, Step, World, minimize, simulate

ROOT = Path(__file__).resolve().parents[3]


# CI runs five seeds; `make sim` and the deep tests run more.
_DEEP = [pytest.mark.slow, pytest.mark.deep]


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=_DEEP) for block in (1, 2, 3))])
@pytest.mark.parametrize("name", mostly_slow(simulations.ALL, every=3))
def test_twenty_seeds(name: str, block: int) -> None:
    """Five seeds in each block."""
    simulate(simulations.ALL[name], range(block * 5, block * 5 + 5), name=f"simulations.{name.upper()}")


@pytest.mark.parametrize("name", mostly_slow(simulations.ALL, every=3))
def test_a_seed_repeats_its_run(name: str) -> None:
    """Two runs of one seed have equal transcripts."""
    first, second = (simulations.ALL[name].run(7) for _ in range(2))
    assert first.transcript == second.transcript


def test_other_seeds_have_other_runs() -> None:
    """Two seeds have two transcripts."""
    assert simulations.FAMILIES.run(7).transcript != simulations.FAMILIES.run(8).transcript


_SCRIPT = "import sys, zlib, simulations as s; print([zlib.crc32(s.ALL[n].run(3).transcript) for n in s.ALL])"


@pytest.mark.slow
def test_a_seed_repeats_its_run_in_other_processes() -> None:
    """A seed gives the same run in another process, with any string hashes."""
    folders = ["", "tests/support", "samples/website", "samples/application"]
    path = os.pathsep.join(str(ROOT / folder) for folder in folders)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
        )
        for hash_seed in ("1", "2")
    ]
    printed = {process.communicate(timeout=120)[0].decode().strip() for process in running}
    assert printed == {str([zlib.crc32(s.run(3).transcript) for s in simulations.ALL.values()])}


async def _no_secrets(world: World) -> None:
    """A check that fails as soon as the workload made anything."""
    parents = await simulations.list_parents(world)
    assert not parents, "there is a parent"


@pytest.mark.slow
def test_a_failure_shrinks_and_prints_a_test_that_repeats_it() -> None:
    """A failure shrinks to the one step that causes it, and prints a test that repeats it."""
    simulation = replace(simulations.FAMILIES, check=_no_secrets, settle=10.0)
    outcome = next(o for o in map(simulation.run, range(10)) if o.violations)
    failure = minimize(simulation, outcome, name="simulation")
    assert [step.name for step in failure.outcome.steps] == ["make_parent"]
    assert failure.outcome.violations == ("converged: there is a parent",)
    assert _fails_again(failure, simulation)


def _fails_again(failure: Failure, simulation: object) -> bool:
    names = {"Step": Step, "simulation": simulation}
    exec(failure.test_text(), names)
    with pytest.raises(AssertionError, match="there is a parent"):
        names[f"test_seed_{failure.outcome.seed}"]()  # type: ignore[operator]
    return True


@pytest.mark.slow
def test_the_message_has_the_test() -> None:
    """The failure message has the test that repeats the failure."""
    simulation = replace(simulations.FAMILIES, check=_no_secrets, settle=10.0)
    with pytest.raises(AssertionError, match=r"(?s)steps are needed.*def test_seed_\d+.*FAMILIES\.run\("):
        simulate(simulation, name="FAMILIES")


def test_a_watch_that_always_expires_is_no_hot_loop() -> None:
    """The informer must wait longer and longer."""
    steps = [Step(time=5.0, name=Fault.ALWAYS_EXPIRED.value, seconds=5.0)]
    assert not simulations.FAMILIES.run(0, steps).violations
