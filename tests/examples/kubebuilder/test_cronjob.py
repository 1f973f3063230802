"""kubebuilder's CronJob tutorial as an operator of opsdk, with Jobs of the simulated cluster, in virtual time.

Upstream: github.com/kubernetes-sigs/kubebuilder/docs/book/src/cronjob-tutorial (5c400728)
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import pytest

from envtest import Environment
from opsdk import Client, MergeFrom, ObjectMeta, Operator
from opsdk.aio.clock import utc_now
from opsdk.api.batch.v1 import Job, JobSpec
from opsdk.api.core.v1 import Container, PodSpec, PodTemplateSpec
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.errors import InvalidError
from opsdk.recipes import get_condition
from opsdk.testing.running import running
from tests.examples.kubebuilder.cronjob import make_operator
from tests.examples.kubebuilder.cronjob_api import GROUP, CronJob, CronJobSpec, CronJobStatus, JobTemplate, TemplateMeta
from tests.examples.kubebuilder.cronjob_schedule import outcome, run_times, scheduled_at

pytestmark = [pytest.mark.slow, pytest.mark.k8s(controllers=["job", "kubelet", "garbage-collector"])]
MINUTE = 60.0


def cron_job(command: str = "sleep 10", name: str = "report", **spec: Any) -> CronJob:
    """Return a CronJob that runs a command every minute."""
    container = Container(name="main", image="busybox", command=command.split())
    pod = PodTemplateSpec(spec=PodSpec(restart_policy="Never", containers=[container]))
    template = JobTemplate(
        metadata=TemplateMeta(labels={"team": "blue"}, annotations={"note": "x"}),
        spec=JobSpec(template=pod, backoff_limit=0),
    )
    meta = ObjectMeta(name=name, namespace="default")
    return CronJob(metadata=meta, spec=CronJobSpec(job_template=template, **{"schedule": "* * * * *"} | spec))


def operating(env: Environment) -> AbstractAsyncContextManager[Operator]:
    """Run a new operator."""
    return running(make_operator(), env)


async def jobs_of(client: Client) -> list[Job]:
    """Return the Jobs, oldest first."""
    return sorted(await client.list(Job, namespace="default"), key=lambda job: job.metadata.name)


async def status_of(client: Client, name: str = "report") -> CronJobStatus:
    """Return the status of a CronJob."""
    status = (await client.get(CronJob, f"default/{name}")).status
    assert status is not None
    return status


async def conditions(client: Client) -> dict[str, tuple[str, str]]:
    """Return status and reason by type."""
    return {c.type: (c.status, c.reason) for c in (await status_of(client)).conditions}


async def change(client: Client, **spec: Any) -> None:
    """Set fields of the spec."""
    live = await client.get(CronJob, "default/report")
    for name, value in spec.items():
        setattr(live.spec, name, value)
    await client.patch(live, MergeFrom())


async def until_second(second: int) -> None:
    """Sleep until a second of the minute, so that the schedule's times are whole minutes away."""
    await asyncio.sleep((second - utc_now().timestamp()) % 60)


async def test_a_job_for_each_time(k8s_env: Environment, k8s_client: Client) -> None:
    """Each minute gets one Job, named after its time, with the template's metadata; the status follows."""
    async with operating(k8s_env):
        await until_second(30)
        created = await k8s_client.create(cron_job("sleep 10"))
        assert await jobs_of(k8s_client) == []
        await until_second(5)
        (job,) = await jobs_of(k8s_client)
        time = scheduled_at(job)
        assert time is not None
        assert (time.second, job.metadata.name) == (0, f"report-{int(time.timestamp())}")
        assert job.metadata.labels["team"] == "blue"
        assert job.metadata.annotations["note"] == "x"
        assert [owner.uid for owner in job.metadata.owner_references] == [created.metadata.uid]
        status = await status_of(k8s_client)
        assert [ref.uid for ref in status.active] == [job.metadata.uid]
        assert status.last_schedule_time == time
        assert await conditions(k8s_client) == {
            "Progressing": ("True", "JobsActive"),
            "Degraded": ("False", "NoJobsFailed"),
            "Available": ("True", "Running"),
        }
        await until_second(30)
        assert (await status_of(k8s_client)).active == []
        assert (await conditions(k8s_client))["Progressing"] == ("False", "NoJobsActive")
        await asyncio.sleep(2 * MINUTE)
        assert len(await jobs_of(k8s_client)) == 3


@pytest.mark.parametrize(("policy", "total", "active"), [("Allow", 4, 4), ("Forbid", 1, 1), ("Replace", 1, 1)])
async def test_the_concurrency_policy(
    k8s_env: Environment, k8s_client: Client, policy: str, total: int, active: int
) -> None:
    """While a Job runs, Allow adds one, Forbid waits for its end, and Replace deletes it for the new one."""
    async with operating(k8s_env):
        await until_second(30)
        await k8s_client.create(cron_job("sleep 600", concurrency_policy=policy))
        await until_second(10)
        (first,) = await jobs_of(k8s_client)
        await asyncio.sleep(3 * MINUTE)
        jobs = await jobs_of(k8s_client)
        assert (len(jobs), len((await status_of(k8s_client)).active)) == (total, active)
        assert (first.metadata.name in {job.metadata.name for job in jobs}) == (policy != "Replace")


async def test_a_forbidden_run_is_made_up_for(k8s_env: Environment, k8s_client: Client) -> None:
    """With Forbid, the last time that was missed runs when the Job has ended."""
    async with operating(k8s_env):
        await until_second(30)
        await k8s_client.create(cron_job("sleep 150", concurrency_policy="Forbid"))
        await until_second(10)
        await asyncio.sleep(150)
        first, second = await jobs_of(k8s_client)
        assert (outcome(first), outcome(second)) == ("Complete", "")


