"""The lifecycle of pods as data: a `Stage` selects pods, and defines a state change and its delay."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from envtest.controllers.objects import controller_of
from envtest.controllers.programs import is_no_reference, missing_image, program_of
from opsdk.structured_merge.value import JsonObject


class State(enum.Enum):
    """The state of a scheduled pod."""

    PENDING = "Pending"
    """The pod has a node; its containers have not started."""
    WAITING = "Waiting"
    """Containers cannot start, for the `reason` of the rule: ``ImagePullBackOff``, ..."""
    INITIALIZING = "Initializing"
    """The first init container runs."""
    RUNNING = "Running"
    """Containers run, but are not ready."""
    READY = "Ready"
    """Containers run and are ready."""
    CRASHED = "Crashed"
    """Containers ended and restart: immediately, then after 10 s, 20 s, ... 300 s, unless a rule has a delay."""
    SUCCEEDED = "Succeeded"
    """All containers ended with exit code 0."""
    FAILED = "Failed"
    """A container ended with an error, and is not restarted."""
    TERMINATING = "Terminating"
    """The pod has a deletion timestamp; its next state is always its removal."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: pods in state `at` that match change to state `to` after `delay` seconds.

    Attributes:
        selector: labels that the pod must have; an empty one matches every pod.
        namespace: the namespace of the pod; empty matches any.
        owner: the kind of the controlling owner; empty matches any pod.
        to: the next state; None keeps the pod in its state. A terminating pod ends as ``SUCCEEDED`` or ``FAILED`` and
            is deleted; None chooses by its restart policy.
        delay: seconds after the pod entered the state; 0 by default. A terminating pod is killed after its grace
            period, if `delay` is longer.
        reason: the reason in the status of waiting or failed containers.
        message: the message in the status of waiting or failed containers.
        exit_code: the exit code of the containers; None is 0 for ``SUCCEEDED``, else 1.
        times: how often the rule applies, for all pods together; None is no limit.
        by_pod: the rule applies only to pods with a known image or command: at ``PENDING`` an image that cannot be
            pulled, else a program that `envtest.controllers.programs` interprets. Then `delay`, `exit_code` and
            `message` come from the pod.
    """

    at: State
    to: State | None
    selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    namespace: str = ""
    owner: str = ""
    delay: float = 0.0
    reason: str = "Error"
    message: str = ""
    exit_code: int | None = None
    times: int | None = None
    by_pod: bool = False

    def matches(self, pod: JsonObject, state: State) -> bool:
        """Return whether the rule applies to a pod in this state."""
        meta = pod["metadata"]
        if state is not self.at or self.namespace not in ("", meta.get("namespace")):
            return False
        if self.by_pod and not (missing_image(pod) if state is State.PENDING else program_of(pod)):
            return False
        owner = (controller_of(pod) or {}).get("kind", "")
        return self.selector.items() <= (meta.get("labels") or {}).items() and self.owner in ("", owner)

    def for_pod(self, pod: JsonObject) -> Stage:
        """Return the rule with delay, exit code and message of the pod, if it is a rule `by_pod`."""
        if not self.by_pod:
            return self
        if self.at is State.PENDING:
            image = missing_image(pod)
            if is_no_reference(image):
                return replace(self, reason="InvalidImageName", message=f'couldn\'t parse image name "{image}"')
            return replace(self, message=f'Back-off pulling image "{image}"')
        program = program_of(pod)
        assert program is not None
        return replace(self, delay=program.seconds, exit_code=program.code)

    @property
    def code(self) -> int:
        """The exit code of the containers that the rule ends."""
        if self.exit_code is not None:
            return self.exit_code
        return int(self.to is not State.SUCCEEDED)


DEFAULT_STAGES: Sequence[Stage] = (
    Stage(at=State.PENDING, to=State.WAITING, reason="ImagePullBackOff", by_pod=True),
    Stage(at=State.PENDING, to=State.READY),
    Stage(at=State.READY, to=State.CRASHED, by_pod=True),
    Stage(at=State.READY, to=State.SUCCEEDED, owner="Job"),
    Stage(at=State.TERMINATING, to=None),
)
"""Pods become ready immediately, those of jobs succeed, deleted ones are removed. The first matching rule applies.

``sleep 5``, ``false`` and ``exit 3`` end accordingly; ``pause`` keeps running. Images such as ``webserver:404``,
``invalid-image`` and ``does-not-exist`` cannot be pulled, and ``Not An Image`` is no name of one.
"""


def stage_for(
    pod: JsonObject, state: State, stages: Sequence[Stage], use_counts: Mapping[int, int] | None = None
) -> int | None:
    """Return the index of the first rule that applies; `use_counts` holds how often each was used."""
    for number, stage in enumerate(stages):
        applies = stage.times is None or (use_counts or {}).get(number, 0) < stage.times
        if applies and stage.matches(pod, state):
            return number
    return None
