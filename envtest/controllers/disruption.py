"""PodDisruptionBudgets: count healthy pods and allowed disruptions.

Upstream: pkg/controller/disruption/disruption.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from envtest.controllers.controller import SimulatedController
from envtest.controllers.objects import (
    condition_in,
    conditions_of,
    controller_of,
    deleting,
    is_ready,
    is_true,
    parse_time,
    phase_of,
    replicas_of,
    stamp,
    with_condition,
    with_status,
)
from envtest.controllers.rollout import scaled_value
from envtest.controllers.writes import BUDGETS, DEPLOYMENTS, PODS, REPLICA_SETS, PendingEvent, UpdateWrite
from envtest.groups.common.label_selectors import selects
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import NotFoundError
from opsdk.structured_merge.value import JsonObject

_PATIENCE = 120.0
"""Seconds for which an evicted pod that still exists counts as disrupted."""


class NoScaleError(Exception):
    """The expected number of pods is unknown; the text is the reason."""


@dataclass(frozen=True, slots=True)
class DisruptionBudgetView:
    """The state of one sync; `scale` has the desired replicas of the pods' owners by uid."""

    budget: JsonObject
    pods: Sequence[JsonObject]
    scale: Mapping[str, int]
    now: datetime


# ------------------------------------------------------------------ core
def covers_pod(budget: JsonObject, pod: JsonObject) -> bool:
    """Return whether the budget's selector matches the pod."""
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and selects(selector, pod["metadata"].get("labels") or {})


def needs_scale(budget: JsonObject) -> bool:
    """Return whether the budget needs the owners' scale: percentages and maxUnavailable do."""
    spec = budget.get("spec") or {}
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def expected(view: DisruptionBudgetView) -> tuple[int, int]:
    """Return the expected pods and the desired healthy pods."""
    spec = view.budget.get("spec") or {}
    whole = sum(view.scale.values()) if needs_scale(view.budget) else len(view.pods)
    if spec.get("maxUnavailable") is not None:
        return whole, max(whole - scaled_value(spec["maxUnavailable"], whole, up=True), 0)
    return whole, scaled_value(spec.get("minAvailable", 1), whole, up=True)


def disrupted(view: DisruptionBudgetView) -> tuple[JsonObject, float | None]:
    """Return the evicted pods that are still there, and the seconds until the first entry expires."""
    recorded = (view.budget.get("status") or {}).get("disruptedPods") or {}
    pods: JsonObject = {}
    waits: list[float] = []
    for pod in view.pods:
        since = recorded.get(pod["metadata"]["name"])
        if since is None or deleting(pod):
            continue
        remaining = _PATIENCE - (view.now - parse_time(since)).total_seconds()
        if remaining > 0:
            pods[pod["metadata"]["name"]] = since
            waits.append(remaining)
    return pods, min(waits, default=None)


def count(view: DisruptionBudgetView) -> tuple[JsonObject, float | None]:
    """Return the status, and the seconds until the next sync."""
    going, again = disrupted(view)
    whole, desired = expected(view)
    healthy = sum(is_ready(p) and not deleting(p) and p["metadata"]["name"] not in going for p in view.pods)
    allowed = max(healthy - desired, 0) if whole else 0
    generation = view.budget["metadata"].get("generation", 0)
    how = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    status: JsonObject = {
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": whole,
        "conditions": with_condition(conditions_of(view.budget), _condition(view.budget, *how, "", view.now)),
    }
    return {**status, "disruptedPods": going} if going else status, again


def _condition(budget: JsonObject, status: str, reason: str, message: str, now: datetime) -> JsonObject:
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "lastTransitionTime": stamp(now),
        "reason": reason,
        "message": message,
    }


def with_sync_failure(budget: JsonObject, reason: str, now: datetime) -> JsonObject:
    """Return the status of a failed sync: no disruptions are allowed."""
    conditions = conditions_of(budget)
    condition = condition_in(conditions, "DisruptionAllowed")
    new = _condition(budget, "False", "SyncFailed", reason, now)
    same = condition is not None and all(condition.get(k) == new[k] for k in ("status", "reason", "message"))
    before = budget.get("status") or {}
    counts = {k: before.get(k, 0) for k in ("currentHealthy", "desiredHealthy", "expectedPods")}
    updated = conditions if same else with_condition(conditions, new)
    return {**before, **counts, "disruptionsAllowed": 0, "conditions": updated}


