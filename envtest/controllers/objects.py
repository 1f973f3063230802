"""Helpers that read and build parts of objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.structured_merge.value import JsonObject, JsonValue

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def stamp(when: datetime) -> str:
    """A time as objects carry it."""
    return when.strftime(_FORMAT)


def parse_time(text: str) -> datetime:
    """Back again; fractions are cut off."""
    return datetime.strptime(text.rstrip("Z").partition(".")[0] + "Z", _FORMAT).replace(tzinfo=UTC)


# ------------------------------------------------------------------ owners
def owner_uids(obj: JsonObject | None) -> Sequence[str]:
    """The uids of an object's owners."""
    if obj is None:
        return ()
    return [o.get("uid", "") for o in obj["metadata"].get("ownerReferences") or ()]


def controller_of(obj: JsonObject) -> JsonObject | None:
    """The reference to the owner that controls an object."""
    return next((o for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")), None)


def controlled_by(obj: JsonObject, owner: JsonObject) -> bool:
    """Whether `owner` controls an object."""
    controller = controller_of(obj)
    return controller is not None and controller.get("uid") == owner["metadata"]["uid"]


def owner_reference(owner: JsonObject) -> JsonObject:
    """A reference to the controlling owner."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def deleting(obj: JsonObject) -> bool:
    """Whether an object is marked as deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


# ------------------------------------------------------------------ conditions
def conditions_of(obj: JsonObject) -> list[JsonObject]:
    """The conditions in its status."""
    return list((obj.get("status") or {}).get("conditions") or ())


def condition_in(conditions: Iterable[JsonObject], kind: str) -> JsonObject | None:
    """The condition of a type."""
    return next((c for c in conditions if c.get("type") == kind), None)


def is_true(conditions: Iterable[JsonObject], kind: str) -> bool:
    """Whether it is there and True."""
    return (condition_in(conditions, kind) or {}).get("status") == "True"


def with_condition(conditions: Sequence[JsonObject], new: JsonObject) -> list[JsonObject]:
    """`conditions` with a new one in the place of its type; an unchanged status keeps its time of transition."""
    before = condition_in(conditions, new["type"])
    if before is not None and before.get("status") == new.get("status") and "lastTransitionTime" in before:
        new = {**new, "lastTransitionTime": before["lastTransitionTime"]}
    if before is None:
        return [*conditions, new]
    return [new if c is before else c for c in conditions]


# ------------------------------------------------------------------ pods
def pod_from_template(template: JsonObject, owner: JsonObject, *, name: str = "") -> JsonObject:
    """A new pod for `owner`; without a `name`, one is made from the owner's."""
    meta = template.get("metadata") or {}
    pod: JsonObject = {
        **{k: copy_tree(meta[k]) for k in ("labels", "annotations", "finalizers") if meta.get(k)},
        "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [owner_reference(owner)],
    }
    pod["name" if name else "generateName"] = name or f"{owner['metadata']['name']}-"
    return {"kind": "Pod", "apiVersion": "v1", "metadata": pod, "spec": copy_tree(template.get("spec") or {})}


def phase_of(pod: JsonObject) -> str:
    """Its phase."""
    return str((pod.get("status") or {}).get("phase", ""))


def is_active(pod: JsonObject) -> bool:
    """Neither finished nor on its way out."""
    return phase_of(pod) not in ("Succeeded", "Failed") and not deleting(pod)


def is_ready(pod: JsonObject) -> bool:
    """Whether its condition says so."""
    return is_true(conditions_of(pod), "Ready")


def seconds_until_available(pod: JsonObject, min_ready: int, now: datetime) -> float | None:
    """Zero or less for an available pod, None for one that is not ready."""
    ready = condition_in(conditions_of(pod), "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    if not min_ready:
        return 0.0
    since = ready.get("lastTransitionTime")
    return min_ready - (now - parse_time(since)).total_seconds() if since else None


def without_zeros(status: JsonObject) -> JsonObject:
    """Counts of zero and empty lists are not shown."""
    return {k: v for k, v in status.items() if v not in (0, [], None)}


def replicas_of(obj: JsonObject) -> int:
    """How many are wanted."""
    replicas: JsonValue = (obj.get("spec") or {}).get("replicas", 1)
    return int(replicas if replicas is not None else 1)


def status_of(obj: JsonObject, key: str) -> int:
    """A count of its status."""
    return int((obj.get("status") or {}).get(key) or 0)


def with_status(obj: JsonObject, status: JsonObject) -> JsonObject:
    """The same object with another status."""
    return {**obj, "status": status}


def age_order(obj: JsonObject) -> tuple[str, str]:
    """Sorts the oldest first."""
    return (obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"])
