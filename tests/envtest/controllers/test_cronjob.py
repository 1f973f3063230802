"""Laws of `envtest.controllers.cronjob`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envtest.controllers.cronjob import ZonedSchedule, job_name, plan, schedule_of, with_last_schedule_time
from envtest.controllers.job import is_finished
from envtest.controllers.objects import stamp
from envtest.controllers.stages import Stage, State
from envtest.controllers.writes import CRON_JOBS, JOBS, PendingEvent
from envtest.environment import Environment
from envtest.groups.batch.cron_schedule import parse
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import CORE, Kubectl, settle, template
from tests.envtest.controllers.world import World

BATCH = "/apis/batch/v1/namespaces/default"
LONG = (Stage(at=State.PENDING, to=State.READY), Stage(at=State.READY, to=State.SUCCEEDED, delay=150))


def cron_job(name: str, schedule: str = "* * * * *", **spec: Any) -> JsonObject:
    """A CronJob."""
    inner = {"schedule": schedule, "jobTemplate": {"spec": {"template": template(name, restartPolicy="Never")}}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": {**inner, **spec}}


# ------------------------------------------------------------------ times
_SCHEDULES = st.sampled_from(
    ["* * * * *", "30 1 * * *", "30 2 * * *", "*/20 * * * *", "0 */3 * * *", "15 0 * * 0", "0 3 29 3 *", "0 0 1 * 1"]
)
_ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
_CHANGES = [datetime(2024, *position, tzinfo=UTC) for position in ((3, 10, 5), (3, 30, 23), (10, 26, 23), (4, 6, 12))]


@settings(deadline=None, max_examples=40)
@given(_SCHEDULES, _ZONES, st.sampled_from(_CHANGES), st.integers(0, 86_400))
def test_next_time_is_the_first_that_the_clock_shows(text: str, zone: str, day: datetime, seconds: int) -> None:
    """The next time is the first minute that matches on the zone's clock, even if the clock is changed."""
    schedule, where = parse(text), ZoneInfo(zone)
    when = day + timedelta(seconds=seconds)
    result = ZonedSchedule(schedule, where).after(when)
    assert result is not None
    assert result > when
    first, end = when.replace(second=0, microsecond=0) + timedelta(minutes=1), min(result, when + timedelta(days=1))
    minutes = [first + timedelta(minutes=n) for n in range(max(0, ceil((end - first) / timedelta(minutes=1))))]
    readings = {minute.astimezone(where).replace(tzinfo=None, fold=0): minute for minute in minutes}
    # The times of the schedule, on a clock without changes, between the first and the last reading.
    fitting = schedule.next(min(readings) - timedelta(seconds=1)) if readings else None
    while fitting is not None and fitting <= max(readings):
        assert fitting not in readings, f"{readings[fitting]} was passed over"
        fitting = schedule.next(fitting)
    local_time = result.astimezone(where).replace(tzinfo=None, fold=0)
    assert schedule.next(local_time - timedelta(seconds=1)) == local_time


@given(_SCHEDULES, st.integers(0, 10**6), st.integers(0, 3 * 10**5))
def test_latest_is_the_last_that_has_come(text: str, start: int, passed: int) -> None:
    """No scheduled time lies between the latest one and now."""
    times = ZonedSchedule(parse(text), ZoneInfo("UTC"))
    since = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=start)
    now = since + timedelta(seconds=passed)
    result = times.latest(since, now)
    upcoming = times.after(result or since)
    assert upcoming is not None
    assert upcoming > now
    assert result is None or since < result <= now


def test_periods_count_from_the_last_time() -> None:
    """``@every 90s`` means ninety seconds after the last time."""
    times = ZonedSchedule(parse("@every 90s"), ZoneInfo("UTC"))
    since = datetime(2024, 1, 1, tzinfo=UTC)
    assert times.latest(since, since + timedelta(seconds=200)) == since + timedelta(seconds=180)
    assert times.after(since) == since + timedelta(seconds=90)