def seconds_of_disruption(pod: JsonObject, now: datetime) -> float | None:
    """Return the seconds until a DisruptionTarget condition is stale; None if the pod has none."""
    condition = condition_in(conditions_of(pod), "DisruptionTarget") or {}
    if condition.get("status") != "True" or deleting(pod) or phase_of(pod) in ("Succeeded", "Failed"):
        return None
    since = parse_time(condition["lastTransitionTime"]) if condition.get("lastTransitionTime") else now
    return _PATIENCE - (now - since).total_seconds()


# ------------------------------------------------------------------ shell
class DisruptionController(SimulatedController):
    """``disruption``: keys of PodDisruptionBudgets, and of pods with a disruption target."""

    name = "disruption"
    component = "controllermanager"

    def add_event_handlers(self) -> None:
        """Watch budgets and pods."""
        self.informers.add_event_handler(BUDGETS, self.add)
        self.informers.add_event_handler(PODS, self._pod)

    def _pod(self, change: StorageChange) -> None:
        namespace = change.latest["metadata"]["namespace"]
        if change.current is not None and is_true(conditions_of(change.current), "DisruptionTarget"):
            self.queue.add(change.key)
        pods = [p for p in (change.previous, change.current) if p is not None]
        for budget in self.informers.in_namespace(BUDGETS, namespace):
            if any(covers_pod(budget, p) for p in pods):
                self.queue.add(BUDGETS.key(namespace, budget["metadata"]["name"]))

    async def reconcile(self, key: str) -> float | None:
        budget = self.informers.get(key)
        if budget is None:
            return None
        if key.startswith(PODS.prefix):
            # Reset ``DisruptionTarget`` of a pod that was not deleted in time.
            remaining = seconds_of_disruption(budget, self.context.now())
            if remaining is None or remaining > 0:
                return remaining
            condition = condition_in(conditions_of(budget), "DisruptionTarget") or {}
            over = {"type": "DisruptionTarget", "status": "False", "lastTransitionTime": stamp(self.context.now())}
            conditions = with_condition(
                conditions_of(budget), {"lastProbeTime": condition.get("lastProbeTime"), **over}
            )
            await self.write(
                [UpdateWrite(PODS, with_status(budget, {**budget["status"], "conditions": conditions}), "status")]
            )
            return None
        pods = [p for p in self.informers.in_namespace(PODS, budget["metadata"]["namespace"]) if covers_pod(budget, p)]
        now = self.context.now()
        again: float | None = None
        if not pods:
            await self.write([PendingEvent(budget, "NoPods", "No matching pods found")])
        try:
            scale = await self._scale(pods) if needs_scale(budget) else {}
        except NoScaleError as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            await self.write([PendingEvent(budget, "CalculateExpectedPodCountFailed", text, warning=True)])
            status = with_sync_failure(budget, str(error), now)
        else:
            status, again = count(DisruptionBudgetView(budget, pods, scale, now))
        if status != (budget.get("status") or {}):
            await self.context.api.write(UpdateWrite(BUDGETS, with_status(budget, status), "status"))
        return again

    async def _scale(self, pods: Sequence[JsonObject]) -> dict[str, int]:
        """Return the number of replicas that each owner expects, by uid. Pods without an owner are not counted."""
        scales: dict[str, int] = {}
        uids: set[str] = set()
        for pod in pods:
            owner = controller_of(pod)
            if owner is None or owner["uid"] in uids:
                continue
            uids.add(owner["uid"])
            uid, size = await self._size(pod, owner)
            scales[uid] = size
        return scales

    async def _size(self, pod: JsonObject, owner: JsonObject) -> tuple[str, int]:
        """Return the uid and the replicas of the scaled owner: the deployment of a replica set, or the owner."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        resource = self.informers.resource_of(owner["apiVersion"], owner["kind"])
        obj = None if resource is None else self.informers.get(resource.key(namespace, owner["name"]))
        if resource is None or obj is None or obj["metadata"]["uid"] != owner["uid"]:
            raise NoScaleError(f'found no controllers for pod "{name}"')
        above = controller_of(obj) if resource == REPLICA_SETS else None
        if above is not None and above.get("kind") == DEPLOYMENTS.kind:
            return await self._size(pod, above)
        if resource.group in ("", "apps") and "replicas" in obj["spec"]:
            return owner["uid"], replicas_of(obj)
        try:
            scale = await self.context.api.send("GET", resource.path(namespace, owner["name"], "scale"))
        except NotFoundError as error:
            kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            raise NoScaleError(f"{kind} does not implement the scale subresource") from error
        return owner["uid"], int((scale.get("spec") or {}).get("replicas") or 0)
