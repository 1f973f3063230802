"""CronJobs: create a Job per schedule time and enforce the history limits.

Upstream: pkg/controller/cronjob (v1.36)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from envtest.controllers.controller import ObjectController
from envtest.controllers.job import is_finished
from envtest.controllers.objects import (
    conditions_of,
    controlled_by,
    deleting,
    is_true,
    owner_reference,
    parse_time,
    stamp,
    with_status,
)
from envtest.controllers.writes import CRON_JOBS, JOBS, CreateWrite, DeleteWrite, PendingEvent, UpdateWrite, Write
from envtest.groups.batch.cron_schedule import Schedule, ScheduleError, parse
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.errors import AlreadyExistsError
from opsdk.structured_merge.value import JsonObject

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_LATE = 0.1
"""Seconds between the scheduled time and its sync: upstream's nextScheduleTimeDelta."""
_STEP = timedelta(days=1)
"""The step of the search for changes of the UTC offset; no zone changes twice within it."""
_MANY = 101
_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
_WINDOWS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366))


@dataclass(frozen=True, slots=True)
class DueJob:
    """A job to create, and its scheduled time."""

    job: JsonObject
    scheduled_time: datetime


@dataclass(frozen=True, slots=True)
class CronPlan:
    """The writes of one sync, the seconds until the next one, and the job to create."""

    writes: Sequence[Write | PendingEvent]
    requeue_after: float | None
    due: DueJob | None


