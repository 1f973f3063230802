"""Deployments: create a ReplicaSet per template, roll between them, and report progress.

Upstream: pkg/controller/deployment (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from envtest.controllers import rollout
from envtest.controllers.controller import ObjectController
from envtest.controllers.objects import (
    age_order,
    condition_in,
    conditions_of,
    controlled_by,
    controller_of,
    deleting,
    owner_reference,
    parse_time,
    phase_of,
    replicas_of,
    stamp,
    status_of,
    with_condition,
    with_status,
    without_zeros,
)
from envtest.controllers.pods.control import PodPlan
from envtest.controllers.writes import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    CreateWrite,
    DeleteWrite,
    PatchWrite,
    PendingEvent,
    UpdateWrite,
    Write,
)
from envtest.groups.common.label_selectors import selects
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import AlreadyExistsError, ApiError
from opsdk.structured_merge.value import JsonObject

_DONE = "NewReplicaSetAvailable"
_LATE = "ProgressDeadlineExceeded"
_REFUSED = "ReplicaSetCreateError"
_NEVER = 2**31 - 1
"""The progress deadline that means no deadline."""


@dataclass(frozen=True, slots=True)
class DeploymentView:
    """The state of one sync; `old_pods` counts running pods of old replica sets."""

    deployment: JsonObject
    new: JsonObject | None
    old: Sequence[JsonObject]
    old_pods: int
    now: datetime

    @property
    def sets(self) -> list[JsonObject]:
        """All replica sets."""
        return [*self.old, *([self.new] if self.new is not None else [])]


# ------------------------------------------------------------------ core: the replica sets
def plan(view: DeploymentView) -> PodPlan:
    """Return the writes of one sync of a Deployment."""
    if deleting(view.deployment):
        return PodPlan([*_status(view, None, None)])
    revision = rollout.next_revision(view.new, view.old)
    if view.deployment["spec"].get("paused") or rollout.is_scaling_event(view.deployment, view.sets):
        writes = _resize(view, rollout.rescale(view.deployment, view.new, view.old), revision, all_sets=True)
        cleaned = _cleanup_deployment(view, always=True) if view.deployment["spec"].get("paused") else []
        return PodPlan([*writes, *cleaned, *_status(view, None, None)])
    writes = (
        _recreate(view, revision)
        if str((view.deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate")) == "Recreate"
        else _roll(view, revision)
    )
    create = next((w for w in writes if isinstance(w, CreateWrite)), None)
    exists = view.new is not None or create is not None
    name = create.obj["metadata"]["name"] if create is not None else _name(view.new)
    writes.extend(_status(view, name if create else None, revision if exists else None))
    writes.extend(_cleanup_deployment(view))
    remaining = _seconds_left(view)
    # Timestamps are whole seconds: a sync in the second of the deadline would be too early.
    return PodPlan(
        writes, (None if remaining is None or remaining <= 0 or _complete(view, count(view)) else remaining + 1)
    )


def _name(obj: JsonObject | None) -> str:
    return "" if obj is None else str(obj["metadata"]["name"])


def _create(view: DeploymentView, revision: int) -> CreateWrite:
    size = rollout.new_replica_set_size(view.deployment, None, view.old)
    replica_set = rollout.new_replica_set(view.deployment, replicas=size, revision=revision)
    replica_set["metadata"]["ownerReferences"] = [owner_reference(view.deployment)]
    name = replica_set["metadata"]["name"]
    done = _scaled(view, name, 0, size) if size else None
    text = f'Failed to create new replica set "{name}": {{error}}'
    return CreateWrite(
        REPLICA_SETS,
        replica_set,
        success_event=done,
        failure_event=PendingEvent(view.deployment, _REFUSED, text, warning=True),
    )


def _scaled(view: DeploymentView, name: str, before: int, after: int) -> PendingEvent:
    way = "up" if after > before else "down"
    return PendingEvent(
        view.deployment, "ScalingReplicaSet", f"Scaled {way} replica set {name} from {before} to {after}"
    )


def _roll(view: DeploymentView, revision: int) -> list[Write]:
    """Scale the new replica set up within maxSurge, then the old ones down within maxUnavailable."""
    if view.new is None:
        return [_create(view, revision)]
    size = rollout.new_replica_set_size(view.deployment, view.new, view.old)
    if size != replicas_of(view.new):
        return _resize(view, {_name(view.new): size}, revision)
    return _resize(view, rollout.scale_down_old(view.deployment, view.new, view.old), revision)


def _recreate(view: DeploymentView, revision: int) -> list[Write]:
    """Scale the old replica sets to zero, and create the new pods when all old pods are gone."""
    going = {_name(s): 0 for s in view.old if replicas_of(s)}
    if going:
        return _resize(view, going, revision)
    if view.old_pods:
        return []
    if view.new is None:
        return [_create(view, revision)]
    return _resize(view, {_name(view.new): replicas_of(view.deployment)}, revision)


def _resize(view: DeploymentView, sizes: dict[str, int], revision: int, *, all_sets: bool = False) -> list[Write]:
    """Write sizes and annotations; with `all_sets`, write the annotations of every set that has replicas."""
    writes: list[Write] = []
    for item in view.sets:
        before, size = replicas_of(item), sizes.get(_name(item), replicas_of(item))
        resized = size != before or (all_sets and size > 0)
        # A changed size updates the desired and maximum counts of an old replica set.
        previous: JsonObject = item["metadata"].get("annotations") or {}
        computed = rollout.annotations_for(view.deployment, revision)
        if item is not view.new:
            annotations = {
                **previous,
                **({k: computed[k] for k in (rollout.DESIRED, rollout.MAXIMUM)} if resized else {}),
            }
        else:
            was = previous.get(rollout.REVISION)
            if was and was != computed[rollout.REVISION]:
                past = [*filter(None, previous.get(rollout.HISTORY, "").split(",")), was]
                computed[rollout.HISTORY] = ",".join(past)
            annotations = {**previous, **computed}
        spec = {**item["spec"], "replicas": size}
        if item is view.new:
            spec["minReadySeconds"] = view.deployment["spec"].get("minReadySeconds", 0)
        same = size == before and spec.get("minReadySeconds", 0) == item["spec"].get("minReadySeconds", 0)
        if same and annotations == (item["metadata"].get("annotations") or {}):
            continue
        changed = {**item, "metadata": {**item["metadata"], "annotations": annotations}, "spec": spec}
        note = _scaled(view, _name(item), before, size) if size != before else None
        writes.append(UpdateWrite(REPLICA_SETS, changed, success_event=note))
    return writes


def _cleanup_deployment(view: DeploymentView, *, always: bool = False) -> list[Write]:
    """Delete the oldest replica sets above the history limit when the deployment is complete."""
    limit = view.deployment["spec"].get("revisionHistoryLimit")
    if limit is None or limit == _NEVER or not (always or _complete(view, count(view))):
        return []
    idle = [
        s
        for s in view.old
        if not (replicas_of(s) or status_of(s, "replicas") or deleting(s))
        and s["metadata"].get("generation", 0) <= status_of(s, "observedGeneration")
    ]
    surplus = len(view.old) - limit
    idle.sort(key=lambda s: (rollout.annotation_number(s, rollout.REVISION), age_order(s)))
    return [DeleteWrite(REPLICA_SETS, s) for s in idle[: max(surplus, 0)]]


# ------------------------------------------------------------------ core: the status
def count(view: DeploymentView) -> JsonObject:
    """Return the counts of the status."""
    available = rollout.total(view.sets, "availableReplicas")
    reported = all("terminatingReplicas" in (s.get("status") or {}) for s in view.sets)
    going = {"terminatingReplicas": rollout.total(view.sets, "terminatingReplicas")} if reported else {}
    return {
        **going,
        "observedGeneration": view.deployment["metadata"].get("generation", 0),
        "replicas": rollout.total(view.sets, "replicas"),
        "updatedReplicas": status_of(view.new, "replicas") if view.new is not None else 0,
        "readyReplicas": rollout.total(view.sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(rollout.total_replicas(view.sets) - available, 0),
    }


def _complete(view: DeploymentView, counts: JsonObject) -> bool:
    replicas = replicas_of(view.deployment)
    return all(counts[k] == replicas for k in ("updatedReplicas", "replicas", "availableReplicas"))


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> JsonObject:
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _put(conditions: list[JsonObject], new: JsonObject, *, touch: bool = False) -> list[JsonObject]:
    """Return the conditions with `new`. An equal condition keeps its timestamps, unless it must be updated."""
    before = condition_in(conditions, new["type"])
    same = before is not None and all(before.get(k) == new[k] for k in ("status", "reason", "message"))
    return conditions if same and not touch else with_condition(conditions, new)


def _available(view: DeploymentView, counts: JsonObject, now: str) -> JsonObject:
    minimum = replicas_of(view.deployment) - rollout.limits(view.deployment).unavailable
    if counts["availableReplicas"] >= minimum:
        text = "Deployment has minimum availability."
        return _condition("Available", "True", "MinimumReplicasAvailable", text, now)
    text = "Deployment does not have minimum availability."
    return _condition("Available", "False", "MinimumReplicasUnavailable", text, now)


def _paused(conditions: list[JsonObject], now: str) -> list[JsonObject]:
    """Set Progressing to DeploymentPaused, unless the progress deadline was exceeded before."""
    if (condition_in(conditions, "Progressing") or {}).get("reason") == _LATE:
        return conditions
    return _put(conditions, _condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now))


def _progress(
    view: DeploymentView, counts: JsonObject, created: str | None, conditions: list[JsonObject]
) -> list[JsonObject]:
    """Return the conditions with an updated ``Progressing``."""
    now, deployment = stamp(view.now), view.deployment
    before = condition_in(conditions, "Progressing")
    if not _has_deadline(deployment):
        return conditions
    if deployment["spec"].get("paused"):
        return _paused(conditions, now)
    if before is not None and before.get("reason") == "DeploymentPaused":
        text = "Deployment is resumed"
        conditions = _put(conditions, _condition("Progressing", "Unknown", "DeploymentResumed", text, now))
    if created is not None:
        text = f'Created new replica set "{created}"'
        return _put(conditions, _condition("Progressing", "True", "NewReplicaSetCreated", text, now))
    name = _name(view.new) or deployment["metadata"]["name"]
    settled = counts["replicas"] == counts["updatedReplicas"] and (before or {}).get("reason") == _DONE
    if settled or view.new is None:
        return conditions
    if _complete(view, counts):
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return _put(conditions, _condition("Progressing", "True", _DONE, text, now), touch=True)
    if _moved(deployment, counts):
        text = f'ReplicaSet "{name}" is progressing.'
        return _put(conditions, _condition("Progressing", "True", "ReplicaSetUpdated", text, now), touch=True)
    remaining = _seconds_left(view)
    if remaining is not None and remaining <= 0:
        text = f'ReplicaSet "{name}" has timed out progressing.'
        return _put(conditions, _condition("Progressing", "False", _LATE, text, now))
    if before is None:
        text = f'Found new replica set "{name}"'
        return _put(conditions, _condition("Progressing", "True", "FoundNewReplicaSet", text, now))
    return conditions


def _has_deadline(deployment: JsonObject) -> bool:
    """Whether the deployment has a progress deadline."""
    return deployment["spec"].get("progressDeadlineSeconds") not in (None, _NEVER)


def _moved(deployment: JsonObject, counts: JsonObject) -> bool:
    """Whether the counts progressed since the last status."""

    def was(key: str) -> int:
        return status_of(deployment, key)

    return bool(
        counts["updatedReplicas"] > was("updatedReplicas")
        or counts["replicas"] - counts["updatedReplicas"] < was("replicas") - was("updatedReplicas")
        or counts["readyReplicas"] > was("readyReplicas")
        or counts["availableReplicas"] > was("availableReplicas")
    )


def _seconds_left(view: DeploymentView) -> float | None:
    """Return the seconds until the progress deadline; None without a deadline."""
    limit = view.deployment["spec"]["progressDeadlineSeconds"] if _has_deadline(view.deployment) else None
    last = condition_in(conditions_of(view.deployment), "Progressing")
    if limit is None or last is None or last.get("reason") == _DONE or view.deployment["spec"].get("paused"):
        return None
    if last.get("reason") == _LATE:
        return 0.0
    since = parse_time(last.get("lastUpdateTime") or stamp(view.now))
    return float(limit - (view.now - since).total_seconds())


def _status(view: DeploymentView, created: str | None, revision: int | None) -> list[Write]:
    """Return the write that updates the status and the revision annotation."""
    deployment = view.deployment
    counts = count(view)
    conditions = _put(conditions_of(deployment), _available(view, counts, stamp(view.now)))
    # Copy ``ReplicaFailure`` from a replica set to the deployment, first from the new one; else remove it.
    progressed = _progress(view, counts, created, conditions)
    sets = [*([view.new] if view.new is not None else []), *view.old]
    failure = next((c for s in sets if (c := condition_in(conditions_of(s), "ReplicaFailure")) is not None), None)
    if failure is None:
        conditions = [c for c in progressed if c.get("type") != "ReplicaFailure"]
    else:
        condition = _condition(
            "ReplicaFailure", failure["status"], failure.get("reason", ""), failure.get("message", ""), stamp(view.now)
        )
        conditions = _put(progressed, condition)
    status_rest = {k: v for k, v in (deployment.get("status") or {}).items() if k == "collisionCount"}
    status = {**status_rest, **without_zeros(counts), "conditions": conditions}
    if "terminatingReplicas" in counts:
        status["terminatingReplicas"] = counts["terminatingReplicas"]
    annotations = dict(deployment["metadata"].get("annotations") or {})
    if revision is not None:
        annotations[rollout.REVISION] = str(revision)
    if status == (deployment.get("status") or {}) and annotations == (deployment["metadata"].get("annotations") or {}):
        return []
    meta = {**deployment["metadata"], **({"annotations": annotations} if annotations else {})}
    return [UpdateWrite(DEPLOYMENTS, {**deployment, "metadata": meta, "status": status}, "status")]


def claim_replica_sets(
    deployment: JsonObject, sets: Sequence[JsonObject], orphans: Sequence[JsonObject]
) -> tuple[list[JsonObject], list[Write]]:
    """Return the deployment's replica sets, and the writes that adopt and release replica sets."""
    selector = deployment["spec"].get("selector") or {}
    owned: list[JsonObject] = []
    writes: list[Write] = []
    for item in sets:
        if not controlled_by(item, deployment):
            continue
        if selects(selector, item["metadata"].get("labels") or {}):
            owned.append(item)
        else:
            uid = deployment["metadata"]["uid"]
            references = [o for o in item["metadata"]["ownerReferences"] if o.get("uid") != uid]
            writes.append(_owners(item, references))
    if not deleting(deployment):
        matching = [s for s in orphans if not deleting(s) and selects(selector, s["metadata"].get("labels") or {})]
        writes.extend(_owners(s, [owner_reference(deployment)]) for s in matching)
    return owned, writes


