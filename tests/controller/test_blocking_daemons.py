"""Plain daemons: they run in threads of their own, with everything that async ones have."""
# ruff: noqa: D103 - some functions are examples of declarations: their names say what they are

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from boxes import Box, box, records, running

from opsdk import BlockingContext, Context, ControllerOptions, ObjectMeta, Operator, OperatorOptions, UsageError
from opsdk.aio import blocking as blocking_module
from opsdk.aio.clock import monotonic
from opsdk.aio.watchdog import Watchdog
from opsdk.api.core.v1 import ConfigMap
from opsdk.client.patch import merge_patch
from opsdk.controller.daemons import Daemons, DaemonSpec
from opsdk.errors import LeaderElectionLostError, ShutdownTimeoutError
from opsdk.event.request import Request
from tests.controller.daemon_monitors import PlainMonitor, daemon_results

CLEAN_UP = "tests.opsdk.dev/clean-up"


async def test_a_plain_daemon_runs_in_a_thread_while_its_object_exists() -> None:
    """It is not started twice, has the client of its context, and its next call raises when the object is deleted."""
    operator, monitor = Operator("boxes"), PlainMonitor()
    operator.daemon(Box)(monitor.monitor)
    sizes: list[int] = []

    @operator.daemon(Box)
    def measure(obj: Box, ctx: BlockingContext) -> None:
        while True:
            ctx.sleep(10)
            sizes.append(ctx.client.get(Box, obj.metadata.name, namespace="default").spec.size)

    async with running(operator) as client:
        await client.create(box("a"))
        await client.create(box("b"))
        await asyncio.sleep(5)
        assert sorted(monitor.running) == ["a", "b"]
        await client.patch(box("a"), merge_patch({"spec": {"size": 5}}))
        await asyncio.sleep(10)
        assert len(monitor.starts) == 2
        assert sorted(sizes) == [1, 5]
        await client.delete(box("a"))
        await asyncio.sleep(1)
        assert monitor.running == ["b"]
    assert monitor.running == []
    assert threading.get_ident() not in monitor.threads
    assert [r for r in daemon_results(operator) if "monitor" in r] == ["monitor started", "monitor cancelled"]


async def test_a_plain_daemon_ends_before_its_finalizer_runs() -> None:
    """The finalizer waits for the end of its thread, and shares no thread with it."""
    operator = Operator("boxes")
    steps: list[str] = []

    def monitor(obj: Box, ctx: BlockingContext) -> None:
        try:
            ctx.sleep(100_000)
        finally:
            ctx._wait(asyncio.sleep(3), always=True)
            steps.append("daemon ended")

    def clean_up(obj: Box, ctx: BlockingContext) -> None:
        steps.append("finalizer")

    @operator.reconciler(
        Box, daemons=[monitor], finalizers={CLEAN_UP: clean_up}, options=ControllerOptions(blocking_threads=1)
    )
    def reconcile(obj: Box) -> None:
        steps.append("reconcile")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(box())
        await asyncio.sleep(10)
        assert await client.get_or_none(Box, "default/a") is None
    assert steps == ["reconcile", "daemon ended", "finalizer"]


async def test_a_thread_that_ignores_its_cancellation_keeps_the_finalizer(caplog: pytest.LogCaptureFixture) -> None:
    """The reconcile fails within the bound, the log names the thread and its line; the finalizer runs after its end."""
    operator = Operator("boxes")
    ends_at = monotonic() + 40

    def stubborn(obj: Box, ctx: BlockingContext) -> None:
        while monotonic() < ends_at:
            ctx._wait(asyncio.sleep(1), always=True)

    async def clean_up(obj: Box, ctx: Context) -> None: ...

    spec = DaemonSpec(function=stubborn, stop_timeout=2)

    @operator.reconciler(Box, daemons=[spec], finalizers={CLEAN_UP: clean_up})
    async def reconcile(obj: Box) -> None: ...

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.delete(box())
        await asyncio.sleep(20)
        assert await client.get_or_none(Box, "default/a") is not None
        detail = records(operator)[-1].detail
        assert "the daemon stubborn of default/a ignores its cancellation for 2 s" in detail
        assert "call ctx.sleep(0) between long steps" in detail
        await asyncio.sleep(60)
        assert await client.get_or_none(Box, "default/a") is None
    report = next(r.getMessage() for r in caplog.records if "was cancelled, and still runs in" in r.getMessage())
    assert "'controller box/daemon stubborn default/a'" in report
    assert "in stubborn" in report