@dataclass(slots=True)
class CronJobView:
    """The state of one sync: a CronJob and its jobs; `writes` and `status` are filled."""

    owner: JsonObject
    jobs: Sequence[JsonObject]
    now: datetime
    status: JsonObject
    writes: list[Write | PendingEvent] = field(default_factory=list)

    @property
    def active(self) -> list[JsonObject]:
        """References to the active jobs."""
        return list(self.status.get("active") or ())

    def record_event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Add an Event about the CronJob."""
        self.writes.append(PendingEvent(self.owner, reason, message, warning=warning))

    def remove_active(self, uids: Collection[str | None]) -> None:
        """Remove jobs from the active list."""
        remaining = [r for r in self.active if r.get("uid") not in uids]
        self.status.pop("active", None)
        if remaining:
            self.status["active"] = remaining


# ------------------------------------------------------------------ core: times
@dataclass(frozen=True, slots=True)
class ZonedSchedule:
    """A schedule in a time zone; times are UTC."""

    schedule: Schedule
    zone: ZoneInfo

    def after(self, when: datetime) -> datetime | None:
        """Return the next scheduled time after a time.

        A local time that a change to summer time skips is left out; a time that occurs twice is returned twice.
        """
        when = when.replace(microsecond=0)
        while True:
            offset = self._offset(when)
            local_time = self.schedule.next((when + offset).replace(tzinfo=None))
            if local_time is None:
                return None
            timestamp = (local_time - offset).replace(tzinfo=UTC)
            change = self._change(when, timestamp, offset)
            if change is None:
                return timestamp
            # The offset changes first: continue from the change, which may be a scheduled time itself.
            if self.is_scheduled(change):
                return change
            when = change

    def is_scheduled(self, when: datetime) -> bool:
        """Return whether a time is a scheduled one."""
        there = (when + self._offset(when)).replace(tzinfo=None)
        return self.schedule.next(there - timedelta(seconds=1)) == there

    def _offset(self, when: datetime) -> timedelta:
        return when.astimezone(self.zone).utcoffset() or timedelta()

    def _change(self, when: datetime, until: datetime, offset: timedelta) -> datetime | None:
        """Return the first time up to `until` with another UTC offset."""
        low = when
        while low < until:
            high = min(low + _STEP, until)
            if self._offset(high) != offset:
                return self._search(low, high, offset)
            low = high
        return None

    def _search(self, low: datetime, high: datetime, offset: timedelta) -> datetime:
        while high - low > timedelta(seconds=1):
            middle = (low + (high - low) / 2).replace(microsecond=0)
            if middle <= low:
                return high
            low, high = (middle, high) if self._offset(middle) == offset else (low, middle)
        return high

    def latest(self, since: datetime, now: datetime) -> datetime | None:
        """Return the last scheduled time after `since` and not after `now`."""
        if self.schedule.period:
            passed = math.floor((now - since).total_seconds() / self.schedule.period)
            return since + timedelta(seconds=passed * self.schedule.period) if passed > 0 else None
        starts = [max(since, now - w) for w in _WINDOWS] + [since]
        for start in starts:
            last, upcoming = None, self.after(start)
            while upcoming is not None and upcoming <= now:
                last, upcoming = upcoming, self.after(upcoming)
            if last is not None or start == since:
                return last
        return None

    def many_missed(self, since: datetime, latest: datetime) -> bool:
        """Return whether more than 100 scheduled times were missed."""
        timestamp: datetime | None = since
        for _ in range(_MANY):
            timestamp = self.after(timestamp) if timestamp is not None else None
            if timestamp is None or timestamp > latest:
                return False
        return True


def schedule_of(owner: JsonObject) -> ZonedSchedule | PendingEvent:
    """Return the schedule; the message of the Event if it does not parse."""
    spec = owner["spec"]
    name, text = spec.get("timeZone"), spec.get("schedule", "")
    try:
        zone = ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        return PendingEvent(owner, "UnknownTimeZone", f'invalid timeZone: "{name}": {error}', warning=True)
    try:
        return ZonedSchedule(parse(text), zone)
    except ScheduleError as error:
        return PendingEvent(owner, "UnparseableSchedule", f'unparseable schedule: "{text}" : {error}', warning=True)


# ------------------------------------------------------------------ core
def plan(owner: JsonObject, jobs: Sequence[JsonObject], now: datetime) -> CronPlan:
    """Sync a CronJob once: update the active list, apply the history limits, find the job to create."""
    view = CronJobView(owner, sorted(jobs, key=_start_order), now, copy_tree(owner.get("status") or {}))
    # Keep references to unfinished jobs, and the time of the last success.
    uids = {r.get("uid") for r in view.active}
    gone = {r.get("uid"): r for r in view.active}
    for job in view.jobs:
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        gone.pop(uid, None)
        if is_finished(job):
            if uid in uids:
                kind = "Complete" if is_true(conditions_of(job), "Complete") else "Failed"
                view.record_event("SawCompletedJob", f"Saw completed job: {name}, condition: {kind}")
                view.remove_active({uid})
            ended = (job.get("status") or {}).get("completionTime")
            if ended and is_true(conditions_of(job), "Complete"):
                view.status["lastSuccessfulTime"] = max(view.status.get("lastSuccessfulTime") or "", ended)
        elif uid not in uids:
            text = f"Saw a job that the controller did not create or forgot: {name}"
            view.record_event("UnexpectedJob", text, warning=True)
    for reference in gone.values():
        view.record_event("MissingJob", f"Active job went missing: {reference.get('name')}")
    view.remove_active(gone.keys())
    due, again = _due(view) if not deleting(owner) else (None, None)
    if not deleting(owner):
        _clean_up_finished_jobs(view)
    if view.status != (owner.get("status") or {}):
        view.writes.append(UpdateWrite(CRON_JOBS, with_status(owner, view.status), "status"))
    return CronPlan(view.writes, again, due)


def _due(view: CronJobView) -> tuple[DueJob | None, float | None]:
    """Return the job to create, and the seconds until the scheduled time after it."""
    times = schedule_of(view.owner)
    if isinstance(times, PendingEvent):
        view.writes.append(times)
        return None, None
    if view.owner["spec"].get("suspend"):
        return None, None
    last, limit = view.status.get("lastScheduleTime"), view.owner["spec"].get("startingDeadlineSeconds")
    since = parse_time(last or view.owner["metadata"]["creationTimestamp"])
    since = since if limit is None else max(since, view.now - timedelta(seconds=limit))
    latest = times.latest(since, view.now)
    # Intervals (``@every``) count from the last scheduled time instead of now.
    upcoming = times.after(latest or since) if times.schedule.period else times.after(max(since, view.now))
    again = None if upcoming is None else (upcoming - view.now).total_seconds() + _LATE
    if latest is None or not _may_begin(view, latest):
        return None, again
    if times.many_missed(since, latest):
        view.record_event("TooManyMissedTimes", _TOO_MANY, warning=True)
    return DueJob(job_for(view.owner, latest, times.zone), latest), again


def _start_order(job: JsonObject) -> tuple[str, str]:
    started = (job.get("status") or {}).get("startTime") or job["metadata"].get("creationTimestamp", "")
    return (str(started), job["metadata"]["name"])


def _may_begin(view: CronJobView, due: datetime) -> bool:
    """Check the deadline, the last schedule time and the concurrency policy. With Replace, active jobs are deleted."""
    spec = view.owner["spec"]
    limit = spec.get("startingDeadlineSeconds")
    if limit is not None and due + timedelta(seconds=limit) < view.now:
        timestamp = due.strftime("%a, %d %b %Y %H:%M:%S +0000")
        view.record_event("MissSchedule", f"Missed scheduled time to start a job: {timestamp}", warning=True)
        return False
    name = job_name(view.owner, due)
    if stamp(due) == view.status.get("lastScheduleTime") or any(r.get("name") == name for r in view.active):
        return False
    policy = spec.get("concurrencyPolicy", "Allow")
    if policy == "Forbid" and view.active:
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        view.record_event("JobAlreadyActive", text)
        return False
    if policy == "Replace":
        running = {r.get("uid") for r in view.active}
        _drop(view, [j for j in view.jobs if j["metadata"]["uid"] in running])
    return True


def with_last_schedule_time(owner: JsonObject, job: JsonObject, due: datetime) -> UpdateWrite:
    """Return the status update after a job was created; `owner` is the CronJob after the other writes."""
    status = copy_tree(owner.get("status") or {})
    status["lastScheduleTime"] = stamp(due)
    if not is_finished(job) and all(r.get("uid") != job["metadata"]["uid"] for r in status.get("active") or ()):
        reference = {k: job["metadata"][k] for k in ("namespace", "name", "uid", "resourceVersion")}
        status["active"] = [*(status.get("active") or ()), {"kind": "Job", "apiVersion": "batch/v1", **reference}]
    return UpdateWrite(CRON_JOBS, with_status(owner, status), "status")


def _drop(view: CronJobView, jobs: Sequence[JsonObject]) -> None:
    for job in jobs:
        if not deleting(job):
            failure = PendingEvent(view.owner, "FailedDelete", "Deleted job: {error}", warning=True)
            done = PendingEvent(view.owner, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")
            view.writes.append(DeleteWrite(JOBS, job, success_event=done, failure_event=failure))
    view.remove_active({j["metadata"]["uid"] for j in jobs})


def _clean_up_finished_jobs(view: CronJobView) -> None:
    """Delete the oldest finished jobs beyond the history limits."""
    spec = view.owner["spec"]
    for kind, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        history_limit = spec.get(limit)
        if history_limit is None:
            continue
        ended = [j for j in view.jobs if is_true(conditions_of(j), kind) and not deleting(j)]
        _drop(view, ended[: max(len(ended) - history_limit, 0)])


def job_name(owner: JsonObject, due: datetime) -> str:
    """Return the name of the job for one scheduled time."""
    return f"{owner['metadata']['name']}-{int(due.timestamp()) // 60}"


def job_for(owner: JsonObject, due: datetime, zone: ZoneInfo) -> JsonObject:
    """Return the job for one scheduled time."""
    template = owner["spec"]["jobTemplate"]
    meta = template.get("metadata") or {}
    local = due.astimezone(zone).isoformat() if owner["spec"].get("timeZone") else stamp(due)
    job: JsonObject = {
        "name": job_name(owner, due),
        "namespace": owner["metadata"]["namespace"],
        "annotations": {**(meta.get("annotations") or {}), SCHEDULED: local.replace("+00:00", "Z")},
        "ownerReferences": [owner_reference(owner)],
    }
    if meta.get("labels"):
        job["labels"] = dict(meta["labels"])
    return {"kind": "Job", "apiVersion": "batch/v1", "metadata": job, "spec": copy_tree(template.get("spec") or {})}


# ------------------------------------------------------------------ shell
class CronJobController(ObjectController):
    """``cronjob``: keys of CronJobs."""

    name = "cronjob"
    resource = CRON_JOBS

    def add_event_handlers(self) -> None:
        """Watch CronJobs and their jobs."""
        super().add_event_handlers()
        self.informers.add_event_handler(JOBS, self._job)

    def _job(self, change: StorageChange) -> None:
        self.add_controller(change, CRON_JOBS)

    async def sync(self, obj: JsonObject) -> float | None:
        jobs = self.informers.dependents(obj["metadata"]["uid"], JOBS.prefix)
        result = plan(obj, [j for j in jobs if controlled_by(j, obj)], self.context.now())
        await self.write(result.writes)
        if result.due is not None:
            due = result.due
            done = PendingEvent(obj, "SuccessfulCreate", f"Created job {due.job['metadata']['name']}")
            failure = PendingEvent(obj, "FailedCreate", "Error creating job: {error}", warning=True)
            job: JsonObject | None
            try:
                job = await self.write_one(CreateWrite(JOBS, due.job, success_event=done, failure_event=failure))
            except AlreadyExistsError:
                # An earlier sync created it and failed afterwards; a job of another owner is not adopted.
                job = self.informers.get(JOBS.key(obj["metadata"]["namespace"], due.job["metadata"]["name"]))
                if job is None or not controlled_by(job, obj):
                    raise
            current = self.current(obj)
            if job is not None and current is not None:
                await self.write([with_last_schedule_time(current, job, due.scheduled_time)])
        return result.requeue_after
