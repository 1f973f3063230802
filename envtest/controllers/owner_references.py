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
    """What has become of an owner."""

    SOLID = "solid"
    """It is there."""
    WAITING = "waiting"
    """It is being deleted, and waits for its dependents to go first."""
    ABSENT = "absent"
    """It is gone, or another object has its name, or it lives in another namespace."""
    UNKNOWN = "unknown"
    """Nobody can say: its kind is not served, or a cluster-scoped object names a namespaced one."""


class Verdict(enum.Enum):
    """What to do about an object."""

    KEEP = "keep"
    """Nothing."""
    PRUNE = "prune"
    """Drop the references to owners that are gone: another owner lives."""
    COLLECT = "collect"
    """Delete it by its own finalizers' policy: nobody owns it any more."""
    COLLECT_FOREGROUND = "collect in the foreground"
    """Delete it after its own dependents: its owner waits for all below."""


@dataclass(frozen=True, slots=True)
class GarbageVerdict:
    """A verdict; for `PRUNE`, `solid_references` are the references that stay."""

    verdict: Verdict
    solid_references: Sequence[JsonObject] = ()


def has_finalizer(obj: JsonObject, finalizer: str) -> bool:
    """Whether a finalizer holds it."""
    return finalizer in (obj["metadata"].get("finalizers") or ())


def state_of_owner(owner: JsonObject | None, uid: str) -> OwnerState:
    """What a reference with this uid means, given what is found under its name."""
    if owner is None or owner["metadata"]["uid"] != uid:
        return OwnerState.ABSENT
    return OwnerState.WAITING if deleting(owner) and has_finalizer(owner, FOREGROUND) else OwnerState.SOLID


def attempt_to_delete_verdict(
    obj: JsonObject, owner_state: Callable[[JsonObject], OwnerState], *, has_dependents: bool
) -> GarbageVerdict:
    """The verdict on one object; `owner_state` returns the state of the owner that a reference names."""
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
    """How an object that nobody owns is to be deleted: its finalizers may say so."""
    if has_finalizer(obj, ORPHAN):
        return "Orphan"
    return "Foreground" if has_finalizer(obj, FOREGROUND) else "Background"


def blocking(owner: JsonObject, dependents: Sequence[JsonObject]) -> bool:
    """Whether a dependent is left for which its owner must wait."""
    uid = owner["metadata"]["uid"]
    return any(
        ref.get("uid") == uid and ref.get("blockOwnerDeletion")
        for d in dependents
        for ref in d["metadata"].get("ownerReferences") or ()
    )


def unblocked(obj: JsonObject) -> list[JsonObject] | None:
    """Its references, none of which keeps its owner waiting; None where that is so already."""
    before = obj["metadata"].get("ownerReferences") or []
    if not any(r.get("blockOwnerDeletion") for r in before):
        return None
    return [{**r, "blockOwnerDeletion": False} for r in before]


def without_owner(obj: JsonObject, uid: str) -> list[JsonObject] | None:
    """Its references but those to one owner; None, which removes the field, where none are left."""
    return [r for r in obj["metadata"].get("ownerReferences") or () if r.get("uid") != uid] or None


def without_finalizer(obj: JsonObject, name: str) -> list[str] | None:
    """Its finalizers but one; None where none are left."""
    return [f for f in obj["metadata"].get("finalizers") or () if f != name] or None