@pytest.mark.parametrize(("command", "kept"), [("sleep 1", 2), ("false", 1)])
async def test_the_history(k8s_env: Environment, k8s_client: Client, command: str, kept: int) -> None:
    """The newest finished Jobs stay, as many as the limit of their outcome; failures show in the conditions."""
    async with operating(k8s_env):
        await k8s_client.create(cron_job(command, successful_jobs_history_limit=2, failed_jobs_history_limit=1))
        await until_second(30)
        await asyncio.sleep(5 * MINUTE)
        jobs = await jobs_of(k8s_client)
        assert len(jobs) == kept
        assert scheduled_at(jobs[-1]) == (await status_of(k8s_client)).last_schedule_time
        expected = ("True", "Running") if command != "false" else ("False", "JobsFailed")
        assert (await conditions(k8s_client))["Available"] == expected


async def test_no_history(k8s_env: Environment, k8s_client: Client) -> None:
    """With limits of 0 no finished Job stays, and yet each time gets one Job: the status remembers the last time."""
    journal = k8s_env.journal  # it records from here on
    async with operating(k8s_env):
        await until_second(30)
        await k8s_client.create(cron_job("sleep 5", successful_jobs_history_limit=0))
        await until_second(20)
        await asyncio.sleep(2 * MINUTE)
        assert await jobs_of(k8s_client) == []
        assert len(journal.select(resource="jobs", verb="create")) == 3


async def test_suspend(k8s_env: Environment, k8s_client: Client) -> None:
    """A suspended CronJob starts nothing; afterwards it runs once for all the times that it missed."""
    async with operating(k8s_env):
        await until_second(30)
        await k8s_client.create(cron_job(suspend=True))
        await asyncio.sleep(10 * MINUTE)
        assert await jobs_of(k8s_client) == []
        assert (await conditions(k8s_client))["Available"] == ("False", "Suspended")
        await change(k8s_client, suspend=False)
        await asyncio.sleep(1)
        assert len(await jobs_of(k8s_client)) == 1
        assert (await conditions(k8s_client))["Available"] == ("True", "Running")


@pytest.mark.parametrize(("deadline", "runs"), [(None, 1), (20, 0), (40, 1)])
async def test_missed_runs(k8s_env: Environment, k8s_client: Client, deadline: int | None, runs: int) -> None:
    """After an hour without operator, the last missed time runs once, unless its starting deadline has passed."""
    async with operating(k8s_env):
        await until_second(30)
        await k8s_client.create(cron_job(starting_deadline_seconds=deadline))
    await asyncio.sleep(3600)
    async with operating(k8s_env):
        await asyncio.sleep(5)
        assert len(await jobs_of(k8s_client)) == runs
        await asyncio.sleep(MINUTE)
        assert len(await jobs_of(k8s_client)) == runs + 1


async def test_too_many_missed_runs(k8s_env: Environment, k8s_client: Client) -> None:
    """More than a hundred missed times start nothing, and a condition says what to change."""
    async with operating(k8s_env):
        await until_second(30)
        await k8s_client.create(cron_job())
    await asyncio.sleep(2 * 3600)
    async with operating(k8s_env):
        await asyncio.sleep(5)
        assert await jobs_of(k8s_client) == []
        stalled = get_condition((await status_of(k8s_client)).conditions, "Stalled")
        assert stalled is not None
        assert "startingDeadlineSeconds" in stalled.message
        await change(k8s_client, starting_deadline_seconds=60)
        await asyncio.sleep(5)
        assert len(await jobs_of(k8s_client)) == 1


async def test_admission(k8s_env: Environment, k8s_client: Client) -> None:
    """The definition sets the defaults; the webhook refuses long names and wrong schedules, also in updates."""
    async with operating(k8s_env):
        await k8s_client.create(cron_job())
        stored = (await k8s_client.get(unstructured_kind(f"{GROUP}/v1", "CronJob"), "default/report"))["spec"]
        defaults = {"suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
        assert stored.items() >= (defaults | {"concurrencyPolicy": "Allow"}).items()
        with pytest.raises(InvalidError) as caught:
            await k8s_client.create(cron_job(name="x" * 53, schedule="every day"))
        assert caught.value.details is not None
        assert [cause.field for cause in caught.value.details.causes] == ["metadata.name", "spec.schedule"]
        with pytest.raises(InvalidError, match="schedule"):
            await change(k8s_client, schedule="61 * * * *")
        with pytest.raises(InvalidError):
            await change(k8s_client, concurrency_policy="Sometimes")


async def test_the_jobs_end_with_their_owner(k8s_env: Environment, k8s_client: Client) -> None:
    """The deletion of a CronJob deletes its Jobs, running ones too."""
    async with operating(k8s_env):
        await until_second(30)
        created = await k8s_client.create(cron_job("sleep 600"))
        await asyncio.sleep(3 * MINUTE)
        assert len(await jobs_of(k8s_client)) == 3
        await k8s_client.delete(created)
        await asyncio.sleep(MINUTE)
        assert await jobs_of(k8s_client) == []


def test_the_times_of_a_schedule() -> None:
    """The last missed time is that before now, the next one after it, and neither is before the last run."""
    now = utc_now().replace(minute=30, second=30, microsecond=0)
    hour = cron_job(schedule="0 * * * *")
    past = now.replace(minute=0, second=0)
    assert run_times(hour, now - timedelta(hours=5), now) == (past, past + timedelta(hours=1))
    assert run_times(hour, past, now) == (None, past + timedelta(hours=1))
