"""What the processes of ``make sim`` do."""

from __future__ import annotations

import gc
import time

from simulations import ALL

from opsdk.verification.verify import VerificationSummary, draw_workload, run_verification


def run_seed(job: tuple[str, int]) -> tuple[str, int, float, tuple[str, ...], int, float]:
    """Run one schedule: name, seed, CPU seconds, violations, reconciles, virtual seconds."""
    name, seed = job
    before = time.process_time()
    outcome = ALL[name].run(seed)
    return name, seed, time.process_time() - before, outcome.violations, outcome.reconciles, outcome.seconds


def run_workload(job: tuple[str, int]) -> tuple[str, VerificationSummary]:
    """Run one workload with each disturbance: name, and what was found."""
    name, seed = job
    simulation = ALL[name]
    return name, run_verification(simulation, [draw_workload(simulation, seed)], name=f"simulations.{name.upper()}")


def prepare() -> None:
    """Warm up what is made once, and leave it to no garbage collection."""
    for simulation in ALL.values():
        simulation.run(0, [])
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