async def test_periodic_calls_wait_for_a_thread() -> None:
    """With `every`, two threads serve five objects in turn, each with its newest state."""
    operator = Operator("boxes")
    inside = 0
    most = 0
    sizes: dict[str, list[int]] = {}

    @operator.daemon(Box, every=60, threads=2)
    def probe(obj: Box, ctx: BlockingContext) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        ctx.sleep(1)
        inside -= 1
        sizes.setdefault(obj.metadata.name, []).append(obj.spec.size)

    async with running(operator) as client:
        for name in "abcde":
            await client.create(box(name))
        await asyncio.sleep(30)
        for name in "abcde":
            await client.patch(box(name), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(60)
    assert sizes == {name: [1, 2] for name in "abcde"}
    assert most == 2


async def test_an_object_without_a_thread_has_a_failing_daemon() -> None:
    """Without `every`, the error names the limit and the remedy; a thread that is free again serves the object."""
    operator, monitor = Operator("boxes"), PlainMonitor()
    operator.daemon(Box, threads=2)(monitor.monitor)
    async with running(operator) as client:
        for name in "abc":
            await client.create(box(name))
            await asyncio.sleep(1)
        assert monitor.running == ["a", "b"]
        failed = [r for r in records(operator, "c") if r.result == "daemon monitor failed"]
        assert (
            "all 2 threads of the daemon monitor are in use for other objects: pass a larger threads="
            in failed[0].detail
        )
        await client.delete(box("a"))
        await asyncio.sleep(20)
        assert monitor.running == ["b", "c"]


async def test_plain_daemons_stop_with_the_operator() -> None:
    """Daemons that wait in a call, for a thread or for their restart stop with the operator."""
    operator, monitor, failing = Operator("boxes"), PlainMonitor(), PlainMonitor(OSError("no route"))
    operator.daemon(Box, threads=1)(monitor.monitor)
    operator.daemon(Box, name="failing")(failing.monitor)

    @operator.daemon(Box, every=3600, threads=1)
    def probe(obj: Box, ctx: BlockingContext) -> None:
        ctx.sleep(7200)

    async with running(operator) as client:
        await client.create(box("a"))
        await client.create(box("b"))
        await asyncio.sleep(100)
        stopped = monotonic()
    assert monotonic() - stopped < 1
    assert monitor.running == failing.running == []
    idle = [t.name for t in threading.enumerate() if "daemon" in t.name and "boxes" in t.name]
    assert idle == []


async def test_a_former_leader_does_not_write_from_a_daemon() -> None:
    """A thread computes longer than the lease lasts: its next write is refused."""
    operator = Operator("boxes", OperatorOptions(leader_election=True, leader_election_namespace="default"))
    loop: Any = asyncio.get_running_loop()
    refused: list[str] = []

    @operator.daemon(Box)
    def write(obj: Box, ctx: BlockingContext) -> None:
        loop.block(20)
        try:
            ctx.client.create(ConfigMap(metadata=ObjectMeta(name="late", namespace="default")))
        except LeaderElectionLostError as error:
            refused.append(str(error))
            raise

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        assert await client.get_or_none(ConfigMap, "default/late") is None
    assert refused[0].startswith("POST /api/v1/namespaces/default/configmaps was not sent")


# ------------------------------------------------------------------ real threads
@pytest.mark.realtime
async def test_a_thread_that_never_yields_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop goes on, so the watchdog reports no stall. After the cancellation the log names the thread."""
    monkeypatch.setattr(blocking_module, "_ENDS_WITHIN", 0.05)
    end = threading.Event()

    def spin(obj: Box, ctx: BlockingContext) -> None:
        while not end.wait(0.01):
            pass

    async def read(request: Request) -> None: ...

    daemons = Daemons(
        [DaemonSpec(function=spin, stop_timeout=0.3)],
        owner="boxes",
        make_context=lambda request, _obj, _failures: Context(request=request),
        read=read,
        on_change=lambda _: None,
    )
    request = Request("default", "a")
    async with Watchdog(limit=0.2) as watchdog:
        await daemons.sync(request, box(uid="1"))
        await asyncio.sleep(0.5)
        with pytest.raises(ShutdownTimeoutError, match="the daemon spin of default/a ignores its cancellation"):
            await daemons.sync(request, None)
        end.set()
        await daemons.sync(request, None)
        await daemons.aclose()
        assert watchdog.last is None
    report = next(r.getMessage() for r in caplog.records if "was cancelled, and still runs in" in r.getMessage())
    assert "the thread 'controller boxes/daemon spin default/a'" in report
    assert "end.wait(0.01)" in report


# ------------------------------------------------------------------ bad input
def async_context(obj: Box, ctx: Context) -> None: ...
async def blocking_context(obj: Box, ctx: BlockingContext) -> None: ...
def only_object(obj: Box) -> None: ...
def generator(obj: Box, ctx: BlockingContext) -> Iterator[int]:
    yield 1


async def probe(obj: Box, ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (async_context, "'ctx' is declared as Context: annotate it with BlockingContext"),
        (blocking_context, "'ctx' is declared as BlockingContext: annotate it with Context"),
        (only_object, r"cannot be called: it must take \(obj, ctx\)"),
        (generator, "is a generator: return a value"),
    ],
)
def test_a_wrong_function_is_refused_with_file_and_line(function: Any, message: str) -> None:
    """Each of the three ways to declare a daemon refuses a wrong function, with its file and line."""
    wrong: list[Callable[[], object]] = [
        lambda: DaemonSpec(function=function),
        lambda: Operator("boxes").daemon(Box)(function),
        lambda: Operator("boxes").reconciler(Box, daemons=[function]),
    ]
    for declare in wrong:
        with pytest.raises(UsageError, match=message) as raised:
            declare()
        assert f"{__file__}:{function.__code__.co_firstlineno}" in str(raised.value)


@pytest.mark.parametrize("threads", [-1, True, 1.5, "4"])
def test_a_wrong_number_of_threads_is_refused(threads: Any) -> None:
    """The number of threads is a nonnegative integer, and 0 selects the default."""
    with pytest.raises(UsageError, match=rf"{__file__}:\d+: threads is .*: pass a number of threads, or 0 for 100"):
        Operator("boxes").daemon(Box, threads=threads)(probe)


def test_an_async_daemon_has_no_threads() -> None:
    """The number would have no effect, so it is refused."""
    with pytest.raises(UsageError, match=rf"{__file__}:\d+: threads is for plain functions, and probe is async"):
        Operator("boxes").daemon(Box, threads=4)(probe)


async def test_a_plain_daemon_that_returns_a_coroutine_fails() -> None:
    """A plain daemon that returns a coroutine fails with an error that names the remedy."""
    operator = Operator("boxes")

    @operator.daemon(Box)
    def wrong(obj: Box, ctx: BlockingContext) -> Any:
        return probe(obj, ctx.target)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        failed = next(r for r in records(operator) if r.result == "daemon wrong failed")
    assert "declare the function itself with `async def`" in failed.detail
