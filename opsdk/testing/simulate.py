"""Simulate an operator: seeded workloads and faults in virtual time, invariants, and minimized failing plans.

See docs/simulation.md.
"""

from opsdk.engine.world.declaration import Action, World
from opsdk.engine.world.faults import DEFAULT_FAULTS, NETWORK_FAULTS, Fault, Step
from opsdk.engine.world.outcome import Outcome
from opsdk.testing.simulation.report import Failure, SimulationSummary, minimize, simulate
from opsdk.testing.simulation.runner import Simulation

__all__ = [
    "DEFAULT_FAULTS",
    "NETWORK_FAULTS",
    "Action",
    "Failure",
    "Fault",
    "Outcome",
    "Simulation",
    "SimulationSummary",
    "Step",
    "World",
    "minimize",
    "simulate",
]
