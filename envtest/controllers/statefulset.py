"""StatefulSets: pods with stable names, created in order and updated in reverse order.

Upstream: pkg/controller/statefulset (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from envtest.controllers import controller_history
from envtest.controllers.objects import (
    deleting,
    owner_reference,
    phase_of,
    pod_from_template,
    replicas_of,
    seconds_until_available,
    with_status,
    without_zeros,
)
from envtest.controllers.pods.control import PlanningController, PodPlan, claim
from envtest.controllers.rollout import scaled_value
from envtest.controllers.writes import (
    CLAIMS,
    PODS,
    REVISIONS,
    STATEFUL_SETS,
    CreateWrite,
    DeleteWrite,
    PatchWrite,
    PendingEvent,
    UpdateWrite,
    Write,
)
from opsdk.apimachinery.integers import parse_int
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject

_NAME, _INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class StatefulSetView:
    """The state of one sync: the set, its pods by ordinal, its revisions, and its claims by name."""

    owner: JsonObject
    pods: Mapping[int, JsonObject]
    revisions: Sequence[JsonObject]
    claims: Mapping[str, JsonObject]
    now: datetime
    blocked: bool = False

    @property
    def update(self) -> str:
        """The revision of the current template."""
        return controller_history.revision_name(self.owner, self.revisions)

    @property
    def current(self) -> str:
        """The revision of pods that the rollout has not reached."""
        revision = str((self.owner.get("status") or {}).get("currentRevision", ""))
        return revision if any(r["metadata"]["name"] == revision for r in self.revisions) else self.update

    @property
    def start(self) -> int:
        """The first ordinal."""
        return int((self.owner["spec"].get("ordinals") or {}).get("start", 0))

    @property
    def ordinals(self) -> range:
        """The desired ordinals."""
        return range(self.start, self.start + replicas_of(self.owner))

    @property
    def ordered(self) -> bool:
        """Whether pods start and stop one after another."""
        return bool(self.owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    @property
    def is_rolling_update(self) -> bool:
        """Whether the update strategy is RollingUpdate."""
        strategy = self.owner["spec"].get("updateStrategy") or {}
        return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")

    @property
    def partition(self) -> int | None:
        """The first ordinal to update; None for the strategy OnDelete."""
        rolling = (self.owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return self.start + int(rolling.get("partition") or 0) if self.is_rolling_update else None

    @property
    def unavailable(self) -> int:
        """The number of pods that may be unavailable during an update."""
        rolling = (self.owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return max(scaled_value(rolling.get("maxUnavailable") or 1, replicas_of(self.owner), up=True), 1)

    def wait_for(self, pod: JsonObject) -> float | None:
        """Return the seconds until the pod is available (zero or less if it is); None if it is not ready."""
        return seconds_until_available(pod, int(self.owner["spec"].get("minReadySeconds") or 0), self.now)


def ordinal_of(pod: JsonObject) -> int:
    """Return the ordinal in the pod's name, or -1."""
    _, _, number = pod["metadata"]["name"].rpartition("-")
    ordinal = parse_int(number)
    return -1 if ordinal is None else ordinal


def revision_of(pod: JsonObject) -> str:
    """Return the revision label of the pod."""
    return str((pod["metadata"].get("labels") or {}).get(controller_history.HASH, ""))


def healthy(view: StatefulSetView, pod: JsonObject) -> bool:
    """Return whether the pod is available and not terminating."""
    wait = view.wait_for(pod)
    return not deleting(pod) and wait is not None and wait <= 0


_AT_ONCE = 500
"""The most pods that one sync creates. Upstream creates all, in batches that grow."""


# ------------------------------------------------------------------ core
def plan(view: StatefulSetView) -> PodPlan:
    """Return the writes of one sync of a StatefulSet."""
    if deleting(view.owner):
        return PodPlan([])
    revisions = controller_history.record_revision(view.owner, view.revisions)
    moved = _fill(view) or _shrink(view) or _roll(view)
    if view.blocked:
        moved = [w for w in moved if not isinstance(w, CreateWrite)]
    writes: list[Write | PendingEvent] = [*revisions, *retain(view), *moved]
    status = count(view)
    if status != (view.owner.get("status") or {}):
        writes.append(UpdateWrite(STATEFUL_SETS, with_status(view.owner, status), "status"))
    used = {view.update, view.current, *(revision_of(p) for p in view.pods.values())}
    writes.extend(controller_history.truncate_history(view.owner, view.revisions, used))
    waits = [w for p in view.pods.values() if (w := view.wait_for(p)) is not None and w > 0]
    return PodPlan(writes, min(waits, default=None))