@pytest.mark.parametrize(
    ("spec", "reason"), [({"timeZone": "Mars/Base"}, "UnknownTimeZone"), ({"schedule": "x"}, "UnparseableSchedule")]
)
def test_an_invalid_schedule_or_zone_is_an_event(spec: JsonObject, reason: str) -> None:
    """An invalid schedule or time zone gives a warning event and starts no job."""
    owner = cron_job("c", **spec)
    result = schedule_of(owner)
    assert isinstance(result, PendingEvent)
    assert result.reason == reason


# ------------------------------------------------------------------ the core in a small world
class Run:
    """One cron job in a small world."""

    def __init__(self, **spec: Any) -> None:
        self.world = World()
        limits = {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1, "concurrencyPolicy": "Allow"}
        self.world.add(CRON_JOBS, cron_job("c", **{**limits, **spec}))

    @property
    def owner(self) -> JsonObject:
        return self.world.one(CRON_JOBS, "c")

    @property
    def jobs(self) -> list[JsonObject]:
        return self.world.all(JOBS)

    def step(self) -> float | None:
        """One step, as the shell does it."""
        planned = plan(self.owner, self.jobs, self.world.now)
        self.world.run(planned.writes)
        if planned.due is not None:
            self.world.add(JOBS, planned.due.job)
            job = self.world.one(JOBS, planned.due.job["metadata"]["name"])
            self.world.apply(with_last_schedule_time(self.owner, job, planned.due.scheduled_time))
        return planned.requeue_after

    def finish(self, job: JsonObject, kind: str = "Complete") -> None:
        """A job ends."""
        now = stamp(self.world.now)
        condition = {"type": kind, "status": "True", "lastTransitionTime": now}
        ended = {"completionTime": now} if kind == "Complete" else {}
        started_at = {"startTime": job["metadata"]["creationTimestamp"]}
        changed = {**job, "status": {**started_at, **ended, "conditions": [condition]}}
        self.world.objects[JOBS.key("default", job["metadata"]["name"])] = changed

    @property
    def told(self) -> list[str]:
        return [n.reason for n in self.world.notes]


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(["Allow", "Forbid", "Replace"]),
    st.lists(
        st.tuples(st.sampled_from(["step", "wait", "complete", "fail", "remove"]), st.integers(0, 5)), max_size=50
    ),
)
def test_whatever_happens(policy: str, operations: list[tuple[str, int]]) -> None:
    """Active lists exactly the unfinished jobs, policies and history limits apply, and no time has two jobs."""
    run = Run(concurrencyPolicy=policy)
    names: list[str] = []
    for name, number in operations:
        job = run.jobs[number % len(run.jobs)] if run.jobs else None
        match name:
            case "wait":
                run.world.wait(number * 25)
            case "complete" | "fail" if job and not is_finished(job):
                run.finish(job, "Complete" if name == "complete" else "Failed")
            case "remove" if job:
                run.world.delete(JOBS, job)
        before = {j["metadata"]["uid"] for j in run.jobs}
        again = run.step()
        names += [j["metadata"]["name"] for j in run.jobs if j["metadata"]["uid"] not in before]
        assert again is not None
        assert 0 < again <= 60.1
        running = [j for j in run.jobs if not is_finished(j)]
        active = [r["uid"] for r in run.owner["status"].get("active") or []] if "status" in run.owner else []
        assert sorted(active) == sorted(j["metadata"]["uid"] for j in running)
        assert policy == "Allow" or len(running) <= 1
    run.step()
    ended = [j["status"]["conditions"][0]["type"] for j in run.jobs if is_finished(j)]
    assert ended.count("Complete") <= 3
    assert ended.count("Failed") <= 1
    assert len(names) == len(set(names))


