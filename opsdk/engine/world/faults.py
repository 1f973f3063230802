"""Faults between a replica and the server, and of the replica's process. Pure values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import StrEnum

from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = [
    "DEFAULT_FAULTS",
    "DELETIONS",
    "FAULTS_WITHOUT_WINDOW",
    "NETWORK_FAULTS",
    "PLACED_AT_WRITES",
    "PLACED_FAULTS",
    "Fault",
    "Step",
]


class Fault(StrEnum):
    """A fault. Some last for `Step.seconds`; the others happen once."""

    CUT_WATCHES = "cut_watches"
    """Once: the connections of all open watches break."""
    EXPIRE_WATCHES = "expire_watches"
    """Once: all open watches end with a 410 error event."""
    REFUSE_WATCHES = "refuse_watches"
    """Window: watches are cut, and new ones fail with 503; the next one fails with 410, as after a compaction."""
    ALWAYS_EXPIRED = "always_expired"
    """Window: watches are cut, and all new ones fail with 410, even with a current resource version."""
    SLOW_WATCHES = "slow_watches"
    """Window: watch events arrive when it ends, so caches are stale."""
    CONFLICT = "conflict"
    """Window: half of the PUT and PATCH requests fail with 409."""
    THROTTLE = "throttle"
    """Window: half of the requests fail with 429 and ``Retry-After: 1``."""
    INTERNAL_ERROR = "internal_error"
    """Window: half of the requests fail with 500."""
    UNAVAILABLE = "unavailable"
    """Window: every request fails with 503."""
    LOSE_ANSWERS = "lose_answers"
    """Window: half of the writes are stored, but their responses are lost."""
    DELAY = "delay"
    """Window: each request takes up to two seconds longer."""
    PARTITION = "partition"
    """Window: messages between replica and server are delayed until its end."""
    BLACK_HOLE = "black_hole"
    """Window: requests get no response, as if a firewall dropped packets; open watches stay silent forever."""
    SLOW_RECONCILE = "slow_reconcile"
    """Window: each reconcile takes up to three seconds longer."""
    CRASH = "crash"
    """The replica ends without a graceful stop, and restarts after `Step.seconds`."""
    STOP = "stop"
    """The replica stops gracefully, and restarts after `Step.seconds`."""
    CRASH_AFTER_WRITE = "crash_after_write"
    """Once: the replica ends after the server has stored one of its next writes, and restarts after a second."""
    LOSE_ANSWER = "lose_answer"
    """Once: one of the next writes is stored, but its response is lost."""
    CONFLICTING_WRITE = "conflicting_write"
    """Once: one of the next PUT and PATCH requests fails with 409."""
    HIDE_EVENT = "hide_event"
    """Window that begins with one of the next events: its watch breaks before it, and new ones wait for the end."""
    SLOW_WATCH = "slow_watch"
    """Window that begins with one of the next events: this watch alone stands still, so one kind's cache is stale."""
    LOSE_LEASE = "lose_lease"
    """Window: requests for Leases fail with 503, so a leader cannot renew its own."""
    DELETE_CHILD = "delete_child"
    """Once: a foreign client deletes a random object of the simulation's `children` kinds."""
    DELETE_IN_GAP = "delete_in_gap"
    """Once: all open watches break, and a foreign client deletes a random object before they are back."""


DEFAULT_FAULTS = tuple(fault for fault in Fault if fault is not Fault.ALWAYS_EXPIRED)
"""The default faults of plans: those of a server that conforms to the API."""
DELETIONS = frozenset({Fault.DELETE_CHILD, Fault.DELETE_IN_GAP})
"""Faults that need the simulation's `children`."""
PLACED_AT_WRITES = frozenset({Fault.CRASH_AFTER_WRITE, Fault.LOSE_ANSWER, Fault.CONFLICTING_WRITE})
"""Faults that begin with a write of the client."""
PLACED_FAULTS = frozenset({*PLACED_AT_WRITES, Fault.HIDE_EVENT, Fault.SLOW_WATCH})
"""Faults that begin with a write or an event, and not at a time: no random time lies between a write and its answer."""
_OF_PROCESSES = frozenset({Fault.SLOW_RECONCILE, Fault.CRASH, Fault.CRASH_AFTER_WRITE, Fault.STOP})
NETWORK_FAULTS = frozenset(Fault) - _OF_PROCESSES - DELETIONS
"""Faults of the network and the server: they apply to an operator in any process."""
FAULTS_WITHOUT_WINDOW = frozenset({Fault.CUT_WATCHES, Fault.EXPIRE_WATCHES, *PLACED_AT_WRITES, *DELETIONS})
"""Faults that happen once: `Step.seconds` does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One fault or action of a plan.

    Attributes:
        time: seconds after the start.
        name: a `Fault`'s value, or the name of an action of the workload.
        replica: number of the replica that a fault hits, from 0.
        seconds: duration of a fault, or of the absence of a replica.
        seed: the seed of the step's random numbers, so that it does not depend on other steps.
    """

    time: float
    name: str
    replica: int = 0
    seconds: float = 0.0
    seed: int = 0

    def __repr__(self) -> str:
        values = ", ".join(f"{k}={v!r}" for k, v in asdict(self).items() if k in ("time", "name") or v)
        return f"Step({values})"

    @classmethod
    def from_json(cls, value: JsonValue) -> Step:
        """Return the step of a JSON object with the fields above. Raises `UsageError` for unknown fields."""
        known_fields = {f.name for f in fields(cls)}
        if not isinstance(value, dict) or not {"time", "name"} <= set(value) <= known_fields:
            raise UsageError(f"{value!r} is not a step: it needs time and name, and may have replica, seconds, seed")
        return cls(**value)

    def to_json(self) -> JsonObject:
        """Return the step as a JSON object."""
        return asdict(self)
