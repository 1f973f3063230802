"""The kind CronJob: its definition has the defaults and the bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from opsdk import Condition, GroupVersionKind, Model, Object
from opsdk.api.batch.v1 import JobSpec
from opsdk.api.core.v1 import ObjectReference
from opsdk.apimachinery.time import Time

GROUP = "batch.tutorial.opsdk.dev"
Limit = Annotated[int, Meta(ge=0)]


class TemplateMeta(Model):
    """What each Job gets."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class JobTemplate(Model):
    """The Job to run."""

    spec: JobSpec
    metadata: TemplateMeta = field(default_factory=TemplateMeta)


class JobSettings(Model):
    """What all versions have in common."""

    job_template: JobTemplate
    starting_deadline_seconds: Limit | None = None
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    suspend: bool = False
    successful_jobs_history_limit: Limit = 3
    failed_jobs_history_limit: Limit = 1


class CronJobSpec(JobSettings, kw_only=True):
    """The desired state."""

    schedule: str


class CronJobStatus(Model):
    """The observed state."""

    active: list[ObjectReference] = field(default_factory=list)
    last_schedule_time: Time | None = None
    conditions: list[Condition] = field(default_factory=list)


class CronJob(Object[CronJobSpec, CronJobStatus]):
    """Jobs at the times of a schedule."""

    gvk = GroupVersionKind(GROUP, "v1", "CronJob")