def test_forbid_postpones_a_run_while_a_job_is_active() -> None:
    """With Forbid, a run waits while a job is active, an event reports that, and the run follows."""
    run = Run(concurrencyPolicy="Forbid")
    run.world.wait(60)
    run.step()
    run.world.wait(60)
    run.step()
    assert len(run.jobs) == 1
    assert run.told == ["JobAlreadyActive"]
    run.finish(run.jobs[0])
    run.step()
    assert run.told[1] == "SawCompletedJob"
    assert len(run.jobs) == 2, "the time that passed is made up for"


def test_a_run_after_the_starting_deadline_is_missed() -> None:
    """A run that cannot start within startingDeadlineSeconds is missed."""
    run = Run(startingDeadlineSeconds=10)
    run.world.wait(75)
    run.step()
    assert run.jobs == []
    run.world.wait(46)
    run.step()
    assert len(run.jobs) == 1


def test_makes_up_for_the_last_time_only() -> None:
    """After a long pause only the last missed run starts, and too many missed runs give an event."""
    run = Run()
    run.world.wait(3 * 3600)
    run.step()
    [job] = run.jobs
    assert job["metadata"]["name"] == job_name(run.owner, run.world.now)
    assert "TooManyMissedTimes" in run.told
    assert job["metadata"]["annotations"] == {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2024-01-01T03:00:00Z"}


def test_time_zone_in_the_annotation() -> None:
    """The scheduled-timestamp annotation is written in the CronJob's time zone."""
    run = Run(schedule="0 3 * * *", timeZone="Europe/Berlin")
    run.world.wait(2 * 3600)
    run.step()
    [job] = run.jobs
    assert list(job["metadata"]["annotations"].values()) == ["2024-01-01T03:00:00+01:00"]


# ------------------------------------------------------------------ the whole plane
async def test_runs_each_minute() -> None:
    """A job each minute, named for it; active while it runs; finished ones beyond the limit go."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{BATCH}/cronjobs", cron_job("tick"))
        await settle(10 * 60)
        names = await api.names(f"{BATCH}/jobs")
        assert len(names) == 3
        assert all(n.startswith("tick-") for n in names)
        result = await api.get(f"{BATCH}/cronjobs/tick")
        assert result["status"]["lastScheduleTime"]
        assert result["status"]["lastSuccessfulTime"] >= result["status"]["lastScheduleTime"]
        assert "active" not in result["status"]
        reasons = [e["reason"] for e in await api.items(f"{CORE}/events") if e["involvedObject"]["kind"] == "CronJob"]
        assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= set(reasons)


@pytest.mark.parametrize(("policy", "running"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
async def test_the_concurrency_policy_bounds_active_jobs(policy: str, running: int) -> None:
    """Long jobs run side by side with Allow, and one at a time with Forbid and Replace."""
    async with Environment(controllers="cluster", stages=LONG) as env:
        api = Kubectl(env)
        await api.create(f"{BATCH}/cronjobs", cron_job("tick", concurrencyPolicy=policy))
        await settle(5 * 60)
        jobs = await api.items(f"{BATCH}/jobs")
        going = [j for j in jobs if not is_finished(j)]
        result = await api.get(f"{BATCH}/cronjobs/tick")
        assert len(result["status"]["active"]) == len(going)
        assert 1 <= len(going) <= running
        if policy == "Replace":
            assert all(is_finished(j) is False for j in jobs), "none of them ever came to an end"


async def test_a_suspended_cron_job_starts_no_jobs() -> None:
    """A suspended CronJob starts no jobs, a resumed one does, and deleting it deletes its jobs."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{BATCH}/cronjobs", cron_job("tick", suspend=True))
        await settle(300)
        assert await api.names(f"{BATCH}/jobs") == []
        await api.merge(f"{BATCH}/cronjobs/tick", {"spec": {"suspend": False}})
        await asyncio.sleep(1)
        assert len(await api.names(f"{BATCH}/jobs")) == 1
        await api.delete(f"{BATCH}/cronjobs/tick")
        await settle()
        assert await api.names(f"{BATCH}/jobs") == []
        assert await api.names(f"{CORE}/pods") == []
