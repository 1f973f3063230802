"""Jobs: pods until enough of them have succeeded, or too many failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from envtest.controllers.loops import Kit
from envtest.controllers.mirror import Event
from envtest.controllers.objects import (
    age_order,
    condition_in,
    conditions_of,
    deleting,
    is_active,
    is_ready,
    is_true,
    parse_time,
    phase_of,
    pod_from_template,
    stamp,
    with_condition,
    with_status,
    without_zeros,
)
from envtest.controllers.pod_owner import Plan, PodOwnerController, claim
from envtest.controllers.writes import JOBS, PODS, Create, Delete, Update, Write
from opsdk.apiserver.storage.ports import Tree

INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class Tally:
    """A job's pods by what became of them; uids of finished ones that were seen before and are gone still count."""

    active: Sequence[Tree]
    succeeded: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def indexes(self) -> set[str]:
        """The completion indexes that succeeded."""
        return set(self.succeeded.values())


def index_of(pod: Tree) -> str:
    """Its completion index; empty where the job is not indexed."""
    return str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))


def tally(pods: Sequence[Tree], before: Tally) -> Tally:
    """Count pods; `before` is the count of the last look."""

    def ended(phase: str) -> dict[str, str]:
        return {p["metadata"]["uid"]: index_of(p) for p in pods if phase_of(p) == phase}

    return Tally(
        [p for p in pods if is_active(p)],
        {**before.succeeded, **ended("Succeeded")},
        {**before.failed, **ended("Failed")},
    )


# ------------------------------------------------------------------ core
def is_finished(job: Tree) -> bool:
    """Whether it is complete or has failed."""
    conditions = conditions_of(job)
    return is_true(conditions, "Complete") or is_true(conditions, "Failed")


def plan(job: Tree, counted: Tally, now: datetime) -> Plan:
    """One step of a job."""
    if deleting(job):
        return Plan([])
    if is_finished(job):
        return _expire(job, now)
    spec = job["spec"]
    verdict = _verdict(job, counted, now)
    if verdict is not None:
        writes: list[Write] = [Delete(PODS, p) for p in counted.active]
        status = _status(job, counted, now, active=[], conditions=[*verdict])
        return Plan([*writes, Update(JOBS, with_status(job, status), "status")], 0.0)
    if spec.get("suspend"):
        return _suspend(job, counted, now)
    writes = _fill(job, counted)
    status = _status(job, counted, now, active=counted.active)
    if status != (job.get("status") or {}):
        writes.append(Update(JOBS, with_status(job, status), "status"))
    return Plan(writes, _seconds_to_deadline(job, now))


