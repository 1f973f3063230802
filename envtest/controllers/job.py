"""Jobs: run pods until enough succeed or too many fail. Each pod is counted exactly once.

A finished pod is first added to ``uncountedTerminatedPods``, then loses its finalizer, and only then moves to the
counters. A sync that stops in between continues from the status.

Upstream: pkg/controller/job/job_controller.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from envtest.controllers import job_pods as of_pods
from envtest.controllers.controller import ControllerContext
from envtest.controllers.job_pods import FAILURES, FINALIZER, IGNORED, INDEX, format_intervals, parse_intervals
from envtest.controllers.objects import (
    condition_in,
    conditions_of,
    controller_of,
    deleting,
    is_active,
    is_ready,
    is_true,
    parse_time,
    phase_of,
    pod_from_template,
    stamp,
    status_of,
    with_status,
)
from envtest.controllers.pods.control import PodOwnerController, claim, make_pod, remove_pod
from envtest.controllers.pods.ranking import deletion_order
from envtest.controllers.writes import JOBS, PODS, PatchWrite, PendingEvent, UpdateWrite, Write
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject

_PAUSE, _LONGEST_PAUSE = 10.0, 600.0
"""Back-off in seconds before a failed pod is replaced: the first value, doubled up to the second."""
_AT_ONCE = 500
"""Maximum pods that one sync creates, deletes or counts."""
_OURS = "kubernetes.io/job-controller"


@dataclass(frozen=True, slots=True)
class JobBackoff:
    """The failures since the last success, and the time of the last failure."""

    failures: int = 0
    last: datetime | None = None

    def remaining(self, now: datetime) -> float:
        """Return the seconds until the next pod may be created."""
        if self.last is None:
            return 0.0
        return _pause(self.failures) - (now - self.last).total_seconds()

    def updated(self, succeeded: Sequence[datetime], failed: Sequence[datetime]) -> JobBackoff:
        """Return the back-off with newly finished pods."""
        start = JobBackoff() if succeeded else self
        newer = [f for f in failed if not succeeded or f > max(succeeded)]
        return JobBackoff(
            start.failures + len(newer), max([*newer, *([start.last] if start.last else [])], default=None)
        )


def _pause(failures: int) -> float:
    return min(_PAUSE * 2.0 ** min(failures - 1, 10), _LONGEST_PAUSE) if failures > 0 else 0.0


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The writes of one sync, the seconds until the next one, and the back-off to remember after the writes."""

    writes: Sequence[Write | PendingEvent]
    requeue_after: float | None
    backoff: JobBackoff


@dataclass(frozen=True, slots=True)
class FinishedPods:
    """The finished pods: `new_` ones are not counted in the status yet, the numbers are totals."""

    new_succeeded: Sequence[JsonObject]
    new_failed: Sequence[JsonObject]
    succeeded: int
    failed: int
    succeeded_indexes: frozenset[int]
    failed_indexes: frozenset[int]
    """Indexes that succeeded, and indexes that exceeded their back-off limit."""


@dataclass(slots=True)
class JobView:
    """The state of one sync. `blocked`: pods cannot be created now. The sync fills the other fields."""

    job: JsonObject
    pods: Sequence[JsonObject]
    now: datetime
    backoff: JobBackoff = field(default_factory=JobBackoff)
    blocked: bool = False
    writes: list[Write | PendingEvent] = field(default_factory=list)
    status: JsonObject = field(default_factory=dict)
    requeue_delays: list[float] = field(default_factory=list)
    created: int = 0
    deleted: list[JsonObject] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.status = copy_tree(self.job.get("status") or {})

    @property
    def spec(self) -> JsonObject:
        """The spec of the job."""
        spec: JsonObject = self.job["spec"]
        return spec

    @property
    def active(self) -> list[JsonObject]:
        """Pods that are neither finished nor terminating."""
        return [p for p in self.pods if is_active(p)]

    @property
    def terminating(self) -> int:
        """The number of terminating pods."""
        return sum(of_pods.terminating(p) for p in self.pods)

    @property
    def suspended(self) -> bool:
        """Whether the job is suspended."""
        return bool(self.spec.get("suspend"))

    def uncounted(self, key: str) -> list[str]:
        """Return the uids in ``uncountedTerminatedPods``."""
        return list((self.status.get("uncountedTerminatedPods") or {}).get(key) or ())

    def condition(self, kind: str, reason: str, message: str, *, holds: bool = True) -> JsonObject:
        """Return a condition with the current time."""
        when = stamp(self.now)
        times = {"lastProbeTime": when, "lastTransitionTime": when}
        return {"type": kind, "status": str(holds), **times, "reason": reason, "message": message}

    def set_condition(self, condition: JsonObject) -> bool:
        """Set a condition and return whether it changed; a False condition is never added."""
        conditions = list(self.status.get("conditions") or ())
        before = condition_in(conditions, condition["type"])
        if before is None and condition["status"] == "False":
            return False
        if before is not None and all(before.get(k) == condition[k] for k in ("status", "reason", "message")):
            return False
        self.status["conditions"] = [*(c for c in conditions if c is not before), condition]
        return True


