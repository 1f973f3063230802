"""Failing reconciles: their delays and limits, and how they show on the object."""

from __future__ import annotations

import asyncio
import linecache
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from boxes import Box, box, records, running
from hypothesis import given
from hypothesis import strategies as st

from opsdk import Client, Condition, Context, ControllerOptions, ObjectMeta, Operator, Request, UsageError
from opsdk.api.apps.v1 import StatefulSet, StatefulSetSpec
from opsdk.api.core.v1 import (
    ConfigMap,
    Container,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PodSpec,
    PodTemplateSpec,
    VolumeResourceRequirements,
)
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.meta import LabelSelector
from opsdk.client.client import SubResourceClient
from opsdk.client.patch import merge_patch
from opsdk.controller.retries import FailureStreaks, RetryLimit
from opsdk.errors import Cause, Details, InvalidError, ServiceUnavailableError, TemporaryError, TerminalError
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter


class Failing:
    """An operator of boxes whose reconciler raises what a test sets."""

    def __init__(self, **options: Any) -> None:
        self.operator = Operator("boxes")
        self.error: Exception | None = None
        self.times: list[float] = []
        limiter = ItemExponentialFailureRateLimiter[Any](base=1, cap=60)
        chosen = ControllerOptions(rate_limiter=limiter, **options)

        @self.operator.reconciler(Box, options=chosen)
        async def reconcile(obj: Box) -> None:
            self.times.append(asyncio.get_running_loop().time())
            if self.error is not None:
                raise self.error

    def waits(self) -> list[float]:
        """Return the seconds between the attempts."""
        return [round(b - a, 1) for a, b in zip(self.times, self.times[1:], strict=False)]


async def condition(client: Client) -> Condition | None:
    """Return the condition Stalled of box a."""
    status = (await client.get(Box, "default/a")).status
    return next((c for c in status.conditions if c.type == "Stalled"), None) if status else None


# ------------------------------------------------------------------ a delay of its own
async def test_a_temporary_error_is_retried_after_its_delay(caplog: pytest.LogCaptureFixture) -> None:
    """A temporary error counts as a failure; its delay replaces that of the rate limiter."""
    failing = Failing()
    failing.error = TemporaryError("no database", delay=timedelta(seconds=30))
    with caplog.at_level(logging.ERROR, logger="opsdk.reconcile"):
        async with running(failing.operator) as client:
            await client.create(box())
            await asyncio.sleep(100)
            failing.error = OSError("other")
            await asyncio.sleep(40)
    assert failing.waits()[:3] == [30, 30, 30]
    # Four failures have been counted: the rate limiter goes on from there.
    assert failing.waits()[4] == 16
    assert caplog.messages[0].startswith("reconcile failed, retry in 30 s: no database")
    attempts = [record.attempt for record in records(failing.operator)]
    assert attempts[:5] == [0, 1, 2, 3, 4]
    place, _, function = records(failing.operator)[0].raised_at.rpartition(" ")
    assert function == "Failing.__init__.<locals>.reconcile"
    file, _, line = place.rpartition(":")
    assert "raise self.error" in linecache.getline(file, int(line))


async def test_the_shortest_delay_of_a_group_counts() -> None:
    """Children that wait for different times are looked at when the first one may be ready."""
    failing = Failing()
    failing.error = ExceptionGroup("two", [TemporaryError("slow", delay=50), TemporaryError("fast", delay=20)])
    async with running(failing.operator) as client:
        await client.create(box())
        await asyncio.sleep(50)
    assert failing.waits() == [20, 20]


@pytest.mark.parametrize("delay", [-1, float("inf"), float("nan"), "10", None])
def test_a_delay_is_a_time(delay: Any) -> None:
    """A wrong delay is refused where the error is made."""
    with pytest.raises(UsageError, match="delay is"):
        TemporaryError("x", delay=delay)


# ------------------------------------------------------------------ what no retry can correct
def stateful_set(size: int) -> StatefulSet:
    """A StatefulSet whose volumes have the size; the server refuses to change it."""
    labels = {"app": "a"}
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="data"),
        spec=PersistentVolumeClaimSpec(
            access_modes=["ReadWriteOnce"],
            resources=VolumeResourceRequirements(requests={"storage": f"{size}Gi"}),
        ),
    )
    pod = PodSpec(containers=[Container(name="a", image="a")])
    spec = StatefulSetSpec(
        selector=LabelSelector(match_labels=labels),
        template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=pod),
        volume_claim_templates=[claim],
    )
    return StatefulSet(metadata=ObjectMeta(name="a"), spec=spec)


