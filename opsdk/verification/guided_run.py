"""Runs a workload once: without a disturbance, or with one. The next action waits until the operator is at rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from opsdk.engine.connections import refusal_of
from opsdk.engine.world.declaration import SimulatedOperator
from opsdk.engine.world.outcome import Outcome
from opsdk.engine.world.rest_state import RestState
from opsdk.verification.disturbances import Disturbance
from opsdk.verification.disturbers import GuidedDisturber, disturber_of
from opsdk.verification.life.external import records_of
from opsdk.verification.resting_run import RestingRun

__all__ = ["WorkloadRun", "WorkloadStep", "outside_text", "run_guided"]

_RESTLESS: Final = ("calm: ", "hot loop: ", "restart: ")
"""How violations begin that say that writes go on."""


class WorkloadStep(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One action of a workload.

    Attributes:
        name: of the action.
        seed: of its random numbers.
        is_harmful: what the operator makes of the state after it may depend on what it had done before.
        is_uncertain: so may what the objects hold then, but not which are created and deleted.
    """

    name: str
    seed: int = 0
    is_harmful: bool = False
    is_uncertain: bool = False


def run_guided(
    declared: SimulatedOperator, steps: Sequence[WorkloadStep], disturbance: Disturbance | None = None, *,
    seed: int = 0, with_senders: bool = False, expected: RestState | None = None,
) -> Outcome:  # fmt: skip
    """Run a workload in virtual time. Must not be called from a running event loop.

    Args:
        declared: the operator, its environment, its actions and its invariants.
        steps: the workload.
        disturbance: what goes wrong; None for a reference run.
        seed: of every random number. Runs with one seed are equal until their disturbances.
        with_senders: see `WorldRun`.
        expected: see `WorkloadRun`.
    """
    disturber = disturber_of(disturbance)
    return WorkloadRun(declared, steps, disturber, seed=seed, with_senders=with_senders, expected=expected).execute()


class WorkloadRun(RestingRun):
    """One run of a workload.

    Args:
        declared: the operator, its environment, its actions and its invariants.
        steps: the workload.
        disturber: what goes wrong.
        seed: of every random number.
        order: see `WorldRun`.
        with_senders: see `WorldRun`.
        expected: the last state of a run that wrote nothing after a restart: a run that ends so does not restart.
    """

    def __init__(
        self,
        declared: SimulatedOperator,
        steps: Sequence[WorkloadStep],
        disturber: GuidedDisturber,
        *,
        seed: int = 0,
        order: int | None = None,
        with_senders: bool = False,
        expected: RestState | None = None,
    ) -> None:
        super().__init__(declared, seed=seed, order=order, disturber=disturber, with_senders=with_senders)
        self._steps, self._expected = steps, expected
        self._states: dict[int, RestState] = {}
        disturber.attach(self)

    # -------------------------------------------------------------- the run
    async def play(self) -> list[str]:
        """Take the steps, each at rest, and return the violations."""
        await self._rest_with_all_seen()
        for number, step in enumerate(self._steps):
            action = self.declared.action(step.name)
            assert action is not None, step
            if not self.disturber.is_stale and not self.hurry.is_set():
                await self._note_rest(number)
            self.action = number
            self.hurry.clear()
            await self.cluster.act(action, step.seed)
            await self._rest_with_all_seen(fails=step.is_harmful)
        await self.disturber.end()
        self.cluster.heal()
        violations = await self.cluster.rest_violations(self.seed)
        if not violations:
            await self._note_rest(len(self._steps))
            self.is_over = True
            if self._expected is None or not self._ends_as(self._expected):
                violations = await self.cluster.restart()
        return violations

    def _ends_as(self, expected: RestState) -> bool:
        """Whether the last state is an expected one, with which the next process writes nothing."""
        last = self._states.get(len(self._steps))
        return last is not None and last.objects == expected.objects

    def complete(self, outcome: Outcome) -> Outcome:
        """Return the result with the states at rest, and the writes that went on there."""
        states = {} if outcome.connections else self._states
        if self.writes and any(each.startswith(_RESTLESS) for each in outcome.violations):
            self.note_restless(self.writes[-1])
        return replace(
            outcome, states=states, restless=list(self.restless), entries=records_of(self.cluster.systems)
        )  # fmt: skip

    async def _note_rest(self, number: int) -> None:
        """Note the state at the rest after some steps, and the checks that do not hold there.

        After a harmful step they need not hold: a pod whose image does not exist is not ready.
        """
        if not self.disturber.has_missed:
            self._states[number] = self.state.current(self.cluster.records)
        if not number or not self._steps[number - 1].is_harmful:
            self.problems += await self.cluster.failed_checks(self.declared.at_rest, self.seed)

    async def _rest_with_all_seen(self, *, fails: bool = False) -> None:
        """Wait until the operator is at rest, and once more if its view was released only then."""
        await self.rest(fails=fails)
        if await self.disturber.on_rest():
            await self.rest()


def outside_text(target: str) -> str:
    """Return the sentence about a target outside of the simulated cluster, and what to add."""
    return refusal_of(target, RestingRun.subject)