# ------------------------------------------------------------------ core: counting
def is_finished(job: JsonObject) -> bool:
    """Return whether the job is complete or failed."""
    conditions = conditions_of(job)
    return is_true(conditions, "Complete") or is_true(conditions, "Failed")


def finished_pods(view: JobView) -> FinishedPods:
    """Return the finished pods of a job."""
    job, spec = view.job, view.spec
    recorded = {*view.uncounted("succeeded"), *view.uncounted("failed")}
    indexed = of_pods.is_indexed(job)
    pods = [p for p in view.pods if not indexed or of_pods.valid_index(p, job)]
    good = [
        p
        for p in pods
        if phase_of(p) == "Succeeded" and of_pods.has_tracking_finalizer(p) and p["metadata"]["uid"] not in recorded
    ]
    bad = list(of_pods.new_failures(job, pods, recorded))
    policy = spec.get("podFailurePolicy")
    counted = [p for p in bad if of_pods.verdict_on(policy, p)[0] != "Ignore"]
    failed = status_of(job, "failed") + len(counted) + len(view.uncounted("failed"))
    if not indexed:
        succeeded = status_of(job, "succeeded") + len(good) + len(view.uncounted("succeeded"))
        return FinishedPods(good, bad, succeeded, failed, frozenset(), frozenset())
    completions = int(spec.get("completions") or 0)
    indexes = parse_intervals(view.status.get("completedIndexes", ""), completions) | {
        of_pods.index_of(p) for p in good
    }
    lost = (
        parse_intervals(view.status.get("failedIndexes") or "", completions)
        if of_pods.limited_per_index(job)
        else set()
    )
    lost |= {of_pods.index_of(p) for p in bad if _fails_index(view, p)}
    return FinishedPods(good, bad, len(indexes), failed, frozenset(indexes), frozenset(lost))


def _fails_index(view: JobView, pod: JsonObject) -> bool:
    if not of_pods.limited_per_index(view.job):
        return False
    action, _ = of_pods.verdict_on(view.spec.get("podFailurePolicy"), pod)
    if action in ("FailIndex", "Ignore"):
        return action == "FailIndex"
    return of_pods.failures_of_index(pod) >= int(view.spec["backoffLimitPerIndex"])


# ------------------------------------------------------------------ core: the final condition
def verdict(view: JobView, counted: FinishedPods) -> JsonObject | None:
    """Return the condition that ends the job: ``SuccessCriteriaMet`` or ``FailureTarget``."""
    conditions = conditions_of(view.job)
    for kind in ("SuccessCriteriaMet", "FailureTarget"):
        if is_true(conditions, kind):
            return condition_in(conditions, kind)
    failure = _failure(view, counted)
    if failure is not None:
        return view.condition("FailureTarget", *failure)
    met = of_pods.success_by(
        view.spec.get("successPolicy"), counted.succeeded_indexes, int(view.spec.get("completions") or 0)
    )
    return None if met is None else view.condition("SuccessCriteriaMet", "SuccessPolicy", met)


def _failure(view: JobView, counted: FinishedPods) -> tuple[str, str] | None:
    """Return why a Job has failed, as reason and message; None if it has not."""
    spec = view.spec
    policy = spec.get("podFailurePolicy")
    for pod in view.pods if policy else ():
        _, action = of_pods.verdict_on(policy, pod) if of_pods.is_failed(pod, view.job) else ("", None)
        if action is not None:
            return "PodFailurePolicy", action
    limit = spec.get("backoffLimit", 6)
    if counted.failed > limit or _restarted_too_often(view, limit):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    deadline, started = spec.get("activeDeadlineSeconds"), view.status.get("startTime")
    suspended = view.suspended or is_true(conditions_of(view.job), "Suspended")
    if deadline is not None and started and not suspended:
        remaining = float(deadline - (view.now - parse_time(started)).total_seconds())
        if remaining <= 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        view.requeue_delays.append(remaining)
    return _failed_indexes(spec, counted) if of_pods.limited_per_index(view.job) else None


