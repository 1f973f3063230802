"""The controller and the webhook of CronJob."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from opsdk import Context, ControllerOptions, Operator, Result
from opsdk.api.batch.v1 import Job
from opsdk.api.core.v1 import ObjectReference
from opsdk.errors import AdmissionDeniedError, Cause
from opsdk.webhook.admission import invalid_field
from opsdk.webhook.handlers import AdmissionContext
from tests.examples.kubebuilder.cronjob_api import CronJob
from tests.examples.kubebuilder.cronjob_schedule import last_run, outcome, plan

LONGEST_NAME = 52
"""Characters: a Job's name has at most 63, and 11 of them are the time."""


def validate(cron_job: CronJob, ctx: AdmissionContext) -> None:
    """Refuse a name that is too long for Jobs, and a schedule that cannot be parsed."""
    causes: list[Cause] = []
    if len(cron_job.metadata.name) > LONGEST_NAME:
        text = f"must be no more than {LONGEST_NAME} characters"
        causes.append(invalid_field("metadata.name", cron_job.metadata.name, text))
    try:
        CronSim(cron_job.spec.schedule, datetime.now(UTC))
    except CronSimError as error:
        causes.append(invalid_field("spec.schedule", cron_job.spec.schedule, str(error)))
    if causes:
        raise AdmissionDeniedError(reason="Invalid", causes=causes)


def validate_update(old: CronJob, new: CronJob, ctx: AdmissionContext) -> None:
    """Check a change as a new object."""
    validate(new, ctx)


async def report(cron_job: CronJob, jobs: Sequence[Job], ctx: Context) -> None:
    """Write the status, before Jobs that it counts are deleted."""
    active = [job for job in jobs if not outcome(job)]
    failed = [job for job in jobs if outcome(job) == "Failed"]
    async with ctx.status(cron_job) as patch:
        patch.status.last_schedule_time = last_run(cron_job, jobs)
        patch.status.active = [
            ObjectReference(
                api_version="batch/v1",
                kind="Job",
                namespace=job.metadata.namespace,
                name=job.metadata.name,
                uid=job.metadata.uid,
            )
            for job in active
        ]
        patch.set_condition("Progressing", bool(active), "JobsActive" if active else "NoJobsActive")
        patch.set_condition("Degraded", bool(failed), "JobsFailed" if failed else "NoJobsFailed")
        reason = "Suspended" if cron_job.spec.suspend else "JobsFailed" if failed else "Running"
        patch.set_condition("Available", reason == "Running", reason)


def make_operator() -> Operator:
    """Return the operator."""
    operator = Operator("cronjobs")
    operator.webhook_for(CronJob).with_validator(create=validate, update=validate_update)

    @operator.reconciler(CronJob, owns=[Job], options=ControllerOptions(error_condition="Stalled"))
    async def reconcile(cron_job: CronJob, ctx: Context) -> Result:
        meta = cron_job.metadata
        jobs = list(await ctx.client.list(Job, namespace=meta.namespace, owner_uid=meta.uid))
        await report(cron_job, jobs, ctx)
        todo = plan(cron_job, jobs, ctx.now)
        for job in todo.delete:
            await ctx.client.delete(job, propagation="Background", missing_ok=True)
        if todo.create is not None:
            await ctx.apply(todo.create)
        return Result(requeue_after=(todo.next_time - ctx.now).total_seconds()) if todo.next_time else Result()

    return operator
