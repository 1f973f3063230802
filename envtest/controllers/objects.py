"""Helpers that read and build parts of objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.structured_merge.value import JsonObject, JsonValue


def stamp(when: datetime) -> str:
    """Return a UTC time as an RFC 3339 timestamp."""
    return f"{when.isoformat()[:19]}Z"  # strftime takes five times as long


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 timestamp in UTC; fractions of a second are dropped. Raises `ValueError` for another text."""
    return datetime.fromisoformat(text.rstrip("Z").partition(".")[0]).replace(tzinfo=UTC)


# ------------------------------------------------------------------ owners
def owner_uids(obj: JsonObject | None) -> Sequence[str]:
    """Return the uids of the object's owners."""
    if obj is None:
        return ()
    return [o.get("uid", "") for o in obj["metadata"].get("ownerReferences") or ()]


def controller_of(obj: JsonObject) -> JsonObject | None:
    """Return the owner reference of the controller, or None."""
    return next((o for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")), None)


def controlled_by(obj: JsonObject, owner: JsonObject) -> bool:
    """Return whether `owner` is the object's controller."""
    controller = controller_of(obj)
    return controller is not None and controller.get("uid") == owner["metadata"]["uid"]


def owner_reference(owner: JsonObject) -> JsonObject:
    """Return an owner reference to a controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def deleting(obj: JsonObject) -> bool:
    """Return whether the object has a deletion timestamp."""
    return bool(obj["metadata"].get("deletionTimestamp"))


# ------------------------------------------------------------------ conditions
def conditions_of(obj: JsonObject) -> list[JsonObject]:
    """Return the conditions of the status."""
    return list((obj.get("status") or {}).get("conditions") or ())


def condition_in(conditions: Iterable[JsonObject], kind: str) -> JsonObject | None:
    """Return the condition of a type, or None."""
    return next((c for c in conditions if c.get("type") == kind), None)


def is_true(conditions: Iterable[JsonObject], kind: str) -> bool:
    """Return whether a condition exists and is True."""
    return (condition_in(conditions, kind) or {}).get("status") == "True"


def with_condition(conditions: Sequence[JsonObject], new: JsonObject) -> list[JsonObject]:
    """Return the conditions with `new` set; an unchanged status keeps its transition time."""
    before = condition_in(conditions, new["type"])
    if before is not None and before.get("status") == new.get("status") and "lastTransitionTime" in before:
        new = {**new, "lastTransitionTime": before["lastTransitionTime"]}
    if before is None:
        return [*conditions, new]
    return [new if c is before else c for c in conditions]


# ------------------------------------------------------------------ pods
def pod_from_template(template: JsonObject, owner: JsonObject, *, name: str = "") -> JsonObject:
    """Return a new pod for `owner`; without `name`, the name is generated from the owner's."""
    meta = template.get("metadata") or {}
    pod: JsonObject = {
        **{k: copy_tree(meta[k]) for k in ("labels", "annotations", "finalizers") if meta.get(k)},
        "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [owner_reference(owner)],
    }
    pod["name" if name else "generateName"] = name or f"{owner['metadata']['name']}-"
    return {"kind": "Pod", "apiVersion": "v1", "metadata": pod, "spec": copy_tree(template.get("spec") or {})}


def phase_of(pod: JsonObject) -> str:
    """Return the phase."""
    return str((pod.get("status") or {}).get("phase", ""))


def is_active(pod: JsonObject) -> bool:
    """Return whether a pod is neither finished nor terminating."""
    return phase_of(pod) not in ("Succeeded", "Failed") and not deleting(pod)


def is_ready(pod: JsonObject) -> bool:
    """Return whether the pod's condition Ready is True."""
    return is_true(conditions_of(pod), "Ready")


def seconds_until_available(pod: JsonObject, min_ready: int, now: datetime) -> float | None:
    """Return the seconds until the pod is available (zero or less if it is); None if not ready."""
    ready = condition_in(conditions_of(pod), "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    if not min_ready:
        return 0.0
    since = ready.get("lastTransitionTime")
    return min_ready - (now - parse_time(since)).total_seconds() if since else None


def without_zeros(status: JsonObject) -> JsonObject:
    """Return the counts without zeros and empty lists."""
    return {k: v for k, v in status.items() if v not in (0, [], None)}


def replicas_of(obj: JsonObject) -> int:
    """Return the desired replicas."""
    replicas: JsonValue = (obj.get("spec") or {}).get("replicas", 1)
    return int(replicas if replicas is not None else 1)


def status_of(obj: JsonObject, key: str) -> int:
    """Return a count of the status; 0 if it is missing."""
    return int((obj.get("status") or {}).get(key) or 0)


def with_status(obj: JsonObject, status: JsonObject) -> JsonObject:
    """Return the object with another status."""
    return {**obj, "status": status}


def age_order(obj: JsonObject) -> tuple[str, str]:
    """Sort key: the oldest first."""
    return (obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"])