def _restarted_too_often(view: JobView, limit: int) -> bool:
    """Whether container restarts exceed the back-off limit; with OnFailure they count as failures."""
    if (view.spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(of_pods.restarts(p) for p in view.pods if phase_of(p) in ("Running", "Pending"))
    return restarts > 0 if limit == 0 else restarts >= limit


def _failed_indexes(spec: JsonObject, counted: FinishedPods) -> tuple[str, str] | None:
    most, lost = spec.get("maxFailedIndexes"), len(counted.failed_indexes)
    if most is not None and lost > most:
        return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if lost and lost + len(counted.succeeded_indexes) >= int(spec.get("completions") or 0):
        return "FailedIndexes", "Job has failed indexes"
    return None


# ------------------------------------------------------------------ core: pods
def plan(view: JobView) -> JobPlan:
    """Return the writes of one sync of a Job."""
    if is_finished(view.job) or view.spec.get("managedBy") not in (None, _OURS):
        return JobPlan([], None, JobBackoff())
    if not view.suspended:
        view.status.setdefault("startTime", stamp(view.now))
    counted = finished_pods(view)
    ended = [of_pods.finish_time(p) for p in counted.new_succeeded]
    view.backoff = view.backoff.updated(ended, [of_pods.finish_time(p) for p in counted.new_failed])
    held = (
        of_pods.delayed(view.job, view.pods, counted.succeeded_indexes | counted.failed_indexes | _indexes(view.active))
        if of_pods.limited_per_index(view.job)
        else {}
    )
    over = verdict(view, counted)
    if over is not None:
        _remove(view, view.active)
    else:
        over = _sync_pods(view, counted, held)
    finalizers = _track(view, counted, over, {p["metadata"]["uid"] for p in held.values()})
    # Existing pods, with those that this sync created and without those that it deleted.
    remaining = [p for p in view.active if p not in view.deleted]
    view.status.pop("active", None)
    if len(remaining) + view.created:
        view.status["active"] = len(remaining) + view.created
    view.status["ready"] = sum(is_ready(p) for p in remaining)
    view.status["terminating"] = view.terminating + len(view.deleted)
    if over is not None:
        _finish(view, over, done=not finalizers)
    if view.status != (view.job.get("status") or {}):
        view.writes.append(UpdateWrite(JOBS, with_status(view.job, view.status), "status"))
    view.writes.extend([*finalizers, *_finish_event(view)])
    return JobPlan(view.writes, min(view.requeue_delays, default=None), view.backoff)


def _indexes(pods: Sequence[JsonObject]) -> set[int]:
    return {of_pods.index_of(p) for p in pods}


def _sync_pods(view: JobView, counted: FinishedPods, held: Mapping[int, JsonObject]) -> JsonObject | None:
    """Create or delete pods. Returns the condition that ends the job, or None."""
    if not deleting(view.job):
        _manage(view, counted, held)
    completions = view.spec.get("completions")
    running = len(view.active) + view.created - len(view.deleted)
    if not running and (counted.succeeded > 0 if completions is None else counted.succeeded >= completions):
        text = "Reached expected number of succeeded pods"
        return view.condition("SuccessCriteriaMet", "CompletionsReached", text)
    if not deleting(view.job):
        if view.suspended:
            if view.set_condition(view.condition("Suspended", "JobSuspended", "Job suspended")):
                view.writes.append(PendingEvent(view.job, "Suspended", "Job suspended"))
        elif view.set_condition(view.condition("Suspended", "JobResumed", "Job resumed", holds=False)):
            view.writes.append(PendingEvent(view.job, "Resumed", "Job resumed"))
            view.status["startTime"] = stamp(view.now)
    return None


def _manage(view: JobView, counted: FinishedPods, held: Mapping[int, JsonObject]) -> None:
    """Create or delete pods until the number of active pods is right; one sync does only one of both."""
    parallelism, completions = int(view.spec.get("parallelism", 1)), view.spec.get("completions")
    active = view.active
    if view.suspended:
        desired = 0
    elif completions is None:
        desired = len(active) if counted.succeeded > 0 else parallelism
    else:
        desired = max(min(parallelism, int(completions) - counted.succeeded), 0)
    going = of_pods.duplicate_pods(view.job, active, deletion_order) if of_pods.is_indexed(view.job) else []
    if len(going) < len(active) - desired:
        rest = deletion_order([p for p in active if p not in going])
        going += rest[: len(active) - desired - len(going)]
    if going:
        _remove(view, going[:_AT_ONCE])
        return
    leaving = view.terminating if of_pods.only_failed_are_replaced(view.job) else 0
    missing = min(desired - leaving - len(active), _AT_ONCE)
    if missing <= 0 or view.blocked:
        return
    remaining = 0.0 if of_pods.limited_per_index(view.job) else view.backoff.remaining(view.now)
    if remaining > 0:
        view.requeue_delays.append(remaining)
    elif of_pods.is_indexed(view.job):
        _make_indexed(view, counted, held, missing)
    else:
        for _ in range(missing):
            _make(view, pod_from_template(view.spec["template"], view.job))


def _remove(view: JobView, pods: Sequence[JsonObject]) -> None:
    view.deleted.extend(pods)
    view.writes.extend(remove_pod(p, view.job) for p in pods)


def _make(view: JobView, pod: JsonObject) -> None:
    meta = pod["metadata"]
    meta["finalizers"] = [*(f for f in meta.get("finalizers") or () if f != FINALIZER), FINALIZER]
    view.created += 1
    view.writes.append(make_pod(pod, view.job))


def _make_indexed(view: JobView, counted: FinishedPods, held: Mapping[int, JsonObject], missing: int) -> None:
    """Make the missing pods of an Indexed Job, except for indexes that wait after a failure."""
    taken = counted.succeeded_indexes | counted.failed_indexes | _indexes(view.active)
    if of_pods.only_failed_are_replaced(view.job):
        taken |= _indexes([p for p in view.pods if of_pods.terminating(p)])
    waiting: list[float] = []
    for index in (n for n in range(int(view.spec.get("completions") or 0)) if n not in taken):
        if missing <= 0:
            break
        before = held.get(index)
        if before is None:
            remaining = 0.0
        else:
            passed = (view.now - of_pods.finish_time(before)).total_seconds()
            remaining = _pause(of_pods.all_failures_of_index(before) + 1) - passed
        missing -= 1
        if remaining > 0:
            waiting.append(remaining)
        else:
            job = view.job
            pod = pod_from_template(view.spec["template"], job)
            meta, name = pod["metadata"], f"{job['metadata']['name']}-{index}"
            meta["generateName"] = f"{name}-"
            for key in ("labels", "annotations"):
                meta[key] = {**(meta.get(key) or {}), INDEX: str(index)}
            if of_pods.limited_per_index(job):
                meta["annotations"].update(_failure_counts(view, before))
            pod["spec"].setdefault("hostname", name)
            source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
            for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
                variables = container.setdefault("env", [])
                if all(e.get("name") != "JOB_COMPLETION_INDEX" for e in variables):
                    variables.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
            _make(view, pod)
    view.requeue_delays.extend(waiting)


def _failure_counts(view: JobView, before: JsonObject | None) -> dict[str, str]:
    if before is None:
        return {FAILURES: "0"}
    counted = of_pods.failures_of_index(before)
    ignored = of_pods.all_failures_of_index(before) - counted
    if of_pods.verdict_on(view.spec.get("podFailurePolicy"), before)[0] == "Ignore":
        return {FAILURES: str(counted), IGNORED: str(ignored + 1)}
    return {FAILURES: str(counted + 1), **({IGNORED: str(ignored)} if ignored else {})}


# ------------------------------------------------------------------ core: the status
def _track(view: JobView, counted: FinishedPods, over: JsonObject | None, held: Collection[str]) -> list[PatchWrite]:
    """Record finished pods in the status. Returns the patches that remove the finalizers of recorded pods."""
    _count_without_finalizer(view)
    failing = over is not None and over["type"] == "FailureTarget"
    noted: dict[str, list[str]] = {key: view.uncounted(key) for key in ("succeeded", "failed")}
    patches: list[PatchWrite] = []
    for pod in view.pods:
        uid, failed = pod["metadata"]["uid"], of_pods.is_failed(pod, view.job)
        ended = phase_of(pod) == "Succeeded" or failed
        if not of_pods.has_tracking_finalizer(pod) or not (ended or over is not None) or len(patches) >= _AT_ONCE:
            continue
        if uid in held and over is None and not deleting(view.job):
            continue
        patches.append(_release(pod))
        key = _counter_of(view, pod, failed=failed or failing)
        if key is not None and uid not in (*noted["succeeded"], *noted["failed"]):
            noted[key].append(uid)
    view.status["uncountedTerminatedPods"] = {k: v for k, v in noted.items() if v}
    if of_pods.is_indexed(view.job):
        view.status.pop("completedIndexes", None)
        view.status.pop("succeeded", None)
        if counted.succeeded_indexes:
            view.status.update(
                completedIndexes=format_intervals(counted.succeeded_indexes), succeeded=len(counted.succeeded_indexes)
            )
        if of_pods.limited_per_index(view.job):
            view.status["failedIndexes"] = format_intervals(counted.failed_indexes)
    return patches


def _counter_of(view: JobView, pod: JsonObject, *, failed: bool) -> str | None:
    indexed = of_pods.is_indexed(view.job)
    if phase_of(pod) == "Succeeded":
        return None if indexed else "succeeded"
    if not failed or (indexed and not of_pods.valid_index(pod, view.job)):
        return None
    ignored = of_pods.verdict_on(view.spec.get("podFailurePolicy"), pod)[0] == "Ignore"
    return None if ignored else "failed"


def _count_without_finalizer(view: JobView) -> None:
    """Move pods without finalizer from ``uncountedTerminatedPods`` to the counters."""
    there = {p["metadata"]["uid"] for p in view.pods if of_pods.has_tracking_finalizer(p)}
    for key in ("succeeded", "failed"):
        moved = [u for u in view.uncounted(key) if u not in there]
        if moved:
            view.status[key] = int(view.status.get(key) or 0) + len(moved)
            view.status["uncountedTerminatedPods"][key] = [u for u in view.uncounted(key) if u in there]


def _release(pod: JsonObject) -> PatchWrite:
    meta = {"uid": pod["metadata"]["uid"], "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    return PatchWrite(PODS, pod, {"metadata": meta}, strategic=True)


def _finish(view: JobView, over: JsonObject, *, done: bool) -> None:
    """Set FailureTarget or SuccessCriteriaMet first, and Failed or Complete when all pods are counted."""
    if view.set_condition(over):
        return
    if not done or any(view.status["uncountedTerminatedPods"].values()) or view.status["terminating"]:
        return
    kind = "Complete" if over["type"] == "SuccessCriteriaMet" else "Failed"
    final = view.condition(kind, over["reason"], over["message"])
    view.set_condition(final)
    if kind == "Complete":
        view.status["completionTime"] = final["lastTransitionTime"]


def _finish_event(view: JobView) -> list[PendingEvent]:
    conditions = view.status.get("conditions") or ()
    if is_true(conditions, "Complete"):
        return [PendingEvent(view.job, "Completed", "Job completed")]
    condition = condition_in(conditions, "Failed")
    if condition is not None and condition["status"] == "True":
        return [PendingEvent(view.job, condition["reason"], condition["message"], warning=True)]
    return []


# ------------------------------------------------------------------ shell
class JobController(PodOwnerController):
    """``job``: keys of Jobs."""

    name = "job"
    resource = JOBS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._backoffs: dict[str, JobBackoff] = {}

    def add_event_handlers(self) -> None:
        """Watch jobs, also deleted ones, and pods whose job is gone."""
        super().add_event_handlers()
        self.informers.add_event_handler(JOBS, self._forget)
        self.informers.add_event_handler(PODS, self._left_over)

    def restored(self) -> None:
        self._backoffs.clear()

    def _forget(self, change: StorageChange) -> None:
        if change.current is not None:
            return
        self._backoffs.pop(change.latest["metadata"]["uid"], None)
        for key in self.informers.dependent_keys(change.latest["metadata"]["uid"]):
            if key.startswith(PODS.prefix):
                self.queue.add(key)

    def _left_over(self, change: StorageChange) -> None:
        pod = change.current
        if pod is not None and of_pods.has_tracking_finalizer(pod) and self._orphaned(pod):
            self.queue.add(change.key)

    def _orphaned(self, pod: JsonObject) -> bool:
        owner = controller_of(pod)
        if owner is None or owner.get("kind") != JOBS.kind:
            return owner is None
        job = self.informers.get(JOBS.key(pod["metadata"]["namespace"], owner["name"]))
        return job is None or job["metadata"]["uid"] != owner["uid"] or is_finished(job)

    async def reconcile(self, key: str) -> float | None:
        if not key.startswith(PODS.prefix):
            return await super().reconcile(key)
        pod = self.informers.get(key)
        if pod is not None and of_pods.has_tracking_finalizer(pod) and self._orphaned(pod):
            await self.write([_release(pod)])
        return None

    async def step(
        self, owner: JsonObject, pods: Sequence[JsonObject], orphans: Sequence[JsonObject], failed: str
    ) -> float | None:
        uid = owner["metadata"]["uid"]
        claimed, moves = claim(owner, pods, orphans, finalizer=FINALIZER)
        result = plan(
            JobView(owner, claimed, self.context.now(), self._backoffs.get(uid, JobBackoff()), blocked=bool(failed))
        )
        await self.write([*moves, *result.writes])
        self._backoffs[uid] = result.backoff
        if result.backoff == JobBackoff():
            del self._backoffs[uid]
        return result.requeue_after
