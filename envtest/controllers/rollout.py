"""The arithmetic of a Deployment rollout: replica counts, revisions and names. Pure.

Upstream: pkg/controller/deployment/util/deployment_util.go (v1.36)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envtest.controllers.objects import age_order, replicas_of, status_of
from opsdk.apimachinery.integers import parse_int
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.structured_merge.value import JsonObject

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
HISTORY = "deployment.kubernetes.io/revision-history"
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


# ------------------------------------------------------------------ templates
def template_hash(template: JsonObject, collisions: int = 0) -> str:
    """Return the ``pod-template-hash`` of a template."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":")) + (f"/{collisions}" if collisions else "")
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    letters = []
    for _ in range(10):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def same_template(replica_set: JsonObject, deployment: JsonObject) -> bool:
    """Return whether a replica set has the deployment's template; the hash label is ignored."""
    theirs, desired = replica_set["spec"].get("template") or {}, deployment["spec"]["template"]
    if theirs.get("spec") != desired.get("spec"):
        return False
    return _without_hash(theirs) == _without_hash(desired)


def _without_hash(template: JsonObject) -> JsonObject:
    meta = dict(template.get("metadata") or {})
    meta["labels"] = {k: v for k, v in (meta.get("labels") or {}).items() if k != HASH}
    return {k: v for k, v in meta.items() if v}


def split(deployment: JsonObject, sets: Iterable[JsonObject]) -> tuple[JsonObject | None, list[JsonObject]]:
    """Return the new replica set, if it exists, and the old ones; oldest first."""
    ordered = sorted(sets, key=age_order)
    new = next((s for s in ordered if same_template(s, deployment)), None)
    return new, [s for s in ordered if s is not new]


def new_replica_set(deployment: JsonObject, *, replicas: int, revision: int) -> JsonObject:
    """Return the replica set of the current template."""
    spec, meta = deployment["spec"], deployment["metadata"]
    collisions = int((deployment.get("status") or {}).get("collisionCount") or 0)
    digest = template_hash(spec["template"], collisions)
    template: JsonObject = copy_tree(spec["template"])
    labels = {**(template.setdefault("metadata", {}).get("labels") or {}), HASH: digest}
    template["metadata"]["labels"] = labels
    selector: JsonObject = copy_tree(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH: digest}
    replica_set = {
        "replicas": replicas,
        "selector": selector,
        "template": template,
        "minReadySeconds": spec.get("minReadySeconds", 0),
    }
    return {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": {
            "name": f"{meta['name']}-{digest}",
            "namespace": meta["namespace"],
            "labels": dict(labels),
            "annotations": annotations_for(deployment, revision),
        },
        "spec": replica_set,
    }


# ------------------------------------------------------------------ annotations
def annotations_for(deployment: JsonObject, revision: int) -> JsonObject:
    """Return the annotations that a deployment sets on a replica set."""
    own = deployment["metadata"].get("annotations") or {}
    replicas = replicas_of(deployment)
    return {
        **{k: v for k, v in own.items() if k not in _NOT_COPIED},
        REVISION: str(revision),
        DESIRED: str(replicas),
        MAXIMUM: str(replicas + limits(deployment).surge),
    }


def annotation_number(obj: JsonObject, annotation: str) -> int:
    """Return the number in an annotation; 0 if it is missing."""
    text = (obj["metadata"].get("annotations") or {}).get(annotation, "")
    return max(parse_int(text) or 0, 0)


def next_revision(new: JsonObject | None, old: Sequence[JsonObject]) -> int:
    """Return the next revision number, above those of all replica sets."""
    others = max((annotation_number(s, REVISION) for s in old), default=0)
    revision = annotation_number(new, REVISION) if new is not None else 0
    return revision if revision > others else others + 1


# ------------------------------------------------------------------ numbers
@dataclass(frozen=True, slots=True)
class RollingLimits:
    """The pods that may exceed the desired count, and the pods that may be unavailable."""

    surge: int
    unavailable: int


