"""Daemons: they run exactly while their object exists and is selected."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from boxes import Box, box, records, running

from opsdk import Context, Operator, Request, UsageError
from opsdk.aio.blocking import blocking
from opsdk.aio.watchdog import Watchdog
from opsdk.client.patch import merge_patch
from opsdk.controller.daemons import Daemons, DaemonSpec
from opsdk.errors import TemporaryError, TerminalError
from tests.controller.daemon_monitors import Monitor, PlainMonitor, daemon_results

each_form = pytest.mark.parametrize("form", [Monitor, PlainMonitor])


async def test_a_daemon_runs_while_its_object_exists() -> None:
    """A daemon starts with its object, is not started twice, and is cancelled with the deletion."""
    operator, monitor = Operator("boxes"), Monitor()
    operator.daemon(Box)(monitor.monitor)
    async with running(operator) as client:
        await client.create(box("a"))
        await client.create(box("b"))
        await asyncio.sleep(1)
        assert sorted(monitor.running) == ["a", "b"]
        await client.patch(box("a"), merge_patch({"spec": {"size": 5}}))
        await asyncio.sleep(1)
        assert sorted(monitor.running) == ["a", "b"]
        await client.delete(box("a"))
        await asyncio.sleep(1)
        assert monitor.running == ["b"]
    assert monitor.running == []
    assert daemon_results(operator) == ["monitor started", "monitor cancelled"]


async def test_a_daemon_ends_before_its_finalizer_runs() -> None:
    """The finalizer may rely on it, also when the daemon needs seconds to clean up."""
    operator = Operator("boxes")
    steps: list[str] = []

    async def monitor(obj: Box, ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(3)
            steps.append("daemon ended")

    async def clean_up(obj: Box, ctx: Context) -> None:
        steps.append("finalizer")

    @operator.reconciler(Box, daemons=[monitor], finalizers={"tests.opsdk.dev/clean-up": clean_up})
    async def reconcile(obj: Box) -> None: ...

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(box())
        await asyncio.sleep(10)
        assert await client.get_or_none(Box, "default/a") is None
    assert steps == ["daemon ended", "finalizer"]


async def test_a_daemon_that_ignores_its_cancellation_keeps_the_finalizer() -> None:
    """The reconcile fails and names it, again and again; when the daemon ends, the finalizer runs."""
    operator = Operator("boxes")
    end = asyncio.Event()

    async def stubborn(obj: Box, ctx: Context) -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    async def clean_up(obj: Box, ctx: Context) -> None: ...

    spec = DaemonSpec(function=stubborn, stop_timeout=2)

    @operator.reconciler(Box, daemons=[spec], finalizers={"tests.opsdk.dev/clean-up": clean_up})
    async def reconcile(obj: Box) -> None: ...

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(box())
        await asyncio.sleep(30)
        assert await client.get_or_none(Box, "default/a") is not None
        assert "the daemon stubborn of default/a ignores its cancellation for 2 s" in records(operator)[-1].detail
        end.set()
        await asyncio.sleep(60)
        assert await client.get_or_none(Box, "default/a") is None


async def test_a_predicate_selects_objects() -> None:
    """A change of the object starts and stops its daemon."""
    operator, monitor = Operator("boxes"), Monitor()
    operator.daemon(Box, when=lambda obj: obj.spec.size > 3)(monitor.monitor)
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        assert monitor.running == []
        await client.patch(box(), merge_patch({"spec": {"size": 5}}))
        await asyncio.sleep(1)
        assert monitor.running == ["a"]
        await client.patch(box(), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(1)
        assert monitor.running == []


async def test_an_object_that_is_created_again_gets_a_new_daemon() -> None:
    """The daemon belongs to the object, not to its name."""
    operator, monitor = Operator("boxes"), Monitor()
    operator.daemon(Box)(monitor.monitor)
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(box())
        await client.create(box())
        await asyncio.sleep(1)
        assert monitor.running == ["a"]
        assert len(monitor.starts) == 2


@each_form
async def test_a_daemon_that_raises_is_restarted_with_a_backoff(form: Any) -> None:
    """Delays grow; `TemporaryError` names its own, `TerminalError` is the end, and so is a return."""
    operator, monitor = Operator("boxes"), form(OSError("no route"))
    operator.daemon(Box)(monitor.monitor)
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(12)
        first, second, third = monitor.waits()[:3]
        assert 2 <= first < second < third  # one second of work, then about 1, 2 and 4 seconds
        monitor.error = TemporaryError("busy", delay=20)
        await asyncio.sleep(60)
        assert monitor.waits()[-1] == pytest.approx(21)
        monitor.error = TerminalError("wrong spec")
        await asyncio.sleep(60)
        starts = len(monitor.starts)
        await asyncio.sleep(600)
        assert len(monitor.starts) == starts
        assert daemon_results(operator)[-1] == "monitor failed"
        assert "not restarted: TerminalError('wrong spec')" in records(operator)[-1].detail


async def test_periodic_work_gets_the_newest_object() -> None:
    """The interval counts from the end of a call; a failure is retried sooner."""
    operator = Operator("boxes")
    sizes: list[int] = []
    times: list[float] = []

    @operator.daemon(Box, every=timedelta(minutes=1), jitter=0.5)
    async def probe(obj: Box, ctx: Context) -> None:
        sizes.append(obj.spec.size)
        times.append(asyncio.get_running_loop().time())
        if len(sizes) == 3:
            raise OSError("once")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(100)
        await client.patch(box(), merge_patch({"spec": {"size": 7}}))
        await asyncio.sleep(1000)
        assert sizes[0] == 1
        assert sizes[-1] == 7
        waits = [b - a for a, b in itertools.pairwise(times)]
        assert waits[2] < 2
        assert all(60 <= wait <= 90 for number, wait in enumerate(waits) if number != 2)
        await client.delete(box())
        await asyncio.sleep(1)
        calls = len(sizes)
        await asyncio.sleep(1000)
        assert len(sizes) == calls


async def test_daemons_stop_with_the_operator() -> None:
    """Daemons are cancelled when the operator stops, also while they wait for their restart."""
    operator, monitor = Operator("boxes"), Monitor(OSError("no route"))
    operator.daemon(Box)(monitor.monitor)
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(100)
    assert monitor.running == []
    assert daemon_results(operator)[-1] == "monitor cancelled"
    starts = len(monitor.starts)
    await asyncio.sleep(1000)
    assert len(monitor.starts) == starts


async def test_metrics_count_daemons() -> None:
    """The number of running daemons ends at zero, and failures are counted."""
    operator, monitor = Operator("boxes"), Monitor(TerminalError("no"))
    operator.daemon(Box)(monitor.monitor)

    def series(name: str) -> str:
        lines = operator.manager.metrics.expose().decode().splitlines()
        return next(line for line in lines if line.startswith(f"opsdk_controller_{name}{{"))

    async with running(operator) as client:
        await client.create(box("a"))
        await client.create(box("b"))
        await asyncio.sleep(0.5)
        labels = '{controller="box-monitor",daemon="monitor"}'
        assert series("daemons") == f"opsdk_controller_daemons{labels} 2.0"
        await asyncio.sleep(10)
        assert series("daemons") == f"opsdk_controller_daemons{labels} 0.0"
        assert series("daemon_failures_total") == f"opsdk_controller_daemon_failures_total{labels} 2.0"


@each_form
@pytest.mark.parametrize("seed", range(7))
async def test_daemons_match_objects_after_any_changes(seed: int, form: Any) -> None:
    """After creations, changes and deletions in any order, exactly the selected objects have a daemon."""
    operator, monitor = Operator("boxes"), form()
    operator.daemon(Box, when=lambda obj: obj.spec.size > 1)(monitor.monitor)
    rng = random.Random(seed)
    async with running(operator) as client:
        for _ in range(40):
            name = rng.choice("abc")
            match rng.randrange(3):
                case 0:
                    await client.delete(box(name), missing_ok=True)
                case 1:
                    if await client.get_or_none(Box, f"default/{name}") is None:
                        await client.create(box(name))
                case 2:
                    if await client.get_or_none(Box, f"default/{name}") is not None:
                        await client.patch(box(name), merge_patch({"spec": {"size": rng.randrange(4)}}))
            await asyncio.sleep(rng.choice([0, 0.01, 1]))
        await asyncio.sleep(5)
        selected = sorted(b.metadata.name for b in await client.list(Box) if b.spec.size > 1)
        assert sorted(monitor.running) == selected


async def probe(obj: Any, ctx: Any) -> None:
    """Do nothing."""


def declare(**options: Any) -> Callable[[], object]:
    """Return a function that declares a reconciler with options."""
    return lambda: Operator("boxes").reconciler(Box, **options)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (declare(daemons=probe), r"test_daemons.py:\d+: daemons takes a list"),
        (declare(daemons=[3]), r"test_daemons.py:\d+: daemons got 3: write daemons=\[monitor\]"),
        (declare(daemons=[lambda obj: None]), r"test_daemons.py:\d+: .* cannot be called: it must take \(obj, ctx\)"),
        (declare(daemons=[blocking(lambda obj, ctx: None)]), r"test_daemons.py:\d+: .* remove @blocking"),
        (declare(daemons=[probe, probe]), r"test_daemons.py:\d+: two daemons have the same name \(probe, probe\)"),
        (lambda: Operator("x").reconciler(name="x", daemons=[probe]), r"\d+: daemons need a reconciled kind"),
        (lambda: Operator("x").daemon(Box, every=0)(probe), r"test_daemons.py:\d+: every is 0"),
        (lambda: Operator("x").daemon(Box, jitter=0.1)(probe), r"test_daemons.py:\d+: jitter needs every"),
        (lambda: DaemonSpec(function=probe, when=probe), "when is <function probe"),  # type: ignore[arg-type]
        (lambda: DaemonSpec(function=probe, stop_timeout=0), "stop_timeout is 0"),
        (lambda: DaemonSpec(function=probe, every="1h"), "every is '1h'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_daemons_are_refused(wrong: Callable[[], object], message: str) -> None:
    """The error has the place of the declaration, and says what to write."""
    with pytest.raises(UsageError, match=message):
        wrong()


@pytest.mark.realtime
async def test_the_watchdog_names_a_daemon_that_never_yields(caplog: pytest.LogCaptureFixture) -> None:
    """The stall's report has the daemon and its object."""

    async def greedy(obj: Any, ctx: Any) -> None:
        time.sleep(0.6)  # noqa: ASYNC251 - the mistake that the watchdog reports
        raise TerminalError("done")

    async def read(request: Request) -> None: ...

    obj = box(uid="1")
    daemons = Daemons(
        [DaemonSpec(function=greedy)],
        owner="boxes",
        make_context=lambda request, _obj, _failures: Context(request=request),
        read=read,
        on_change=lambda _: None,
    )
    async with Watchdog(limit=0.1):
        await asyncio.sleep(0.05)
        await daemons.sync(Request("default", "a"), obj)
        await asyncio.sleep(1)
        await daemons.aclose()
    reports = [record.getMessage() for record in caplog.records if "has been blocked for" in record.getMessage()]
    assert len(reports) == 1
    assert "controller boxes/daemon greedy default/a" in reports[0]