def _expire(job: Tree, now: datetime) -> Plan:
    """Finished jobs go after a while, if they say so."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    ended = condition_in(conditions_of(job), "Complete") or condition_in(conditions_of(job), "Failed")
    if ttl is None or ended is None:
        return Plan([])
    left = ttl - (now - parse_time(ended["lastTransitionTime"])).total_seconds()
    return Plan([], left) if left > 0 else Plan([Delete(JOBS, job, "Foreground")])


def _seconds_to_deadline(job: Tree, now: datetime) -> float | None:
    limit, started = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
    if limit is None:
        return None
    return float(limit - (now - parse_time(started)).total_seconds()) if started else float(limit)


def _verdict(job: Tree, counted: Tally, now: datetime) -> list[Tree] | None:
    """The conditions that end a job, None where it goes on."""
    spec = job["spec"]
    left = _seconds_to_deadline(job, now)
    if len(counted.failed) > spec.get("backoffLimit", 6):
        return _ended("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit", now)
    if left is not None and left <= 0 and not spec.get("suspend"):
        return _ended("Failed", "DeadlineExceeded", "Job was active longer than specified deadline", now)
    wanted = spec.get("completions")
    reached = len(_successes(job, counted))
    done = reached >= wanted if wanted is not None else reached > 0 and not counted.active
    text = "Reached expected number of succeeded pods"
    return _ended("Complete", "CompletionsReached", text, now) if done else None


def _ended(kind: str, reason: str, message: str, now: datetime) -> list[Tree]:
    before = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    return [_condition(k, "True", reason, message, now) for k in (before, kind)]


def _condition(kind: str, status: str, reason: str, message: str, now: datetime) -> Tree:
    when = stamp(now)
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": when,
        "lastTransitionTime": when,
        "reason": reason,
        "message": message,
    }


def _successes(job: Tree, counted: Tally) -> set[str]:
    """What counts as one completion each: indexes, or pods."""
    indexed = job["spec"].get("completionMode") == "Indexed"
    return counted.indexes if indexed else set(counted.succeeded)


def _fill(job: Tree, counted: Tally) -> list[Write]:
    spec = job["spec"]
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    if completions is None:
        wanted = parallelism if not counted.succeeded else min(parallelism, len(counted.active))
    else:
        wanted = min(parallelism, completions - len(_successes(job, counted)))
    missing = wanted - len(counted.active)
    if missing < 0:
        youngest = sorted(counted.active, key=age_order, reverse=True)
        return [Delete(PODS, p) for p in youngest[:-missing]]
    if spec.get("completionMode") != "Indexed":
        return [Create(PODS, pod_from_template(spec["template"], job)) for _ in range(missing)]
    taken = counted.indexes | {index_of(p) for p in counted.active}
    free = [str(n) for n in range(completions or 0) if str(n) not in taken]
    return [Create(PODS, _indexed(job, index)) for index in free[:missing]]


def _indexed(job: Tree, index: str) -> Tree:
    pod = pod_from_template(job["spec"]["template"], job)
    meta, name = pod["metadata"], f"{job['metadata']['name']}-{index}"
    meta["generateName"] = f"{name}-"
    for key in ("labels", "annotations"):
        meta[key] = {**(meta.get(key) or {}), INDEX: index}
    pod["spec"].setdefault("hostname", name)
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
    return pod


def _suspend(job: Tree, counted: Tally, now: datetime) -> Plan:
    writes: list[Write] = [Delete(PODS, p) for p in counted.active]
    text = _condition("Suspended", "True", "JobSuspended", "Job suspended", now)
    status = _status(job, counted, now, active=[], conditions=[text])
    status.pop("startTime", None)
    if status != (job.get("status") or {}):
        writes.append(Update(JOBS, with_status(job, status), "status"))
    return Plan(writes)


def _status(
    job: Tree, counted: Tally, now: datetime, *, active: Sequence[Tree], conditions: Sequence[Tree] = ()
) -> Tree:
    before = job.get("status") or {}
    found = conditions_of(job)
    if is_true(found, "Suspended") and not job["spec"].get("suspend"):
        found = with_condition(found, _condition("Suspended", "False", "JobResumed", "Job resumed", now))
    for new in conditions:
        known = condition_in(found, new["type"])
        found = found if known is not None and known.get("status") == new["status"] else with_condition(found, new)
    made: Tree = {
        "conditions": found,
        "startTime": before.get("startTime") or stamp(now),
        **without_zeros({"active": len(active), "succeeded": len(_successes(job, counted))}),
        **without_zeros({"failed": len(counted.failed)}),
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "ready": sum(is_ready(p) for p in active),
    }
    if not found:
        del made["conditions"]
    if any(c["type"] == "Complete" for c in conditions):
        made["completionTime"] = stamp(now)
    if job["spec"].get("completionMode") == "Indexed" and counted.indexes:
        made["completedIndexes"] = intervals({int(i) for i in counted.indexes if i})
    return made


def intervals(numbers: set[int]) -> str:
    """Numbers as a short text.

    >>> intervals({0, 1, 2, 5, 7, 8})
    '0-2,5,7,8'
    """
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(numbers), -1]:
        if run and number == run[-1] + 1:
            run.append(number)
            continue
        if len(run) > 2:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts.extend(str(n) for n in run)
        run = [number]
    return ",".join(parts)


# ------------------------------------------------------------------ shell
class JobController(PodOwnerController):
    """``job``; finished jobs with a time to live go when it is over."""

    name = "job"
    resource = JOBS

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        # Pods that ended count even when somebody deletes them before the job is through.
        self._tallies: dict[str, Tally] = {}

    def wire(self) -> None:
        """Jobs that go, too."""
        super().wire()
        self.hub.on(JOBS, self._forget)

    def restored(self) -> None:
        """See `Controller`."""
        self._tallies.clear()

    def _forget(self, event: Event) -> None:
        if event.new is None:
            self._tallies.pop(event.obj["metadata"]["uid"], None)

    def plan(self, owner: Tree, pods: Sequence[Tree], loose: Sequence[Tree]) -> Plan:
        """See `PodOwnerController`."""
        uid = owner["metadata"]["uid"]
        mine, moves = claim(owner, pods, loose)
        counted = self._tallies[uid] = tally(mine, self._tallies.get(uid, Tally([])))
        if is_finished(owner) or deleting(owner):
            self._tallies.pop(uid)
        made = plan(owner, counted, self.kit.now())
        return Plan([*moves, *made.writes], made.again)