async def test_a_change_that_the_server_refuses_waits_for_another_one() -> None:
    """A changed immutable field is sent once; a change of the spec, or of the child, reconciles again."""
    operator, attempts = Operator("boxes"), 0

    @operator.reconciler(Box, owns=[StatefulSet], options=ControllerOptions(error_condition="Stalled"))
    async def reconcile(obj: Box, ctx: Context) -> None:
        nonlocal attempts
        attempts += 1
        await ctx.apply(stateful_set(obj.spec.size))

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(10)
        attempts = 0
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(3600)
        assert attempts == 1
        stalled = await condition(client)
        assert stalled is not None
        assert (stalled.status, stalled.reason) == ("True", "Invalid")
        await client.delete(StatefulSet, "default/a")
        await asyncio.sleep(60)
        stalled = await condition(client)
        assert stalled is not None
        assert stalled.status == "False"


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (UsageError("no name"), 1),
        (ExceptionGroup("two", [UsageError("no name"), TerminalError("bad")]), 1),
        (ExceptionGroup("two", [UsageError("no name"), OSError("no route")]), 5),
        (InvalidError("no", details=Details(causes=[Cause(field="spec.size")])), 1),
        # A JSON patch whose test fails, and a second controller: both are concurrent changes.
        (InvalidError("the test failed"), 5),
        (InvalidError("no", details=Details(causes=[Cause(field="metadata.ownerReferences")])), 5),
    ],
)
async def test_an_error_of_the_program_is_not_retried(error: Exception, attempts: int) -> None:
    """What cannot succeed without a change ends the retries; everything else is tried again."""
    failing = Failing()
    failing.error = error
    async with running(failing.operator) as client:
        await client.create(box())
        await asyncio.sleep(20)
        assert len(failing.times) == attempts
        failing.error = None
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(1)
        assert len(failing.times) == attempts + 1


# ------------------------------------------------------------------ limits
@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.integers(1, 10), st.floats(1, 500))
def test_a_request_is_given_up_at_the_first_limit(waits: list[float], attempts: int, seconds: float) -> None:
    """No attempt begins beyond either limit, and none that is within both is left out."""
    streaks = FailureStreaks(RetryLimit(attempts=attempts, time=seconds), None)
    now = 0.0
    for number, wait in enumerate(waits, start=1):
        gave_up = streaks.failed("a", finalizing=False, wait=wait, now=now)
        assert bool(gave_up) == (number >= attempts or now + wait >= seconds)
        if gave_up:
            return
        now += wait


async def test_a_limit_of_attempts() -> None:
    """The third failure is the last: an Event and a condition say so, and the object waits for a change."""
    failing = Failing(retry_limit=RetryLimit(attempts=3), error_condition="Stalled")
    failing.error = OSError("no route")
    async with running(failing.operator) as client:
        await client.create(box())
        await asyncio.sleep(600)
        assert failing.waits() == [1, 2]
        stalled = await condition(client)
        assert stalled is not None
        assert (stalled.status, stalled.reason) == ("True", "RetryLimitExceeded")
        assert stalled.message == "gave up after 3 attempts: no route"
        (event,) = [e for e in await client.list(Event, namespace="default") if e.reason == "RetryLimitExceeded"]
        assert (event.type, event.regarding and event.regarding.name) == ("Warning", "a")
        failing.error = None
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(10)
        assert len(failing.times) == 4
        stalled = await condition(client)
        assert stalled is not None
        assert stalled.status == "False"


async def test_a_limit_of_time() -> None:
    """No attempt begins ten seconds after the first failure; the count begins anew with the next change."""
    failing = Failing(retry_limit=RetryLimit(time=10))
    failing.error = OSError("no route")
    async with running(failing.operator) as client:
        await client.create(box())
        await asyncio.sleep(600)
        assert failing.waits() == [1, 2, 4]
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(600)
        assert failing.waits()[4:] == [1, 2, 4]


