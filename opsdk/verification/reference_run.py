"""The undisturbed run of a workload, which tells what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from opsdk.engine.world.outcome import Outcome
from opsdk.engine.world.rest_state import RestState, subject_of
from opsdk.verification.guided_run import WorkloadStep
from opsdk.verification.state_comparison import Mask, mask_of, state_violations

__all__ = ["REFERENCE_SEED", "ReferenceRun", "uncompared_names", "uncompared_text"]

_MAX_SHOWN: Final = 5
REFERENCE_SEED: Final = 0
"""Of the reference run and of the disturbed runs: they are equal until the disturbance."""


def uncompared_names(masks: Iterable[Mask]) -> list[str]:
    """Return the objects and fields of masks."""
    fields = {pair for mask in masks for pair in mask.fields}
    return [f"{subject_of(key)} {path}".rstrip() for key, path in sorted(fields)]


def uncompared_text(names: Iterable[str]) -> str:
    """Return the sentence about what is not compared, and what to do."""
    first = ", ".join(list(names)[:_MAX_SHOWN])
    return (
        f"not compared, since two runs without a disturbance differ: {first}: "
        "unless it is random on purpose, let the custom resource decide it"
    )


class ReferenceRun:
    """An undisturbed run, and what two of them do not have in common.

    Args:
        run: runs the workload with a seed, undisturbed.
        steps: the workload. The states after harmful steps, and those in which reconciles fail, are not compared.
        outcome: of a run with `REFERENCE_SEED`, if there was one already.

    Attributes:
        outcome: of the run.
        violations: of the run; there is nothing to compare with then.
        connections: targets outside of the simulated cluster that were refused.
    """

    def __init__(
        self, run: Callable[[int], Outcome], steps: Sequence[WorkloadStep], outcome: Outcome | None = None
    ) -> None:
        self._harmful = {number for number, step in enumerate(steps, 1) if step.is_harmful}
        self._uncertain = {number for number, step in enumerate(steps, 1) if step.is_uncertain}
        self.outcome = run(REFERENCE_SEED) if outcome is None else outcome
        self.violations, self.connections = self.outcome.violations, self.outcome.connections
        self._masks: dict[int, Mask] = {}
        # What does not work depends on what worked before, such as a status that nothing writes now.
        self._harmful |= {number for number, state in self.outcome.states.items() if state.failing}
        self._last, self._entries = len(steps), dict(self.outcome.entries)
        if not self.violations:
            other, states = run(REFERENCE_SEED + 1), self.outcome.states
            self.violations, self.connections = other.violations, other.connections
            self._entries = {path: max(count, self._entries.get(path, 0)) for path, count in other.entries.items()}
            self._masks = {number: mask_of(states[number], state) for number, state in other.states.items()}

    @property
    def uncompared(self) -> list[str]:
        """What is not compared: objects and fields that differ between two undisturbed runs."""
        return uncompared_names(self._masks.values())

    def allow(self, control: Outcome) -> None:
        """Do not compare what differs in a run that should equal the reference run."""
        for number, state in control.states.items():
            mask, other = self._masks[number], mask_of(self.outcome.states[number], state)
            self._masks[number] = Mask(fields=mask.fields | other.fields, counts=mask.counts | other.counts)

    def judge(
        self, outcome: Outcome, *, counted: bool, partial: bool = False, transient: bool = False
    ) -> Sequence[str]:
        """Return the violations of a disturbed run.

        Args:
            outcome: of the run.
            counted: compare how often objects were created and deleted.
            partial: the run ended before its last action.
            transient: objects may come and go again while they do not exist at rest.
        """
        # On a stale view, a child of a deleted owner is created and collected again and again. A loop that goes on
        # afterwards is not calm at the end.
        violations = [each for each in outcome.violations if counted or not each.startswith("hot loop")]
        usual_writes = self.outcome.user_writes
        if partial:
            usual_writes = usual_writes[: len(outcome.user_writes)]
        # An action that chooses among what it finds may do something else in a disturbed run: then the ends differ.
        if violations or outcome.user_writes != usual_writes:
            return violations
        allowed: dict[str, tuple[int, int]] = {}
        for number, state in sorted(outcome.states.items()):
            expected = self.outcome.states[number]
            if transient:
                expected = _allowing(expected, state, allowed)
            if number in self._harmful:
                continue
            if violations := state_violations(
                expected, state, self._masks[number], counted=counted, uncertain=number in self._uncertain
            ):
                return violations
        return () if partial or self._last not in outcome.states else tuple(self._leaks(outcome))

    def _leaks(self, outcome: Outcome) -> Iterator[str]:
        """Yield what a run leaves in external systems at its end, beyond what two undisturbed runs do."""
        for path, count in sorted(outcome.entries.items()):
            usual = self._entries.get(path, count)
            if count > usual:
                yield f"external system: {path} has {count} entries at the end, without a fault {usual}"


def _allowing(expected: RestState, state: RestState, allowed: dict[str, tuple[int, int]]) -> RestState:
    """Return an expected state with the further creations and deletions of objects while they did not exist at rest.

    Args:
        expected: of the reference run.
        state: of the disturbed run at the same rest.
        allowed: by key, until now; it is updated.
    """
    for key in state.keys - expected.objects.keys():
        allowed[key] = (
            max(state.created.get(key, 0) - expected.created.get(key, 0), 0),
            max(state.deleted.get(key, 0) - expected.deleted.get(key, 0), 0),
        )
    created, deleted = dict(expected.created), dict(expected.deleted)
    for key, (creations, deletions) in allowed.items():
        created[key] = created.get(key, 0) + creations
        deleted[key] = deleted.get(key, 0) + deletions
    return replace(expected, created=created, deleted=deleted)
