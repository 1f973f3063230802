"""CronJob v2, whose schedule has a field for each part, and its conversion to and from v1."""

from __future__ import annotations

from typing import Any

from opsdk import GroupVersionKind, Model, Object, Operator
from opsdk.errors import ConversionError
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from tests.examples.kubebuilder import cronjob
from tests.examples.kubebuilder.cronjob_api import GROUP, CronJob, CronJobSpec, CronJobStatus, JobSettings


class CronSchedule(Model):
    """The parts of a schedule; a part that is missing is ``*``."""

    minute: str | None = None
    hour: str | None = None
    day_of_month: str | None = None
    month: str | None = None
    day_of_week: str | None = None


class CronJobV2Spec(JobSettings, kw_only=True):
    """The desired state."""

    schedule: CronSchedule


class CronJobV2(Object[CronJobV2Spec, CronJobStatus]):
    """Jobs at the times of a schedule."""

    gvk = GroupVersionKind(GROUP, "v2", "CronJob")


PARTS = CronSchedule.__struct_fields__


def settings_of(spec: JobSettings) -> dict[str, Any]:
    """Return what all versions have in common."""
    return {name: getattr(spec, name) for name in JobSettings.__struct_fields__}


def to_v1(new: CronJobV2) -> CronJob:
    """Join the parts of the schedule."""
    schedule = " ".join(getattr(new.spec.schedule, part) or "*" for part in PARTS)
    return CronJob(spec=CronJobSpec(schedule=schedule, **settings_of(new.spec)), status=new.status)


def from_v1(old: CronJob) -> CronJobV2:
    """Split the schedule into its parts."""
    parts = old.spec.schedule.split()
    if len(parts) != len(PARTS):
        raise ConversionError(f"{old.spec.schedule!r} has {len(parts)} fields: a schedule has {len(PARTS)}")
    schedule = CronSchedule(**{name: part for name, part in zip(PARTS, parts, strict=True) if part != "*"})
    return CronJobV2(spec=CronJobV2Spec(schedule=schedule, **settings_of(old.spec)), status=old.status)


CONVERTER = HubSpokeConverter(CronJob, Spoke(CronJobV2, to_hub=to_v1, from_hub=from_v1))


def make_operator() -> Operator:
    """Return the operator of v1, which now serves v2 too."""
    operator = cronjob.make_operator()
    operator.webhook_for(CronJob).with_converter(CONVERTER)
    return operator