def _fill(view: StatefulSetView) -> list[Write | PendingEvent]:
    """Create up to `_AT_ONCE` missing pods; an ordered set waits for each pod before the next one."""
    writes: list[Write | PendingEvent] = []
    missing = 0
    for ordinal in view.ordinals:
        pod = view.pods.get(ordinal)
        missing += pod is None
        if missing > _AT_ONCE:
            break
        if pod is None:
            # Whether an earlier pod of this name owns a claim of the new pod: the claim will be deleted with that pod.
            pod_name = f"{view.owner['metadata']['name']}-{ordinal}"
            templates = view.owner["spec"].get("volumeClaimTemplates") or ()
            claims = (view.claims.get(_claim_name(t, pod_name)) for t in templates)
            owners = (r for c in claims if c is not None for r in c["metadata"].get("ownerReferences") or ())
            if any(r.get("kind") == "Pod" and r.get("name") == pod_name for r in owners):
                return writes
            writes.extend(_new(view, ordinal))
        elif phase_of(pod) in ("Succeeded", "Failed") and not deleting(pod):
            # The event for a pod that ended.
            meta, ended = view.owner["metadata"], phase_of(pod)
            what = (
                ("RecreatingFailedPod", "failed", True)
                if ended == "Failed"
                else ("RecreatingTerminatedPod", "terminated", False)
            )
            text = (
                f"StatefulSet {meta['namespace']}/{meta['name']} is recreating {what[1]} Pod {pod['metadata']['name']}"
            )
            writes.extend([PendingEvent(view.owner, what[0], text, warning=what[2]), _remove(view.owner, pod)])
        elif healthy(view, pod):
            continue
        elif phase_of(pod) == "Pending":
            writes.extend(_missing_claims(view, pod["metadata"]["name"]))
        if view.ordered:
            return writes
    return writes


def _remove(owner: JsonObject, pod: JsonObject) -> DeleteWrite:
    where = f"Pod {pod['metadata']['name']} in StatefulSet {owner['metadata']['name']}"
    done = PendingEvent(owner, "SuccessfulDelete", f"delete {where} successful")
    return DeleteWrite(
        PODS,
        pod,
        success_event=done,
        failure_event=PendingEvent(owner, "FailedDelete", f"delete {where} failed error: {{error}}", warning=True),
    )


def _shrink(view: StatefulSetView) -> list[Write | PendingEvent]:
    """Delete surplus pods from the highest ordinal on; an ordered set one at a time, if the others are ready."""
    condemned = sorted((n for n in view.pods if n not in view.ordinals), reverse=True)
    if view.ordered:
        blocked = any(n not in view.pods or not healthy(view, view.pods[n]) for n in view.ordinals)
        if blocked or any(deleting(view.pods[n]) for n in condemned):
            return []
        well = [healthy(view, view.pods[n]) for n in condemned]
        if well and not well[0] and not all(well[1:]):
            return []  # upstream: an unhealthy pod with a lower ordinal blocks
        condemned = condemned[:1]
    return [_remove(view.owner, view.pods[n]) for n in condemned if not deleting(view.pods[n])]


def _roll(view: StatefulSetView) -> list[Write | PendingEvent]:
    """Delete pods of another revision from the highest ordinal on, within maxUnavailable; they are recreated."""
    partition = view.partition
    if partition is None:
        return []
    outdated = (view.pods[n] for n in sorted(view.pods, reverse=True) if n in view.ordinals and n >= partition)
    old = [p for p in outdated if revision_of(p) != view.update and not deleting(p)]
    if view.unavailable == 1:
        return [_remove(view.owner, p) for p in old[:1] if _all_well_above(view, ordinal_of(p))]
    away = len(view.ordinals) - _healthy_pods(view)
    return [_remove(view.owner, p) for p in old[: max(view.unavailable - away, 0)]]


