"""kubebuilder's multi-version tutorial as an operator of opsdk.

Upstream: github.com/kubernetes-sigs/kubebuilder/docs/book/src/multiversion-tutorial (5c400728)
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest import Environment
from opsdk import Client, MergeFrom, ObjectMeta
from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.api.batch.v1 import Job, JobSpec
from opsdk.api.core.v1 import Container, PodSpec, PodTemplateSpec
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.errors import ConversionError, InvalidError
from opsdk.testing.running import running
from opsdk.webhook.conversion import check_round_trip
from tests.examples.kubebuilder.cronjob_api import GROUP, CronJob, CronJobSpec, JobTemplate
from tests.examples.kubebuilder.multiversion import (
    CONVERTER,
    PARTS,
    CronJobV2,
    CronJobV2Spec,
    CronSchedule,
    from_v1,
    make_operator,
)

KEY = "default/report"
META = ObjectMeta(name="report", namespace="default")


def template() -> JobTemplate:
    """Return a Job that sleeps."""
    pod = PodSpec(restart_policy="Never", containers=[Container(name="main", image="busybox")])
    return JobTemplate(spec=JobSpec(template=PodTemplateSpec(spec=pod)))


@pytest.mark.slow
async def test_both_versions_are_served(k8s_env: Environment, k8s_client: Client) -> None:
    """A v2 object is stored, reconciled and read as v1, a v1 object is read as v2, and both can be changed."""
    async with running(make_operator(), k8s_env):
        crd = await k8s_client.get(CustomResourceDefinition, f"cronjobs.{GROUP}")
        assert crd.status.stored_versions == ["v1"]
        spec = CronJobV2Spec(job_template=template(), schedule=CronSchedule(minute="*/5", hour="8-17"), suspend=True)
        await k8s_client.create(CronJobV2(metadata=META, spec=spec))
        v1 = await k8s_client.get(CronJob, KEY)
        assert (v1.spec.schedule, v1.spec.suspend) == ("*/5 8-17 * * *", True)
        v1.spec.schedule, v1.spec.suspend = "* * * * *", False
        await k8s_client.patch(v1, MergeFrom())
        v2 = await k8s_client.get(CronJobV2, KEY)
        assert (v2.spec.schedule, v2.spec.suspend) == (CronSchedule(), False)
        raw = await k8s_client.get(unstructured_kind(f"{GROUP}/v2", "CronJob"), KEY)
        assert raw["spec"]["schedule"] == {}
        await asyncio.sleep(65)
        assert len(await k8s_client.list(Job, namespace="default")) == 1
        v2.spec.schedule.hour = "25"
        with pytest.raises(InvalidError, match=r"spec\.schedule"):
            await k8s_client.patch(v2, MergeFrom())


@given(parts=st.lists(st.sampled_from(["*/5", "0", "1-3", "7"]) | st.none(), min_size=5, max_size=5))
def test_no_data_is_lost(parts: list[str | None]) -> None:
    """An object of either version converts to the other one and back without a difference."""
    schedule = CronSchedule(**dict(zip(PARTS, parts, strict=True)))
    check_round_trip(
        CONVERTER, CronJobV2(metadata=META, spec=CronJobV2Spec(job_template=template(), schedule=schedule))
    )
    text = " ".join(part or "*" for part in parts)
    check_round_trip(CONVERTER, CronJob(metadata=META, spec=CronJobSpec(job_template=template(), schedule=text)))


def test_a_schedule_that_v2_cannot_express() -> None:
    """A schedule without five fields has no v2."""
    with pytest.raises(ConversionError, match="has 1 fields"):
        from_v1(CronJob(metadata=META, spec=CronJobSpec(job_template=template(), schedule="@hourly")))
