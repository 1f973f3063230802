"""Cron jobs: a job for each time of their schedule, and only so many finished ones kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from envtest.controllers.jobs import is_finished
from envtest.controllers.loops import Controller
from envtest.controllers.mirror import Event
from envtest.controllers.objects import (
    conditions_of,
    controlled_by,
    controller_of,
    deleting,
    is_true,
    owner_reference,
    parse_time,
    stamp,
    with_status,
)
from envtest.controllers.pod_owner import Plan
from envtest.controllers.writes import CRON_JOBS, JOBS, Create, Delete, Update, Write
from envtest.kinds.schedule import Schedule, ScheduleError, parse
from opsdk.apiserver.storage.ports import Tree
from opsdk.apiserver.tree_copy import copy_tree

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_LATE = 0.1
"""Seconds after a scheduled time at which it is looked at, as in a real cluster."""
_WINDOWS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366))


@dataclass(slots=True)
class View:
    """What a decision is made of: a cron job and its jobs. `writes` and `status` grow."""

    owner: Tree
    jobs: Sequence[Tree]
    now: datetime
    status: Tree
    writes: list[Write] = field(default_factory=list)

    @property
    def active(self) -> list[Tree]:
        """References to the jobs that are not finished."""
        return list(self.status.get("active") or ())


# ------------------------------------------------------------------ core: times
@dataclass(frozen=True, slots=True)
class Times:
    """A schedule in a time zone; times are UTC."""

    schedule: Schedule
    zone: ZoneInfo

    def after(self, when: datetime) -> datetime | None:
        """The next time. An hour that the clock shows twice counts once for each look at it."""
        local = when.astimezone(self.zone)
        for _ in range(200):
            found = self.schedule.next(local)
            if found is None:
                return None
            for fold in (0, 1):
                there = found.replace(fold=fold).astimezone(UTC)
                if there > when:
                    return there
            local = found
        return None

    def latest(self, since: datetime, now: datetime) -> datetime | None:
        """The last time after `since` that has come."""
        if self.schedule.period:
            passed = math.floor((now - since).total_seconds() / self.schedule.period)
            return since + timedelta(seconds=passed * self.schedule.period) if passed > 0 else None
        starts = [max(since, now - w) for w in _WINDOWS] + [since]
        for start in starts:
            last, found = None, self.after(start)
            while found is not None and found <= now:
                last, found = found, self.after(found)
            if last is not None or start == since:
                return last
        return None


def times_of(owner: Tree) -> Times | None:
    """Its schedule; None where there is none to be understood."""
    spec = owner["spec"]
    try:
        return Times(parse(spec.get("schedule", "")), ZoneInfo(spec.get("timeZone") or "UTC"))
    except (ScheduleError, ZoneInfoNotFoundError, ValueError):
        return None


def _earliest(view: View) -> datetime:
    """From when on times count."""
    last, limit = view.status.get("lastScheduleTime"), view.owner["spec"].get("startingDeadlineSeconds")
    since = parse_time(last or view.owner["metadata"]["creationTimestamp"])
    return since if limit is None else max(since, view.now - timedelta(seconds=limit))


# ------------------------------------------------------------------ core
def plan(owner: Tree, jobs: Sequence[Tree], now: datetime) -> Plan:
    """One step of a cron job: note what became of its jobs, begin the next, tidy up."""
    view = View(owner, sorted(jobs, key=_began), now, copy_tree(owner.get("status") or {}))
    _note(view)
    again = None
    times = times_of(owner)
    if times is not None and not deleting(owner) and not owner["spec"].get("suspend"):
        _begin(view, times)
        upcoming = times.after(max(_earliest(view), now) if not times.schedule.period else _base(view, times))
        again = None if upcoming is None else (upcoming - now).total_seconds() + _LATE
    if not deleting(owner):
        _tidy(view)
    if view.status != (owner.get("status") or {}):
        view.writes.append(Update(CRON_JOBS, with_status(owner, view.status), "status"))
    return Plan(view.writes, again)


def _base(view: View, times: Times) -> datetime:
    """Periods count from the last time, not from now."""
    since = _earliest(view)
    return times.latest(since, view.now) or since


def _began(job: Tree) -> tuple[str, str]:
    started = (job.get("status") or {}).get("startTime") or job["metadata"].get("creationTimestamp", "")
    return (str(started), job["metadata"]["name"])


def _note(view: View) -> None:
    """Active are the jobs that it began and that go on; the last success is remembered."""
    by_uid = {j["metadata"]["uid"]: j for j in view.jobs}
    _set_active(view, [r for r in view.active if (j := by_uid.get(r.get("uid"))) is not None and not is_finished(j)])
    for job in view.jobs:
        ended = (job.get("status") or {}).get("completionTime")
        if ended and is_true(conditions_of(job), "Complete"):
            view.status["lastSuccessfulTime"] = max(view.status.get("lastSuccessfulTime") or "", ended)


def _set_active(view: View, active: list[Tree]) -> None:
    view.status.pop("active", None)
    if active:
        view.status["active"] = active


def _begin(view: View, times: Times) -> None:
    """The job of the last time that has come, if it is not too late and the others allow it."""
    due = times.latest(_earliest(view), view.now)
    if due is None or stamp(due) == view.status.get("lastScheduleTime"):
        return
    limit = view.owner["spec"].get("startingDeadlineSeconds")
    if limit is not None and due + timedelta(seconds=limit) < view.now:
        return
    name = job_name(view.owner, due)
    if any(r.get("name") == name for r in view.active):
        return
    policy = view.owner["spec"].get("concurrencyPolicy", "Allow")
    if policy == "Forbid" and view.active:
        return
    if policy == "Replace":
        _drop(view, [j for j in view.jobs if not is_finished(j)])
    if all(j["metadata"]["name"] != name for j in view.jobs):
        view.writes.append(Create(JOBS, job_for(view.owner, due, times.zone)))
        # Who made it says so only when it is there: its uid is not known before.
        return
    made = next(j for j in view.jobs if j["metadata"]["name"] == name)
    view.status["lastScheduleTime"] = stamp(due)
    if not is_finished(made):
        _set_active(view, [*view.active, _reference(made)])


def _drop(view: View, jobs: Sequence[Tree]) -> None:
    gone = {j["metadata"]["uid"] for j in jobs}
    view.writes.extend(Delete(JOBS, j) for j in jobs if not deleting(j))
    _set_active(view, [r for r in view.active if r.get("uid") not in gone])


def _tidy(view: View) -> None:
    """Finished jobs beyond the limits go, those that began first."""
    spec = view.owner["spec"]
    for kind, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        kept = spec.get(limit)
        if kept is None:
            continue
        ended = [j for j in view.jobs if is_true(conditions_of(j), kind) and not deleting(j)]
        _drop(view, ended[: max(len(ended) - kept, 0)])


def job_name(owner: Tree, due: datetime) -> str:
    """The name of the job for one time: no time has two."""
    return f"{owner['metadata']['name']}-{int(due.timestamp()) // 60}"


def job_for(owner: Tree, due: datetime, zone: ZoneInfo) -> Tree:
    """The job for one time."""
    template = owner["spec"]["jobTemplate"]
    meta = template.get("metadata") or {}
    local = due.astimezone(zone).isoformat() if owner["spec"].get("timeZone") else stamp(due)
    made: Tree = {
        "name": job_name(owner, due),
        "namespace": owner["metadata"]["namespace"],
        "annotations": {**(meta.get("annotations") or {}), SCHEDULED: local.replace("+00:00", "Z")},
        "ownerReferences": [owner_reference(owner)],
    }
    if meta.get("labels"):
        made["labels"] = dict(meta["labels"])
    return {"kind": "Job", "apiVersion": "batch/v1", "metadata": made, "spec": copy_tree(template.get("spec") or {})}


def _reference(job: Tree) -> Tree:
    named = {k: job["metadata"][k] for k in ("namespace", "name", "uid", "resourceVersion")}
    return {"kind": "Job", "apiVersion": "batch/v1", **named}


# ------------------------------------------------------------------ shell
class CronJobController(Controller):
    """``cronjob``."""

    name = "cronjob"

    def wire(self) -> None:
        """Cron jobs and their jobs."""
        self.hub.on(CRON_JOBS, self.add)
        self.hub.on(JOBS, self._job)

    def _job(self, event: Event) -> None:
        for obj in (event.old, event.new):
            owner = None if obj is None else controller_of(obj)
            if obj is not None and owner is not None and owner.get("kind") == CRON_JOBS.kind:
                self.queue.add(CRON_JOBS.key(obj["metadata"]["namespace"], owner["name"]))

    async def reconcile(self, key: str) -> float | None:
        """See `Controller`."""
        owner = self.hub.get(key)
        if owner is None:
            return None
        found = self.hub.dependents(owner["metadata"]["uid"], JOBS.prefix)
        made = plan(owner, [j for j in found if controlled_by(j, owner)], self.kit.now())
        await self.write(made.writes)
        return made.again
