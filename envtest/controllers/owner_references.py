"""Find objects whose owners are gone. Pure; the caller supplies the owner lookup.

Upstream: pkg/controller/garbagecollector/garbagecollector.go (v1.36)
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envtest.controllers.objects import deleting
from opsdk.structured_merge.value import JsonObject

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class OwnerState(enum.Enum):
    """The state of an owner that a reference names."""

    SOLID = "solid"
    """The owner exists."""
    WAITING = "waiting"
    """The owner is being deleted in the foreground, so its dependents go first."""
    ABSENT = "absent"
    """The owner is gone: another object has its name, or it is in another namespace."""
    UNKNOWN = "unknown"
    """The state cannot be determined: the kind is not served, or a cluster-scoped object has a namespaced owner."""


class Verdict(enum.Enum):
    """The action of the garbage collector on an object."""

    KEEP = "keep"
    """No action."""
    PRUNE = "prune"
    """Remove references to absent owners: another owner exists."""
    COLLECT = "collect"
    """Delete the object with the policy of its finalizers: it has no owner any more."""
    COLLECT_FOREGROUND = "collect in the foreground"
    """Delete the object after its dependents: its owner waits for all dependents."""


@dataclass(frozen=True, slots=True)
class GarbageVerdict:
    """A verdict; for `PRUNE`, `solid_references` are the references that stay."""

    verdict: Verdict
    solid_references: Sequence[JsonObject] = ()


def has_finalizer(obj: JsonObject, finalizer: str) -> bool:
    """Return whether the object has the finalizer."""
    return finalizer in (obj["metadata"].get("finalizers") or ())


def state_of_owner(owner: JsonObject | None, uid: str) -> OwnerState:
    """Return the state of an owner: `owner` is the stored object with its name, `uid` the uid of the reference."""
    if owner is None or owner["metadata"]["uid"] != uid:
        return OwnerState.ABSENT
    return OwnerState.WAITING if deleting(owner) and has_finalizer(owner, FOREGROUND) else OwnerState.SOLID


def attempt_to_delete_verdict(
    obj: JsonObject, owner_state: Callable[[JsonObject], OwnerState], *, has_dependents: bool
) -> GarbageVerdict:
    """Decide about one object; `owner_state` returns the state of the owner that a reference names."""
    references = obj["metadata"].get("ownerReferences") or []
    if not references or deleting(obj):
        return GarbageVerdict(Verdict.KEEP)
    owners = [(ref, owner_state(ref)) for ref in references]
    states = {state for _, state in owners}
    if OwnerState.UNKNOWN in states:
        return GarbageVerdict(Verdict.KEEP)
    if OwnerState.SOLID in states:
        solid = [ref for ref, state in owners if state is OwnerState.SOLID]
        return GarbageVerdict(Verdict.KEEP if len(solid) == len(references) else Verdict.PRUNE, solid)
    if OwnerState.WAITING in states and has_dependents:
        return GarbageVerdict(Verdict.COLLECT_FOREGROUND)
    return GarbageVerdict(Verdict.COLLECT)


def propagation_policy(obj: JsonObject) -> str:
    """Return the propagation policy of an object without owners; its finalizers may name one."""
    if has_finalizer(obj, ORPHAN):
        return "Orphan"
    return "Foreground" if has_finalizer(obj, FOREGROUND) else "Background"


def blocking(owner: JsonObject, dependents: Sequence[JsonObject]) -> bool:
    """Return whether a dependent with ``blockOwnerDeletion`` remains."""
    uid = owner["metadata"]["uid"]
    return any(
        ref.get("uid") == uid and ref.get("blockOwnerDeletion")
        for d in dependents
        for ref in d["metadata"].get("ownerReferences") or ()
    )


def unblocked(obj: JsonObject) -> list[JsonObject] | None:
    """Return the owner references with ``blockOwnerDeletion`` false; None if no reference blocks."""
    before = obj["metadata"].get("ownerReferences") or []
    if not any(r.get("blockOwnerDeletion") for r in before):
        return None
    return [{**r, "blockOwnerDeletion": False} for r in before]


def without_owner(obj: JsonObject, uid: str) -> list[JsonObject] | None:
    """Return the owner references except those to one owner; None if none remain."""
    return [r for r in obj["metadata"].get("ownerReferences") or () if r.get("uid") != uid] or None


def without_finalizer(obj: JsonObject, name: str) -> list[str] | None:
    """Return the finalizers except one; None if none remain."""
    return [f for f in obj["metadata"].get("finalizers") or () if f != name] or None
