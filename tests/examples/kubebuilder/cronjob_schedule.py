"""What a CronJob has to do now. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from cronsim import CronSim

from opsdk import ObjectMeta, TerminalError
from opsdk.api.batch.v1 import Job
from tests.examples.kubebuilder.cronjob_api import GROUP, CronJob

SCHEDULED_AT = f"{GROUP}/scheduled-at"
MOST_MISSED = 100


class Plan(msgspec.Struct, kw_only=True):
    """What to do now.

    Attributes:
        delete: finished Jobs beyond the limits, and active ones that are replaced.
        create: the Job of the last time that was missed, if it may run.
        next_time: when to look again; None for a suspended CronJob.
    """

    delete: list[Job]
    create: Job | None = None
    next_time: datetime | None = None


def outcome(job: Job) -> str:
    """Return ``Complete`` or ``Failed``; empty for an active Job."""
    conditions = job.status.conditions or []
    return next((c.type for c in conditions if c.type in ("Complete", "Failed") and c.status == "True"), "")


def scheduled_at(job: Job) -> datetime | None:
    """Return the time for which the Job was made."""
    text = (job.metadata.annotations or {}).get(SCHEDULED_AT)
    return datetime.fromisoformat(text) if text else None


def last_run(cron_job: CronJob, jobs: Sequence[Job]) -> datetime | None:
    """Return the time of the newest Job. The status remembers it when the Job is gone."""
    recorded = cron_job.status.last_schedule_time if cron_job.status else None
    times = [recorded, *(scheduled_at(job) for job in jobs)]
    return max((time for time in times if time is not None), default=None)


def beyond(jobs: Sequence[Job], result: str, limit: int) -> list[Job]:
    """Return the oldest Jobs of an outcome that exceed the limit."""
    finished = sorted((job for job in jobs if outcome(job) == result), key=lambda job: job.metadata.name)
    return finished[: max(len(finished) - limit, 0)]


def run_times(cron_job: CronJob, last: datetime | None, now: datetime) -> tuple[datetime | None, datetime]:
    """Return the last time that was missed, if any, and the next one."""
    begin: datetime = last or cron_job.metadata.creation_timestamp or now
    if (deadline := cron_job.spec.starting_deadline_seconds) is not None:
        begin = max(begin, now - timedelta(seconds=deadline))
    missed = None
    for number, time in enumerate(CronSim(cron_job.spec.schedule, begin)):
        if time > now:
            return missed, time
        if number >= MOST_MISSED:
            break
        missed = time
    raise TerminalError(f"more than {MOST_MISSED} times were missed: set or decrease spec.startingDeadlineSeconds")


def job_of(cron_job: CronJob, time: datetime) -> Job:
    """Return the Job of a time. Its name follows from the time, so no time gets two."""
    template = cron_job.spec.job_template
    meta = ObjectMeta(
        name=f"{cron_job.metadata.name}-{int(time.timestamp())}",
        labels=template.metadata.labels,
        annotations=template.metadata.annotations | {SCHEDULED_AT: time.isoformat()},
    )
    return Job(metadata=meta, spec=template.spec)


def plan(cron_job: CronJob, jobs: Sequence[Job], now: datetime) -> Plan:
    """Return what to do. Raises `TerminalError` if too many times were missed."""
    spec = cron_job.spec
    old = beyond(jobs, "Complete", spec.successful_jobs_history_limit)
    old += beyond(jobs, "Failed", spec.failed_jobs_history_limit)
    if spec.suspend:
        return Plan(delete=old)
    missed, next_time = run_times(cron_job, last_run(cron_job, jobs), now)
    active = [job for job in jobs if not outcome(job)]
    if missed is None or (active and spec.concurrency_policy == "Forbid"):
        return Plan(delete=old, next_time=next_time)
    replaced = active if spec.concurrency_policy == "Replace" else []
    return Plan(delete=old + replaced, create=job_of(cron_job, missed), next_time=next_time)