def _owners(item: JsonObject, owners: list[JsonObject]) -> PatchWrite:
    meta = {"ownerReferences": owners or None, "resourceVersion": item["metadata"]["resourceVersion"]}
    return PatchWrite(REPLICA_SETS, item, {"metadata": meta})


def with_collision(deployment: JsonObject) -> UpdateWrite:
    """Return the status update after a name collision: a new collision count changes the hash."""
    status = deployment.get("status") or {}
    count = int(status.get("collisionCount") or 0) + 1
    return UpdateWrite(DEPLOYMENTS, with_status(deployment, {**status, "collisionCount": count}), "status")


def with_replica_failure(deployment: JsonObject, reason: str, now: datetime) -> UpdateWrite:
    """Return the status update after the server refused the new replica set."""
    condition = _condition("Progressing", "False", _REFUSED, reason, stamp(now))
    conditions = _put(conditions_of(deployment), condition) if _has_deadline(deployment) else conditions_of(deployment)
    changed = with_status(deployment, {**(deployment.get("status") or {}), "conditions": conditions})
    return UpdateWrite(DEPLOYMENTS, changed, "status")


# ------------------------------------------------------------------ shell
class DeploymentController(ObjectController):
    """``deployment``: keys of Deployments."""

    name = "deployment"
    resource = DEPLOYMENTS

    def add_event_handlers(self) -> None:
        """Watch Deployments, their replica sets, and pods that end (Recreate waits for the last)."""
        super().add_event_handlers()
        self.informers.add_event_handler(REPLICA_SETS, self._replica_set)
        self.informers.add_event_handler(PODS, self._pod)

    def _replica_set(self, change: StorageChange) -> None:
        self.add_controller(change, DEPLOYMENTS)
        if change.current is not None and not change.current["metadata"].get("ownerReferences"):
            namespace, labels = change.current["metadata"]["namespace"], change.current["metadata"].get("labels") or {}
            for item in self.informers.in_namespace(DEPLOYMENTS, namespace):
                if selects(item["spec"].get("selector") or {}, labels):
                    self.queue.add(DEPLOYMENTS.key(namespace, item["metadata"]["name"]))

    def _pod(self, change: StorageChange) -> None:
        ended = change.current is None or phase_of(change.current) in ("Succeeded", "Failed")
        owner = controller_of(change.latest) if ended else None
        if owner is None or owner.get("kind") != REPLICA_SETS.kind:
            return
        namespace = change.latest["metadata"]["namespace"]
        replica_set = self.informers.get(REPLICA_SETS.key(namespace, owner["name"]))
        above = None if replica_set is None else controller_of(replica_set)
        if above is not None:
            self.queue.add(DEPLOYMENTS.key(namespace, above["name"]))

    async def sync(self, obj: JsonObject) -> float | None:
        meta = obj["metadata"]
        owned = self.informers.dependents(meta["uid"], REPLICA_SETS.prefix)
        claimed, moves = claim_replica_sets(obj, owned, self.informers.orphans(REPLICA_SETS, meta["namespace"]))
        if moves:
            await self.write(moves)
            return 0.0
        new, old = rollout.split(obj, claimed)
        pods = (p for s in old for p in self.informers.dependents(s["metadata"]["uid"], PODS.prefix))
        running = sum(phase_of(p) not in ("Succeeded", "Failed") for p in pods)
        result = plan(DeploymentView(obj, new, old, running, self.context.now()))
        try:
            await self.write(result.writes)
        except ApiError as error:
            current = self.current(obj) if error is self.reported_error else None
            if current is not None:
                await self.write([self._with_failure(current, error)])
            raise
        return result.requeue_after

    def _with_failure(self, deployment: JsonObject, error: ApiError) -> UpdateWrite:
        """Return the status update after the server refused the new replica set."""
        if isinstance(error, AlreadyExistsError):
            return with_collision(deployment)
        return with_replica_failure(deployment, error.message, self.context.now())