async def test_a_limit_of_finalizers() -> None:
    """A finalizer that fails is given up after its own limit, and the object stays until a change."""
    operator = Operator("boxes")
    calls: list[float] = []

    async def clean_up(obj: Box, ctx: Context) -> None:
        assert ctx.finalizing
        calls.append(asyncio.get_running_loop().time())
        if len(calls) <= 2:
            raise TemporaryError("in use", delay=5)

    options = ControllerOptions(
        retry_limit=RetryLimit(attempts=1), finalizer_retry_limit=RetryLimit(attempts=2), error_condition="Stalled"
    )

    @operator.reconciler(Box, finalizers={"tests.opsdk.dev/clean-up": clean_up}, options=options)
    async def reconcile(obj: Box, ctx: Context) -> None:
        assert not ctx.finalizing

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(box())
        await asyncio.sleep(300)
        assert len(calls) == 2
        stalled = await condition(client)
        assert stalled is not None
        assert stalled.message == "gave up after 2 attempts: in use"
        await client.patch(box(), merge_patch({"metadata": {"labels": {"again": "yes"}}}))
        await asyncio.sleep(1)
        assert await client.get_or_none(Box, "default/a") is None


# ------------------------------------------------------------------ the condition
async def test_an_error_shows_in_the_status() -> None:
    """The condition has class, message and generation; equal errors and good reconciles write nothing more."""
    failing = Failing(error_condition="Stalled", max_interval=5)
    failing.error = TemporaryError("no database", delay=5)
    async with running(failing.operator) as client:
        await client.create(box())
        await asyncio.sleep(21)
        first = await client.get(Box, "default/a")
        stalled = await condition(client)
        assert stalled is not None
        assert (stalled.status, stalled.reason, stalled.message) == ("True", "TemporaryError", "no database")
        assert stalled.observed_generation == 1
        assert len(failing.times) == 5
        await asyncio.sleep(60)
        assert (await client.get(Box, "default/a")).metadata.resource_version == first.metadata.resource_version
        failing.error = TerminalError("bad spec")
        await asyncio.sleep(10)
        stalled = await condition(client)
        assert stalled is not None
        assert (stalled.reason, stalled.message) == ("TerminalError", "bad spec")
        failing.error = None
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(1)
        cleared = await client.get(Box, "default/a")
        stalled = await condition(client)
        assert stalled is not None
        assert (stalled.status, stalled.reason, stalled.observed_generation) == ("False", "Succeeded", 2)
        runs = len(failing.times)
        await asyncio.sleep(60)
        assert len(failing.times) > runs + 10
        assert (await client.get(Box, "default/a")).metadata.resource_version == cleared.metadata.resource_version


async def test_an_object_that_never_fails_gets_no_condition() -> None:
    """A good reconcile sends no write."""
    failing = Failing(error_condition="Stalled")
    async with running(failing.operator) as client:
        await client.create(box())
        await asyncio.sleep(10)
        assert (await client.get(Box, "default/a")).status is None
        assert len(failing.times) == 1


