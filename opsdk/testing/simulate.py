"""Simulate an operator: seeded workloads and faults in virtual time, invariants, and minimized failing plans.

See docs/simulation.md.
"""

from opsdk.testing.simulation.plan import DEFAULT_FAULTS, NETWORK_FAULTS, Fault, Step
from opsdk.testing.simulation.report import Failure, Summary, minimize, simulate
from opsdk.testing.simulation.runner import Action, Outcome, Simulation, World

__all__ = [
    "DEFAULT_FAULTS",
    "NETWORK_FAULTS",
    "Action",
    "Failure",
    "Fault",
    "Outcome",
    "Simulation",
    "Step",
    "Summary",
    "World",
    "minimize",
    "simulate",
]