def _all_well_above(view: StatefulSetView, ordinal: int) -> bool:
    return _healthy_pods(view, above=ordinal) == view.start + len(view.ordinals) - ordinal - 1


def _healthy_pods(view: StatefulSetView, *, above: int = -1) -> int:
    """Return the number of healthy pods with a desired ordinal above a number."""
    return sum(n > above and n in view.ordinals and healthy(view, pod) for n, pod in view.pods.items())


def _new(view: StatefulSetView, ordinal: int) -> list[Write | PendingEvent]:
    """Return the creation of a pod and its claims."""
    owner, spec = view.owner, view.owner["spec"]
    revision = view.update if view.partition is None or ordinal >= view.partition else view.current
    revision_object = next((r for r in view.revisions if r["metadata"]["name"] == revision), None)
    template = (
        spec["template"]
        if revision_object is None or revision == view.update
        else controller_history.template_of(revision_object)
    )
    name = f"{owner['metadata']['name']}-{ordinal}"
    pod = pod_from_template(template, owner, name=name)
    own = {_NAME: name, _INDEX: str(ordinal), controller_history.HASH: revision}
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **own}
    pod["spec"].setdefault("hostname", name)
    if spec.get("serviceName"):
        pod["spec"].setdefault("subdomain", spec["serviceName"])
    templates = spec.get("volumeClaimTemplates") or ()
    claimed = {c["metadata"]["name"]: _claim_name(c, name) for c in templates}
    volumes: list[JsonObject] = [{"name": n, "persistentVolumeClaim": {"claimName": c}} for n, c in claimed.items()]
    volumes.extend(v for v in pod["spec"].get("volumes") or () if v["name"] not in claimed)
    if volumes:
        pod["spec"]["volumes"] = volumes
    where = f"Pod {name} in StatefulSet {owner['metadata']['name']}"
    done = PendingEvent(owner, "SuccessfulCreate", f"create {where} successful")
    failure = PendingEvent(owner, "FailedCreate", f"create {where} failed error: {{error}}", warning=True)
    return [*_missing_claims(view, name), CreateWrite(PODS, pod, success_event=done, failure_event=failure)]


def _claim_name(template: JsonObject, pod: str) -> str:
    return f"{template['metadata']['name']}-{pod}"


def _missing_claims(view: StatefulSetView, pod: str) -> list[Write | PendingEvent]:
    writes: list[Write | PendingEvent] = []
    for template in view.owner["spec"].get("volumeClaimTemplates") or ():
        name = _claim_name(template, pod)
        if name not in view.claims:
            where = f"Claim {name} Pod {pod} in StatefulSet {view.owner['metadata']['name']}"
            done = PendingEvent(view.owner, "SuccessfulCreate", f"create {where} success")
            failure = PendingEvent(view.owner, "FailedCreate", f"create {where} failed error: {{error}}", warning=True)
            writes.append(
                CreateWrite(CLAIMS, _claim(view.owner, template, name), success_event=done, failure_event=failure)
            )
    return writes


def _claim(owner: JsonObject, template: JsonObject, name: str) -> JsonObject:
    labels = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
    meta: JsonObject = {**copy_tree(template["metadata"]), "name": name, "namespace": owner["metadata"]["namespace"]}
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    if _retention(owner)[0]:
        meta["ownerReferences"] = [owner_reference(owner)]
    spec: JsonObject = copy_tree(template["spec"])
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": meta, "spec": spec}


# ------------------------------------------------------------------ core: claim retention
def _retention(owner: JsonObject) -> tuple[bool, bool]:
    """Whether claims are deleted with the set (whenDeleted), and with scaled-down pods (whenScaled)."""
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenDeleted") == "Delete", policy.get("whenScaled") == "Delete"


def retain(view: StatefulSetView) -> list[Write]:
    """Return the writes that set the owner references of claims, by the retention policy."""
    templates = view.owner["spec"].get("volumeClaimTemplates") or ()
    with_set, with_pod = _retention(view.owner)
    writes: list[Write] = []
    for ordinal, pod in view.pods.items() if templates else ():
        condemned = ordinal not in view.ordinals
        owners = [pod] if condemned and with_pod else [view.owner] if with_set else []
        for template in templates:
            claim_found = view.claims.get(_claim_name(template, pod["metadata"]["name"]))
            changed = None if claim_found is None else _updated_claim_owners(claim_found, owners, view, pod)
            if changed is not None and claim_found is not None:
                meta = {
                    "ownerReferences": changed or None,
                    "resourceVersion": claim_found["metadata"]["resourceVersion"],
                }
                writes.append(PatchWrite(CLAIMS, claim_found, {"metadata": meta}))
    return writes


