"""What becomes of pods, as data: `Stage` rules say which pods move from which state to which other one, and when."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envtest.controllers.objects import controller_of
from opsdk.apiserver.storage.ports import Tree


class State(enum.Enum):
    """Where a scheduled pod is in its life."""

    PENDING = "Pending"
    """On a node, its containers not started."""
    RUNNING = "Running"
    """Containers run, but are not ready."""
    READY = "Ready"
    """Containers run and are ready."""
    SUCCEEDED = "Succeeded"
    """Every container ended with 0."""
    FAILED = "Failed"
    """A container ended with 1, and is not started again."""
    TERMINATING = "Terminating"
    """Marked as deleted; the next state is always that it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One rule: pods that are `at` a state and match are moved `to` another after `delay` seconds.

    Attributes:
        selector: labels that the pod has; none match every pod.
        owner: the kind of the controlling owner; empty matches any pod.
        to: None keeps the pod where it is, for ever.
        delay: seconds from the moment the state was reached; 0, as in most tests, is at once.
        reason: shown in the status of a failed pod.
    """

    at: State
    to: State | None
    selector: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    delay: float = 0.0
    reason: str = "Error"

    def matches(self, pod: Tree, state: State) -> bool:
        """Whether this rule is for a pod in this state."""
        labels = pod["metadata"].get("labels") or {}
        owner = (controller_of(pod) or {}).get("kind", "")
        return state is self.at and self.selector.items() <= labels.items() and self.owner in ("", owner)


DEFAULT_STAGES: Sequence[Stage] = (
    Stage(at=State.PENDING, to=State.READY),
    Stage(at=State.READY, to=State.SUCCEEDED, owner="Job"),
    Stage(at=State.TERMINATING, to=None),
)
"""Pods run and are ready at once, those of jobs succeed, deleted ones go at once. The first match counts."""
