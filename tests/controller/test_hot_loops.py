"""Hot loops: requests that reconcile themselves again and again are found, named once, and slowed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk import Client, Cluster, Context, MergeFrom, ObjectMeta, Operator, Request, Result, UsageError
from opsdk.aio.clock import monotonic
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.object import deep_copy
from opsdk.base.cause import ReconcileCause
from opsdk.client.activity import RequestSent
from opsdk.controller.options import ControllerOptions
from opsdk.controller.steps.hot_loops import HotLoopReport, HotLoops
from opsdk.event.handlers import EnqueueRequestForObject
from opsdk.event.predicates import matches_labels
from opsdk.testing.loop import HotLoopError
from opsdk.testing.running import running

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
FOREIGN = ReconcileCause("ConfigMap", "update", "default/a", "1")


def write(version: int, key: str = "default/a") -> RequestSent:
    """A write of an object."""
    return RequestSent("patch", "v1, Kind=ConfigMap", key, "", 200, 0.0, str(version))


def event(version: int, key: str = "default/a", *, own: bool = False) -> ReconcileCause:
    """The event of a write."""
    return ReconcileCause("ConfigMap", "update", key, str(version), own=own)


class Player:
    """Plays passes of one request, each of which writes and is caused by the write before it."""

    def __init__(self, limit: int = 10) -> None:
        self.loops = HotLoops(limit)
        self.version = 1
        self.now = 0.0
        self.reports: list[HotLoopReport] = []

    def act(self, cause: ReconcileCause | None = None, *, writes: bool = True) -> float:
        """One pass, caused by the last write or by `cause`. Returns the seconds that it had to wait."""
        causes = [cause or event(self.version)]
        waited = 0.0
        while "a" in self.loops.own_passes and (wait := self.loops.begins("a", causes, self.now)):
            self.now += wait
            waited += wait
        self.version += 1
        report = self.loops.ended("a", [write(self.version)] if writes else [], self.now)
        self.reports += [report] if report else []
        return waited


def test_a_loop_is_reported_once_and_waits_longer_and_longer() -> None:
    """After the limit the passes wait 1 s, 2 s, 4 s, up to a minute; the report names the write and its event."""
    player = Player()
    player.act(FOREIGN)
    waits = [player.act() for _ in range(30)]
    assert waits[:11] == [0.0] * 11
    assert waits[11:] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[60.0] * 13]
    (report,) = player.reports
    assert (report.passes, report.delay) == (11, 1.0)
    assert report.chain == ("patch v1, Kind=ConfigMap default/a: 200 -> 12, then ConfigMap update default/a at 12")
    assert "reconciled itself 11 times in 0 s without a foreign cause" in str(report)


def test_a_loop_is_described_while_it_lasts() -> None:
    """The description names the request, its passes, the write and the wait; a foreign cause ends it."""
    player = Player()
    player.act(FOREIGN)
    for _ in range(11):
        player.act()
        assert player.loops.descriptions(10) == [] or player.loops.own_passes["a"].delay
    (text,) = player.loops.descriptions(10)
    assert text.startswith("a reconciled itself 11 times: patch v1, Kind=ConfigMap default/a: 200 -> 12, then")
    assert text.endswith("each pass waits 1 s")
    assert player.loops.descriptions(0) == []
    player.act(FOREIGN)
    assert player.loops.descriptions(10) == []


@pytest.mark.parametrize(
    "cause",
    [
        FOREIGN,
        ReconcileCause("requeue_after", detail="10 s"),
        ReconcileCause("retry", detail="no"),
        event(99, "default/other"),
    ],
    ids=str,
)
def test_a_foreign_cause_ends_the_row_and_starts_at_once(cause: ReconcileCause) -> None:
    """A poll, a retry and an event of another writer are foreign; a loop after it is a new one."""
    player = Player()
    player.act(FOREIGN)
    for _ in range(15):
        player.act()
    assert player.act(cause) == 0.0
    assert [player.act() for _ in range(11)] == [0.0] * 11
    assert len(player.reports) == 2


def test_a_deletion_at_the_version_of_an_own_write_is_foreign() -> None:
    """A deletion in a gap of the watch has the version that the informer saw last."""
    player = Player()
    player.act(FOREIGN)
    for _ in range(15):
        player.act()
    assert player.act(event(player.version)._replace(event="delete")) == 0.0


def test_a_foreign_cause_beside_an_own_one_is_foreign() -> None:
    """One event of another writer among the causes is enough."""
    loops = HotLoops(1)
    loops.ended("a", [write(2)], 0.0)
    assert loops.begins("a", [event(2), FOREIGN], 0.0) == 0.0
    assert loops.own_passes == {}


def test_events_that_are_own_by_their_flag_count() -> None:
    """A write of another controller of the process is own, too."""
    loops = HotLoops(1)
    reports = []
    for number in range(10):
        loops.ended("a", [write(2 * number)], 0.0)
        if "a" in loops.own_passes and loops.own_passes["a"].delay:
            reports.append(number)
        loops.begins("a", [event(2 * number + 1, own=True)], 1e6 * number)
    assert reports


def test_lost_answers_hide_no_loop() -> None:
    """The event of a write without an answer continues the row, with its retry; a retry alone ends it."""
    loops, reports = HotLoops(10), list[HotLoopReport | None]()
    lost = RequestSent("patch", "v1, Kind=ConfigMap", "default/a", "", 0, 0.0)
    retry = ReconcileCause("retry", detail="ConnectionLostError")
    loops.ended("a", [lost], 0.0)
    for number in range(11):
        causes = [event(number)] if number % 2 else [event(number), retry]
        assert loops.begins("a", causes, 0.0) == 0.0
        reports.append(loops.ended("a", [lost if number % 2 else write(number + 1)], 0.0))
    (report,) = filter(None, reports)
    assert report.passes == 11
    loops.ended("b", [lost], 0.0)
    assert loops.begins("b", [retry], 0.0) == 0.0
    assert "b" not in loops.own_passes
    loops.ended("b", [lost], 0.0)
    assert loops.begins("b", [event(7, "default/other"), retry], 0.0) == 0.0
    assert "b" not in loops.own_passes


def test_progress_that_ends_is_no_loop() -> None:
    """Passes that write until nothing is left: the last one writes nothing, and ends the row."""
    player = Player()
    player.act(FOREIGN)
    for _ in range(9):
        player.act()
    player.act(writes=False)
    assert player.loops.own_passes == {}
    assert player.reports == []


def test_slow_progress_is_no_loop() -> None:
    """One own pass in a second may go on forever: it floods nobody."""
    player = Player()
    player.act(FOREIGN)
    for _ in range(1000):
        player.now += 1.0
        assert player.act() == 0.0
    assert player.reports == []


def test_slow_progress_saves_no_passes_for_a_loop() -> None:
    """An hour of slow own passes leaves the limit as it is: a loop after it is found as soon as any other one."""
    player = Player()
    player.act(FOREIGN)
    for _ in range(60):
        player.now += 60.0
        assert player.act() == 0.0
    waits = [player.act() for _ in range(12)]
    assert waits == [0.0] * 11 + [1.0]


def test_no_memory_grows_with_the_names_of_requests() -> None:
    """A row is kept for three minutes after its last pass, and at most 10,000 of them."""
    loops = HotLoops(10)
    for number in range(20_000):
        loops.ended(number, [write(number)], 0.0)
    assert len(loops.own_passes) == 10_000
    loops.ended("new", [write(1)], 181.0)
    assert list(loops.own_passes) == ["new"]


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 5)), max_size=200))
def test_only_rows_of_own_passes_that_write_are_slowed(steps: list[tuple[bool, bool, float]]) -> None:
    """Passes are delayed only after many own passes in a row that write, never after a foreign one."""
    player, row = Player(limit=10), 0
    for is_foreign, writes, pause in steps:
        player.now += pause
        waited = player.act(FOREIGN if is_foreign else None, writes=writes)
        row = 0 if is_foreign or not row else row
        assert waited == 0.0 or row > 10
        row = row + 1 if writes else 0


# -------------------------------------------------------------- a running operator
@asynccontextmanager
async def at_work(reconcile: Any, *, limit: int = 100) -> AsyncIterator[tuple[Client, Operator]]:
    """Run an operator of ConfigMaps, and create one."""
    operator = Operator("spinner")
    options = ControllerOptions(hot_loop_limit=limit)
    operator.reconciler(ConfigMap, owns=[Secret], options=options, predicates=[matches_labels("test")])(reconcile)
    async with environment.Environment() as env, Cluster(env.config) as outside, running(operator, env, hot_loops=True):
        await outside.uncached.create(
            ConfigMap(metadata=ObjectMeta(name="a", namespace="default", labels={"test": ""}))
        )
        yield outside.uncached, operator


async def hot_loops(operator: Operator) -> float:
    """The metric."""
    lines = operator.manager.metrics.expose().decode().splitlines()
    return next(float(x.split()[-1]) for x in lines if x.startswith("opsdk_controller_hot_loops_total{"))


async def update_without_end(config_map: ConfigMap, ctx: Context) -> None:
    """Write the object that is reconciled: an update, which names the version before."""
    config_map.data["n"] = str(int(config_map.data.get("n", "0")) + 1)
    await ctx.client.update(config_map)


async def patch_without_end(config_map: ConfigMap, ctx: Context) -> None:
    """Write the object that is reconciled: a patch, which names no version."""
    before = deep_copy(config_map)
    config_map.data["n"] = str(int(config_map.data.get("n", "0")) + 1)
    await ctx.client.patch(config_map, MergeFrom(before))


async def apply_without_end(config_map: ConfigMap, ctx: Context) -> None:
    """Apply a child that is never the same."""
    meta = ObjectMeta(name=config_map.metadata.name)
    await ctx.apply(Secret(metadata=meta, string_data={"now": f"{ctx.reconcile_id}"}))


@pytest.mark.parametrize("reconcile", [update_without_end, patch_without_end, apply_without_end])
async def test_a_running_loop_is_named_and_slowed(reconcile: Any, caplog: pytest.LogCaptureFixture) -> None:
    """One warning and one Event with the write and its event; then at most one reconcile in a minute."""
    with caplog.at_level(logging.WARNING, logger="opsdk.controller.controller"):
        async with at_work(reconcile) as (client, operator):
            await asyncio.sleep(1800)
            passes = len(list(operator.journal.find(name="a")))
            assert 100 < passes < 150
            assert await hot_loops(operator) == 1
            (warning,) = [r.getMessage() for r in caplog.records if "reconciled itself" in r.getMessage()]
            assert warning.startswith("controller configmap: default/a reconciled itself 101 times in ")
            assert " -> " in warning
            (reported,) = [e for e in await client.list(Event, namespace="default") if e.reason == "HotLoop"]
            assert reported.regarding is not None
            assert (reported.type, reported.regarding.name) == ("Warning", "a")


async def test_a_foreign_change_is_reconciled_at_once_in_a_hot_loop() -> None:
    """The loop waits for a minute; the change of a user does not."""
    async with at_work(update_without_end) as (client, operator):
        await asyncio.sleep(3600)
        before = len(list(operator.journal.find(name="a")))
        config_map = await client.get(ConfigMap, "default/a")
        original = deep_copy(config_map)
        config_map.metadata.labels["changed"] = "yes"
        await client.patch(config_map, MergeFrom(original))
        await asyncio.sleep(0.5)
        assert len(list(operator.journal.find(name="a"))) > before


async def test_polls_and_progress_are_no_hot_loops() -> None:
    """A reconciler that writes at each poll, and one that makes fifty children one after the other."""
    operator = Operator("patient")

    @operator.reconciler(ConfigMap, owns=[Secret])
    async def reconcile(config_map: ConfigMap, ctx: Context) -> Result | None:
        if config_map.metadata.name == "polls":
            meta = ObjectMeta(name="polls")
            await ctx.apply(Secret(metadata=meta, string_data={"minute": str(monotonic() // 60)}))
            return Result(requeue_after=1)
        count = len(await ctx.client.list(Secret, namespace="default"))
        if count < 50:
            await ctx.apply(Secret(metadata=ObjectMeta(name=f"child-{count}")))
        return None

    async with environment.Environment() as env, Cluster(env.config) as outside, running(operator, env):
        for name in ("polls", "grows"):
            await outside.uncached.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
        await asyncio.sleep(1200)
        assert await hot_loops(operator) == 0
        assert len(await outside.uncached.list(Secret, namespace="default")) == 50


@pytest.mark.slow
async def test_a_limit_of_zero_slows_nothing() -> None:
    """The loop goes on as fast as it can; the test ends it after a thousand passes."""
    passes = 0

    async def reconcile(config_map: ConfigMap, ctx: Context) -> None:
        nonlocal passes
        passes += 1
        if passes < 1000:
            await update_without_end(config_map, ctx)

    async with at_work(reconcile, limit=0) as (_, operator):
        await asyncio.sleep(5)
        assert passes >= 1000
        assert await hot_loops(operator) == 0


@pytest.mark.parametrize("value", [-1, 1.5, "100", None, True])
def test_a_wrong_limit_is_refused_at_the_declaration(value: Any) -> None:
    """The error says what to pass, with this file and line."""
    with pytest.raises(UsageError, match=r"hot_loop_limit is .*: pass a number of reconciles, or 0") as error:
        ControllerOptions(hot_loop_limit=value)
    assert f"{__file__}:" in str(error.value)


async def test_requests_without_objects_are_slowed_too() -> None:
    """A controller without a kind has no object for the Event; the log and the metric name its request."""
    operator = Operator("other")

    async def reconcile(request: Request, ctx: Context) -> None:
        if request.name == "a":
            await update_without_end(await ctx.client.get(ConfigMap, request.key), ctx)

    @operator.setup
    def controllers(operator: Operator) -> None:
        operator.controller("other").watches(ConfigMap, EnqueueRequestForObject()).reconciler(reconcile).complete()

    async with environment.Environment() as env, Cluster(env.config) as outside, running(operator, env, hot_loops=True):
        await outside.uncached.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await asyncio.sleep(600)
        assert await hot_loops(operator) == 1


async def test_a_hot_loop_fails_a_test() -> None:
    """The test kit's block ends with an error that names the controller, the object and the chain."""
    operator = Operator("spinner")
    operator.reconciler(ConfigMap, predicates=[matches_labels("test")])(update_without_end)
    async with environment.Environment() as env, Cluster(env.config) as outside:
        meta = ObjectMeta(name="a", namespace="default", labels={"test": ""})
        await outside.uncached.create(ConfigMap(metadata=meta))
        with pytest.raises(HotLoopError, match="hot loop: controller configmap: default/a reconciled itself 101 times"):
            await _run_for_an_hour(operator, env)


async def _run_for_an_hour(operator: Operator, env: Any) -> None:
    async with running(operator, env):
        await asyncio.sleep(3600)