def _updated_claim_owners(
    claim: JsonObject, owners: Sequence[JsonObject], view: StatefulSetView, pod: JsonObject
) -> list[JsonObject] | None:
    """Return the new owner references of a claim, or None if they are right; foreign references stay."""
    before = list(claim["metadata"].get("ownerReferences") or ())
    names = {(view.owner["kind"], view.owner["metadata"]["name"]), ("Pod", pod["metadata"]["name"])}
    others = [r for r in before if (r.get("kind"), r.get("name")) not in names]
    after = [*others, *(owner_reference(w) for w in owners)]
    return None if {r.get("uid") for r in before} == {r.get("uid") for r in after} else after


def count(view: StatefulSetView) -> JsonObject:
    """Return the status."""
    before = view.owner.get("status") or {}
    pods = [p for p in view.pods.values() if phase_of(p) not in ("Succeeded", "Failed")]
    live = [p for p in pods if not deleting(p)]
    waits = [view.wait_for(p) for p in live]
    current, update = before.get("currentRevision") or view.update, view.update
    updated = sum(revision_of(p) == update for p in live)
    ready = sum(w is not None for w in waits)
    if view.is_rolling_update and updated == ready == len(pods) == replicas_of(view.owner):
        current = update
    return {
        "observedGeneration": view.owner["metadata"].get("generation", 0),
        "replicas": len(pods),
        **without_zeros(
            {
                "readyReplicas": ready,
                "currentReplicas": sum(revision_of(p) == current for p in live),
                "updatedReplicas": updated,
            }
        ),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": 0,
        "availableReplicas": sum(w is not None and w <= 0 for w in waits),
    }


# ------------------------------------------------------------------ shell
class StatefulSetController(PlanningController):
    """``statefulset``: keys of StatefulSets."""

    name = "statefulset"
    resource = STATEFUL_SETS

    def add_event_handlers(self) -> None:
        """Watch sets, pods, revisions (deleted ones are recreated) and claims that are deleted."""
        super().add_event_handlers()
        self.informers.add_event_handler(REVISIONS, self._revision)
        self.informers.add_event_handler(CLAIMS, self._claim)

    def _claim(self, change: StorageChange) -> None:
        namespace = change.latest["metadata"]["namespace"]
        for owner in self.informers.in_namespace(STATEFUL_SETS, namespace) if change.current is None else ():
            if owner["spec"].get("volumeClaimTemplates"):
                self.queue.add(STATEFUL_SETS.key(namespace, owner["metadata"]["name"]))

    def _revision(self, change: StorageChange) -> None:
        for ref in change.latest["metadata"].get("ownerReferences") or ():
            if ref.get("kind") == self.resource.kind and change.current is None:
                self.queue.add(self.resource.key(change.latest["metadata"]["namespace"], ref["name"]))

    def plan(
        self, owner: JsonObject, pods: Sequence[JsonObject], orphans: Sequence[JsonObject], failed: str
    ) -> PodPlan:
        claimed, moves = claim(owner, pods, [p for p in orphans if self._named(owner, p)])
        meta = owner["metadata"]
        revisions = self.informers.dependents(meta["uid"], REVISIONS.prefix)
        wants = bool(owner["spec"].get("volumeClaimTemplates"))
        claims = self.informers.in_namespace(CLAIMS, meta["namespace"]) if wants else ()
        there = {c["metadata"]["name"]: c for c in claims}
        view = StatefulSetView(
            owner, {ordinal_of(p): p for p in claimed}, revisions, there, self.context.now(), blocked=bool(failed)
        )
        result = plan(view)
        return PodPlan([*moves, *result.writes], result.requeue_after)

    @staticmethod
    def _named(owner: JsonObject, pod: JsonObject) -> bool:
        base, _, _ = pod["metadata"]["name"].rpartition("-")
        return bool(base == owner["metadata"]["name"]) and ordinal_of(pod) >= 0