def limits(deployment: JsonObject) -> RollingLimits:
    """Return the limits of a rolling update; zeros for `Recreate`."""
    strategy = deployment["spec"].get("strategy") or {}
    replicas = replicas_of(deployment)
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return RollingLimits(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if not surge and not unavailable:
        unavailable = 1  # upstream: both limits zero would block every rollout
    return RollingLimits(surge, min(unavailable, replicas))


def scaled_value(value: int | str, total: int, *, up: bool) -> int:
    """Return a number, or a percentage of `total`, rounded up or down.

    >>> scaled_value("25%", 3, up=True), scaled_value("25%", 3, up=False), scaled_value(2, 3, up=True)
    (1, 0, 2)
    """
    if isinstance(value, str) and value.endswith("%"):
        share = max(parse_int(value[:-1]) or 0, 0) * total / 100
        return math.ceil(share) if up else math.floor(share)
    return parse_int(value) or 0 if isinstance(value, str) else value


def total_replicas(sets: Iterable[JsonObject]) -> int:
    """Return the sum of the desired replicas."""
    return sum(replicas_of(s) for s in sets)


def total(sets: Iterable[JsonObject], key: str) -> int:
    """Return the sum of one count of the statuses."""
    return sum(status_of(s, key) for s in sets)


def new_replica_set_size(deployment: JsonObject, new: JsonObject | None, old: Sequence[JsonObject]) -> int:
    """Return the size of the new replica set in this step."""
    replicas = replicas_of(deployment)
    if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        return replicas
    size = replicas_of(new) if new is not None else 0
    if size >= replicas:
        return replicas
    room = replicas + limits(deployment).surge - total_replicas(old) - size
    return size + max(min(room, replicas - size), 0)


def scale_down_old(deployment: JsonObject, new: JsonObject, old: Sequence[JsonObject]) -> dict[str, int]:
    """Return new sizes of old replica sets by name: unhealthy pods first, then as many as the limits allow."""
    sizes = {s["metadata"]["name"]: replicas_of(s) for s in old}
    minimum = replicas_of(deployment) - limits(deployment).unavailable
    missing = replicas_of(new) - status_of(new, "availableReplicas")
    spare = sum(sizes.values()) + replicas_of(new) - minimum - max(missing, 0)
    if spare <= 0 or not any(sizes.values()):
        return {}
    before = dict(sizes)
    for item in old:
        name = item["metadata"]["name"]
        broken = max(sizes[name] - status_of(item, "availableReplicas"), 0)
        cut = min(spare, broken)
        sizes[name] -= cut
        spare -= cut
    # Pods of a replica set that is being scaled down do not count.
    available = sum(
        min(before.get(s["metadata"]["name"], replicas_of(s)), status_of(s, "availableReplicas")) for s in [*old, new]
    )
    available -= minimum
    for item in old:
        name = item["metadata"]["name"]
        cut = max(min(available, sizes[name]), 0)
        sizes[name] -= cut
        available -= cut
    return {name: size for name, size in sizes.items() if size != before[name]}


def is_scaling_event(deployment: JsonObject, sets: Sequence[JsonObject]) -> bool:
    """Return whether the deployment's replicas differ from the desired-replicas annotation of an active set."""
    replicas = replicas_of(deployment)
    return any(replicas_of(s) > 0 and annotation_number(s, DESIRED) not in (0, replicas) for s in sets)


def rescale(deployment: JsonObject, new: JsonObject | None, old: Sequence[JsonObject]) -> dict[str, int]:
    """Return new sizes after the deployment was scaled; several active replica sets share proportionally."""
    replicas = replicas_of(deployment)
    sets = [*([new] if new is not None else []), *reversed(old)]
    active = [s for s in sets if replicas_of(s) > 0]
    if len(active) <= 1:
        only = active[0] if active else next(iter(sets), None)
        sizes = {} if only is None else {only["metadata"]["name"]: replicas}
    elif is_saturated(deployment, new):
        sizes = {s["metadata"]["name"]: 0 for s in active if s is not new}
    elif (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        sizes = {}
    else:
        sizes = _shares(deployment, active)
    by_name = {s["metadata"]["name"]: s for s in sets}
    return {name: size for name, size in sizes.items() if size != replicas_of(by_name[name])}


def is_saturated(deployment: JsonObject, new: JsonObject | None) -> bool:
    """Return whether the new replica set has all desired replicas, available and annotated."""
    replicas = replicas_of(deployment)
    if new is None or annotation_number(new, DESIRED) != replicas:
        return False
    return replicas_of(new) == replicas == status_of(new, "availableReplicas")


def _shares(deployment: JsonObject, active: Sequence[JsonObject]) -> dict[str, int]:
    """Scale each replica set in proportion; the largest one gets the rounding remainder."""
    replicas = replicas_of(deployment)
    allowed = replicas + limits(deployment).surge if replicas else 0
    missing = allowed - total_replicas(active)
    age = 1 if missing < 0 else -1  # on equal sizes, growing starts with the newest set, and shrinking with the oldest
    ordered = sorted(active, key=age_order)[::age]
    ordered.sort(key=lambda s: -replicas_of(s))
    sizes: dict[str, int] = {}
    added = 0
    for item in ordered:
        share = _share(deployment, item, allowed) if missing else 0
        remaining = missing - added
        part = min(share, remaining) if missing > 0 else max(share, remaining)
        sizes[item["metadata"]["name"]] = replicas_of(item) + part
        added += part
    first = ordered[0]["metadata"]["name"]
    sizes[first] = max(sizes[first] + missing - added, 0)
    return sizes


def _share(deployment: JsonObject, item: JsonObject, allowed: int) -> int:
    """Return the change of one replica set that keeps its proportion."""
    size = replicas_of(item)
    if not replicas_of(deployment):
        return -size
    before = annotation_number(item, MAXIMUM) or status_of(deployment, "replicas")
    return math.floor(size * allowed / before + 0.5) - size if before else 0