async def test_conditions_of_others_stay() -> None:
    """The condition is added beside those that another writer sets in the same moment."""
    operator = Operator("boxes")
    clients: list[Client] = []

    @operator.reconciler(Box, options=ControllerOptions(error_condition="Stalled"))
    async def reconcile(obj: Box) -> None:
        other = {"type": "Other", "status": "True", "reason": "R", "lastTransitionTime": None, "message": ""}
        other["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        await clients[0].status().patch(box(), merge_patch({"status": {"conditions": [other]}}))
        raise OSError("no route")

    async with running(operator) as client:
        clients.append(client)
        await client.create(box())
        await asyncio.sleep(0.01)
        status = (await client.get(Box, "default/a")).status
        assert status is not None
        assert sorted(c.type for c in status.conditions) == ["Other", "Stalled"]


# ------------------------------------------------------------------ intervals
async def test_the_longest_interval() -> None:
    """An object is reconciled again at the latest after this time, while it exists."""
    failing = Failing(max_interval=timedelta(minutes=10))
    async with running(failing.operator) as client:
        await client.create(box())
        await asyncio.sleep(3600)
        assert all(540 <= wait <= 600 for wait in failing.waits())
        assert len(failing.times) >= 6
        await client.delete(box())
        await asyncio.sleep(1)
        runs = len(failing.times)
        await asyncio.sleep(3600)
        assert len(failing.times) == runs


# ------------------------------------------------------------------ wrong declarations
def invalid(**options: Any) -> Callable[[], object]:
    """Return a function that declares a controller with options."""

    def declare() -> None:
        operator = Operator("boxes")

        @operator.reconciler(Box, options=ControllerOptions(**options))
        async def reconcile(obj: Box) -> None: ...

    return declare


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (invalid(retry_limit=3), r"retry_limit is 3: write retry_limit=RetryLimit\(attempts=10\)"),
        (invalid(error_condition="not good"), "error_condition is 'not good': name a condition"),
        (invalid(error_condition=True), "error_condition is True: name a condition"),
        (invalid(max_interval=-1), "max_interval is -1: pass seconds"),
        (invalid(max_interval="1h"), "max_interval is '1h': pass seconds"),
        (RetryLimit, "limits nothing"),
        (lambda: RetryLimit(attempts=0), "attempts is 0"),
        (lambda: RetryLimit(attempts=1.5), "attempts is 1.5"),  # type: ignore[arg-type]
        (lambda: RetryLimit(time=0), "time is 0"),
        (lambda: RetryLimit(time="1h"), "time is '1h'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_options_are_refused(declare: Callable[[], object], message: str) -> None:
    """The error says what to write."""
    with pytest.raises(UsageError, match=message):
        declare()


def test_a_condition_needs_a_place() -> None:
    """A kind without conditions, and a controller without a kind, are refused with file and line."""
    operator = Operator("boxes")
    with pytest.raises(UsageError, match=r"test_failures.py:\d+: .*needs conditions in the status of ConfigMap"):

        @operator.reconciler(ConfigMap, options=ControllerOptions(error_condition="Stalled"))
        async def reconcile(obj: ConfigMap) -> None: ...

    with pytest.raises(UsageError, match=r"test_failures.py:\d+: error_condition needs a reconciled kind"):

        @operator.reconciler(name="kindless", options=ControllerOptions(error_condition="Stalled"))
        async def run(request: Request) -> None: ...


def test_the_permissions_follow() -> None:
    """The generated role may patch the status and write Events."""
    failing = Failing(retry_limit=RetryLimit(attempts=3), error_condition="Stalled")
    implied = {str(permission) for permission in failing.operator.implied_rules()}
    assert {"patch boxes.tests.opsdk.dev/status", "create events.events.k8s.io"} <= implied


async def test_a_report_that_fails_is_repeated() -> None:
    """While the API server refuses the condition, the given-up request is tried again; then it rests."""
    failing = Failing(retry_limit=RetryLimit(attempts=2), error_condition="Stalled")
    failing.error = OSError("no route")
    refused = 0

    async with running(failing.operator) as client:
        patch = SubResourceClient.patch

        async def refuse(self: SubResourceClient, obj: Any, *args: Any, **options: Any) -> Any:
            nonlocal refused
            if refused < 6 and b"RetryLimitExceeded" in args[0].data(obj):
                refused += 1
                raise ServiceUnavailableError("no")
            return await patch(self, obj, *args, **options)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(SubResourceClient, "patch", refuse)
            await client.create(box())
            await asyncio.sleep(600)
        stalled = await condition(client)
        assert stalled is not None
        assert stalled.reason == "RetryLimitExceeded"
        assert refused == 6
        assert len([e for e in await client.list(Event, namespace="default") if e.reason == "RetryLimitExceeded"]) == 1
        attempts = len(failing.times)
        await asyncio.sleep(3600)
        assert len(failing.times) == attempts


async def test_a_condition_of_a_given_up_object_stays_over_a_restart() -> None:
    """A new process tries again, and writes nothing while the error is the same."""
    error = OSError("no route")
    first = Failing(retry_limit=RetryLimit(attempts=3), error_condition="Stalled")
    first.error = error
    async with running(first.operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        before = (await client.get(Box, "default/a")).metadata.resource_version
        second = Failing(retry_limit=RetryLimit(attempts=3), error_condition="Stalled")
        second.error = error
        config = first.operator.cluster.config
        task = asyncio.create_task(second.operator.start(config))
        await asyncio.sleep(60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(second.times) == 3
        assert (await client.get(Box, "default/a")).metadata.resource_version == before
