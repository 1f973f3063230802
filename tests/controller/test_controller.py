"""The controller's laws: when it reconciles, what follows from the answer, and how it stops."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self

import pytest
from cache_world import THING, WIDGET, World, owner

from opsdk.controller.context import Context
from opsdk.controller.controller import Controller, ControllerState
from opsdk.controller.declaration import ReconcilerForm, inspect_reconciler
from opsdk.controller.options import ControllerOptions
from opsdk.controller.reconcile import Result
from opsdk.errors import (
    CacheSyncError,
    ConflictError,
    ForbiddenError,
    ShutdownTimeoutError,
    TerminalError,
    UsageError,
)
from opsdk.event.handlers import Enqueue, EnqueueRequestForObject, EnqueueRequestForOwner
from opsdk.event.request import Request
from opsdk.event.sources import Channel, ChannelSource, EventSource, KindSource
from opsdk.queue.core import LOW_PRIORITY
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.context import current
from opsdk.telemetry.records import Reconciled, Record, TelemetryHook, Workers
from opsdk.telemetry.records import ReconcileOutcome as Outcome
from opsdk.testing.loop import VirtualLoop

A = Request("ns", "a")
Reconcile = Callable[[Request], Awaitable[Any]]


class Recording(TelemetryHook):
    """Keeps every record."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> None:
        self.records.append(record)

    def reconciled(self) -> list[Reconciled]:
        return [r for r in self.records if isinstance(r, Reconciled)]

    def workers(self) -> list[Workers]:
        return [r for r in self.records if isinstance(r, Workers)]


class Running:
    """A controller that runs inside the block."""

    def __init__(self, reconcile: Any, *sources: EventSource, **options: Any) -> None:
        self.channel = Channel("test")
        self.hook = Recording()
        created = ControllerOptions(**options)
        fed = [ChannelSource(self.channel), *sources]
        self.controller = Controller("c", reconcile, sources=fed, options=created, hook=self.hook)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.controller.start())
        await self.controller.wait_ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Gate(EventSource):
    """A source that starts and syncs when it is told to."""

    def __init__(self, *, start: float = 0.0, sync: float = 0.0, error: Exception | None = None) -> None:
        self.start_seconds, self.sync_seconds, self.error = start, sync, error
        self.started = self.closed = 0

    async def start(self, queue: WorkQueue[Request]) -> None:
        self.started += 1
        await asyncio.sleep(self.start_seconds)

    async def wait_synced(self, timeout: float) -> None:
        await asyncio.sleep(self.sync_seconds)
        if self.error is not None:
            raise self.error

    async def aclose(self) -> None:
        self.closed += 1

    def __repr__(self) -> str:
        return "<Gate>"


# ------------------------------------------------------------------ before the first reconcile
@pytest.mark.behaviour(74)
async def test_nothing_is_reconciled_before_every_source_has_synced() -> None:
    """A request that is queued early waits for the slowest source."""
    times: list[float] = []

    async def reconcile(_: Request) -> None:
        times.append(asyncio.get_running_loop().time())

    slow = Gate(sync=30)
    running = Running(reconcile, slow, Gate())
    running.channel.send(A)
    async with running:
        await asyncio.sleep(1)
    assert times == [pytest.approx(30)]
    assert slow.closed == 1


async def test_sources_start_concurrently() -> None:
    """Ten sources that need ten seconds each are ready after ten seconds."""
    async with Running(_nothing, *[Gate(start=5, sync=5) for _ in range(10)]) as running:
        assert running.now() == pytest.approx(10)


@pytest.mark.behaviour(75)
async def test_a_source_that_blocks_is_named() -> None:
    """A start or a sync that never ends is a timeout that names controller and source."""
    for gate, text in ((Gate(start=10**6), "must not block"), (Gate(sync=10**6), "did not sync within 5 s")):
        controller = Controller("c", _nothing, sources=[gate], options=ControllerOptions(cache_sync_timeout=5))
        with pytest.raises(CacheSyncError, match=f"controller c: <Gate> .*{text}"):
            await controller.start()
        assert gate.closed == 1
        assert controller.state is ControllerState.STOPPED


@pytest.mark.behaviour(75)
async def test_the_error_of_a_source_is_raised_as_it_is() -> None:
    """A source that fails fails the controller; its own TimeoutError is not mistaken for ours."""
    for error in (UsageError("wrong"), TimeoutError("mine")):
        other = Gate()
        controller = Controller("c", _nothing, sources=[other, Gate(error=error)])
        with pytest.raises(type(error)) as caught:
            await controller.start()
        assert caught.value is error
        assert other.closed == 1


async def test_a_denial_is_named_in_the_sync_error() -> None:
    """RBAC: the error names the controller, and has the server's message."""
    world = World()
    world.server(THING).refuse = ForbiddenError('User "u" cannot list resource "things"')
    caching = asyncio.create_task(world.cache.start())
    source = KindSource(world.cache, THING, EnqueueRequestForObject())
    controller = Controller("c", _nothing, sources=[source], options=ControllerOptions(cache_sync_timeout=20))
    with pytest.raises(CacheSyncError, match=r"controller c .*cannot list resource") as caught:
        await controller.start()
    assert isinstance(caught.value.__cause__, ForbiddenError)
    caching.cancel()
    await asyncio.gather(caching, return_exceptions=True)


@pytest.mark.behaviour(75)
async def test_a_cancellation_while_syncing_ends_the_controller() -> None:
    """Sources are closed, nothing was reconciled, and no other error appears."""
    gate = Gate(sync=10**6)
    controller = Controller("c", _nothing, sources=[gate])
    task = asyncio.create_task(controller.start())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.closed == 1


@pytest.mark.behaviour(86)
async def test_starting_twice_is_refused() -> None:
    """A second start is an error, also after the first one has ended."""
    async with Running(_nothing) as running:
        with pytest.raises(UsageError, match="started more than once"):
            await running.controller.start()
    with pytest.raises(UsageError, match="started more than once"):
        await running.controller.start()


@pytest.mark.behaviour(86)
async def test_a_source_added_later_begins_at_once() -> None:
    """Added while others sync or while running, a source starts exactly once; after the end it is refused."""
    early, slow, late = Gate(), Gate(start=3, sync=3), Gate()
    running = Running(_nothing, slow)
    task = asyncio.create_task(running.controller.start())
    await asyncio.sleep(1)
    await running.controller.watch(early)
    await running.controller.wait_ready()
    await running.controller.watch(late)
    assert (early.started, slow.started, late.started) == (1, 1, 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (early.closed, slow.closed, late.closed) == (1, 1, 1)
    with pytest.raises(UsageError, match="has stopped"):
        await running.controller.watch(Gate())


async def test_a_source_that_fails_to_close_does_not_keep_others_open() -> None:
    """Every source is closed, whatever one of them raises, and the controller ends as it would."""

    class Bad(Gate):
        async def aclose(self) -> None:
            raise RuntimeError("mine")

    last = Gate()
    async with Running(_nothing, Bad(), last):
        pass
    assert last.closed == 1


# ------------------------------------------------------------------ what follows from the answer
async def _nothing(_: Request) -> None: ...


async def _times(answers: list[Any], *, after: float = 5000, **options: Any) -> tuple[list[float], Recording]:
    """When A is reconciled, given what the reconciler answers (or raises) one after the other."""
    times: list[float] = []

    async def reconcile(_: Request) -> Any:
        times.append(asyncio.get_running_loop().time())
        answer = answers.pop(0) if answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async with Running(reconcile, **options) as running:
        running.channel.send(A)
        await asyncio.sleep(after)
    return [round(t, 4) for t in times], running.hook


async def test_success_is_not_repeated() -> None:
    """None and an empty Result do not queue the request again."""
    for answer in (None, Result()):
        times, hook = await _times([answer])
        assert len(times) == 1
        assert [r.result for r in hook.reconciled()] == [Outcome.SUCCESS]


@pytest.mark.behaviour(77)
async def test_errors_are_retried_with_growing_delays_until_success() -> None:
    """5, 10, 20, 40 ms between attempts; after one success the next error waits 5 ms again."""
    times, hook = await _times([ValueError(n) for n in range(5)])
    gaps = [round(b - a, 4) for a, b in itertools.pairwise(times)]
    assert gaps == [0.005, 0.01, 0.02, 0.04, 0.08]
    assert [r.result for r in hook.reconciled()] == [Outcome.ERROR] * 5 + [Outcome.SUCCESS]


@pytest.mark.behaviour(77)
async def test_failures_are_counted_for_each_key() -> None:
    """One key's failures do not delay another key."""
    times: dict[str, list[float]] = {"a": [], "b": []}

    async def reconcile(request: Request) -> None:
        times[request.name].append(asyncio.get_running_loop().time())
        if request.name == "a":
            raise ValueError

    async with Running(reconcile) as running:
        running.channel.send(A)
        await asyncio.sleep(10)
        running.channel.send(Request("ns", "b"))
        await asyncio.sleep(10)
    assert len(times["a"]) > 5
    assert times["b"] == [pytest.approx(10)]


@pytest.mark.behaviour(77)
async def test_a_success_resets_the_delays() -> None:
    """After errors and a success, the next error of the key waits 5 ms again."""
    times: list[float] = []
    answers: list[Exception | None] = [ValueError(), ValueError(), None, ValueError(), None]

    async def reconcile(_: Request) -> None:
        times.append(asyncio.get_running_loop().time())
        if (error := answers.pop(0)) is not None:
            raise error

    async with Running(reconcile) as running:
        running.channel.send(A)
        await asyncio.sleep(10)
        assert running.controller.queue.rate_limiter.num_requeues(A) == 0
        running.channel.send(A)
        await asyncio.sleep(10)
    assert [round(b - a, 4) for a, b in itertools.pairwise(times)][:2] == [0.005, 0.01]
    assert times[-1] - times[-2] == pytest.approx(0.005)


@pytest.mark.behaviour(78)
async def test_requeue_after_runs_once_and_resets_failures() -> None:
    """The request runs once after that time, and earlier failures are forgotten."""
    times, hook = await _times([ValueError(), ValueError(), Result(requeue_after=60), ValueError()])
    gaps = [round(b - a, 4) for a, b in itertools.pairwise(times)]
    assert gaps == [0.005, 0.01, 60.0, 0.005]
    assert Outcome.REQUEUE_AFTER in [r.result for r in hook.reconciled()]


@pytest.mark.behaviour(78)
async def test_requeue_after_takes_precedence_over_requeue() -> None:
    """With both set, the request waits for requeue_after."""
    times, _ = await _times([Result(requeue=True, requeue_after=60)])
    assert times == [0, 60]


async def test_requeue_waits_for_the_delay_of_the_rate_limiter() -> None:
    """The delays of `requeue` grow as after errors; its result is ``requeue``."""
    times, hook = await _times([Result(requeue=True)] * 3)
    assert [round(b - a, 4) for a, b in itertools.pairwise(times)] == [0.005, 0.01, 0.02]
    assert [r.result for r in hook.reconciled()][:3] == [Outcome.REQUEUE] * 3


@pytest.mark.behaviour(79)
@pytest.mark.parametrize(
    "error",
    [TerminalError("bad"), ExceptionGroup("g", [TerminalError("a"), ExceptionGroup("h", [TerminalError("b")])])],
)
async def test_terminal_errors_are_not_retried(error: Exception) -> None:
    """A terminal error is counted as error and as terminal and not retried, also inside a group."""
    times, hook = await _times([error])
    assert len(times) == 1
    (record,) = hook.reconciled()
    assert (record.result, record.terminal) == (Outcome.ERROR, True)


async def test_a_group_with_another_error_is_not_terminal() -> None:
    """The other error may be temporary, so the request is retried."""
    times, hook = await _times([ExceptionGroup("g", [TerminalError("a"), ValueError("b")])])
    assert len(times) == 2
    assert not hook.reconciled()[0].terminal


async def test_a_terminal_error_waits_for_a_change_of_the_object() -> None:
    """A later event starts a new attempt."""
    requests: list[Request] = []

    async def reconcile(request: Request) -> None:
        requests.append(request)
        raise TerminalError("no")

    async with Running(reconcile) as running:
        running.channel.send(A)
        await asyncio.sleep(1)
        running.channel.send(A)
        await asyncio.sleep(1)
    assert len(requests) == 2


@pytest.mark.behaviour(80, better="An exception never ends the process, so `RecoverPanic` is not needed.")
async def test_every_exception_is_retried() -> None:
    """Exceptions, groups and escaped cancellations count as errors and are retried."""
    answers = [KeyError("x"), ExceptionGroup("g", [ValueError()]), asyncio.CancelledError(), TimeoutError()]
    times, hook = await _times(list(answers))
    assert len(times) == len(answers) + 1
    assert [r.result for r in hook.reconciled()] == [Outcome.ERROR] * len(answers) + [Outcome.SUCCESS]
    assert [r.panicked for r in hook.reconciled()] == [False, False, True, False, False]
    assert not any(r.timed_out for r in hook.reconciled())


@pytest.mark.parametrize("result", ["later", 5])
async def test_a_wrong_result_is_an_error_without_retries(result: object) -> None:
    """A wrong result is an error of the program, which no retry corrects."""
    times, hook = await _times([result])
    assert len(times) == 1
    assert [(r.result, r.terminal) for r in hook.reconciled()] == [(Outcome.ERROR, True)]


class Panic(BaseException):
    """As PyO3's PanicException: no Exception."""


class UnprintableError(Exception):
    """Neither its text nor its repr can be read."""

    def __str__(self) -> str:
        raise Panic

    __repr__ = __str__


def nested_group(error: BaseException, *, depth: int) -> BaseException:
    """Groups within groups."""
    for _ in range(depth):
        error = BaseExceptionGroup("group", [error])
    return error


def circular_causes() -> Exception:
    """Two errors, each the cause of the other."""
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


@pytest.mark.behaviour(80, better="An exception never ends the process, so `RecoverPanic` is not needed.")
@pytest.mark.parametrize(
    ("make", "panicked"),
    [
        (Panic, True),
        (GeneratorExit, True),
        (asyncio.CancelledError, True),
        (lambda: BaseExceptionGroup("group", [ValueError("x"), Panic()]), True),
        (lambda: nested_group(Panic(), depth=5000), True),
        (lambda: nested_group(ValueError("x"), depth=5000), False),
        (RecursionError, False),
        (UnprintableError, False),
        (circular_causes, False),
    ],
)
async def test_no_exception_of_a_reconciler_stops_the_controller(
    make: Callable[[], BaseException], panicked: bool
) -> None:
    """Any exception of a reconciler is counted and retried, as a panic if it is not an Exception; others continue."""
    names: list[str] = []

    async def reconcile(request: Request) -> None:
        names.append(request.name)
        if request == A and len(names) == 1:
            raise make()

    async with Running(reconcile) as running:
        running.channel.send(A)
        running.channel.send(Request("ns", "other"))
        await asyncio.sleep(10)
        assert sorted(names) == sorted([A.name, A.name, "other"])
        assert running.controller.state is ControllerState.RUNNING
    assert running.hook.reconciled()[0].panicked is panicked
    assert sum(record.result is Outcome.ERROR for record in running.hook.reconciled()) == 1


async def test_an_exit_ends_the_controller() -> None:
    """SystemExit is not a failure of one object: also in a group it ends the worker."""

    async def reconcile(_: Request) -> None:
        raise BaseExceptionGroup("group", [ValueError("x"), SystemExit(3)])

    running = Running(reconcile)
    running.channel.send(A)
    with pytest.raises(BaseExceptionGroup):
        await running.controller.start()


async def test_a_library_that_cancels_its_own_task_stops_nothing() -> None:
    """A library that cancels its own task, and catches that, stops no worker."""
    names: list[str] = []

    async def reconcile(request: Request) -> None:
        names.append(request.name)
        task = asyncio.current_task()
        assert task is not None
        if request.name in ("cancels", "both") and names.count(request.name) == 1:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1)
        if request.name in ("raises", "both") and names.count(request.name) == 1:
            raise asyncio.CancelledError

    async with Running(reconcile) as running:
        for name in ("cancels", "raises", "both", "last"):
            running.channel.send(Request("ns", name))
            await asyncio.sleep(10)
        assert names == ["cancels", "raises", "raises", "both", "both", "last"]
        assert running.controller.state is ControllerState.RUNNING
    assert running.controller.state is ControllerState.STOPPED


@pytest.mark.behaviour(81)
async def test_only_reconciliation_timeout_counts_as_a_timeout() -> None:
    """A reconcile over its limit is cancelled and counted; one that still returns is counted too."""

    async def slow(_: Request) -> None:
        await asyncio.sleep(100)

    async def stubborn(_: Request) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            raise ValueError("cleaned up") from None

    for function in (slow, stubborn):
        async with Running(function, reconciliation_timeout=3) as running:
            running.channel.send(A)
            await asyncio.sleep(3.001)
            (record,) = running.hook.reconciled()
            assert (record.result, record.timed_out, record.seconds) == (Outcome.ERROR, True, pytest.approx(3))
    times, hook = await _times([TimeoutError("mine")], reconciliation_timeout=3)
    assert len(times) == 2
    assert not any(r.timed_out for r in hook.reconciled())


@pytest.mark.behaviour(81)
async def test_a_stop_does_not_count_as_a_timeout() -> None:
    """A reconcile that is cancelled by the stop is neither an error nor a timeout."""

    async def slow(_: Request) -> None:
        await asyncio.sleep(10**6)

    async with Running(slow, reconciliation_timeout=10**7, shutdown_timeout=1) as running:
        running.channel.send(A)
        await asyncio.sleep(1)
    assert running.hook.reconciled() == []


@pytest.mark.behaviour(82)
@pytest.mark.parametrize("answer", [ValueError(), Result(requeue=True), Result(requeue_after=1)])
async def test_retries_keep_the_priority(answer: Any) -> None:
    """Errors, requeues and timed requeues keep the priority that the request had."""
    await _assert_priorities([answer], [LOW_PRIORITY, LOW_PRIORITY])


@pytest.mark.behaviour(82)
async def test_a_result_may_set_the_priority() -> None:
    """A Result's priority applies to requeue and requeue_after, and stays."""
    await _assert_priorities([Result(requeue=True, priority=7), Result(requeue_after=1)], [LOW_PRIORITY, 7, 7])
    await _assert_priorities([Result(requeue_after=1, priority=-5)], [LOW_PRIORITY, -5])


async def _assert_priorities(answers: list[Any], expected: list[int]) -> None:
    numbers: list[int] = []

    async def reconcile(request: Request) -> Any:
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    running = Running(reconcile)
    get = running.controller.queue.get

    async def watched() -> Any:
        queued = await get()
        numbers.append(queued.priority)
        return queued

    running.controller.queue.get = watched  # type: ignore[method-assign]
    async with running:
        running.channel.send(Enqueue(request=A, priority=LOW_PRIORITY))
        await asyncio.sleep(10)
    assert numbers == expected


async def test_a_conflict_is_retried_and_logged_at_info(caplog: pytest.LogCaptureFixture) -> None:
    """A conflict is retried and logged at INFO, because another client wrote first."""
    with caplog.at_level(logging.INFO, logger="opsdk.controller"):
        times, _ = await _times([ConflictError("modified"), ExceptionGroup("g", [ConflictError("modified")])])
    assert len(times) == 3
    assert not [r for r in caplog.records if r.levelno > logging.INFO]


# ------------------------------------------------------------------ workers
@pytest.mark.behaviour(76, 88)
@pytest.mark.parametrize("seed", range(30))
async def test_one_key_is_never_reconciled_twice_at_once(seed: int) -> None:
    """Random events, results, errors and durations: one worker for a key, at most the limit in all, no request lost."""
    rng = random.Random(seed)
    workers = rng.choice([1, 2, 5])
    expected: Counter[str] = Counter()
    done: Counter[str] = Counter()
    at_work: Counter[str] = Counter()
    peak = 0

    async def reconcile(request: Request) -> Any:
        nonlocal peak
        name = request.name
        at_work[name] += 1
        peak = max(peak, at_work.total())
        assert at_work[name] == 1
        version = expected[name]
        try:
            await asyncio.sleep(rng.choice([0, 0.01, 1]))
            roll = rng.random()
            if roll < 0.15:
                raise rng.choice([ValueError("x"), ConflictError("y"), asyncio.CancelledError()])
            done[name] = version
            if roll < 0.3:
                return Result(requeue_after=rng.random())
            return None
        finally:
            at_work[name] -= 1

    async with Running(reconcile, max_concurrent_reconciles=workers) as running:
        for _ in range(150):
            name = rng.choice("abcdef")
            expected[name] += 1
            running.channel.send(Enqueue(request=Request("ns", name), priority=rng.choice([0, LOW_PRIORITY])))
            await asyncio.sleep(rng.choice([0, 0, 0.01, 0.3]))
        await asyncio.sleep(3000)
        assert done == expected
        assert peak <= workers
        (started,) = running.hook.workers()
        assert (started.limit, len(started.queue.processing())) == (workers, 0)


@pytest.mark.behaviour(76, 88)
async def test_workers_run_concurrently() -> None:
    """With k workers k keys are reconciled at once, and the first record says how many there are."""

    async def slow(_: Request) -> None:
        await asyncio.sleep(10)

    async with Running(slow, max_concurrent_reconciles=4) as running:
        (started,) = running.hook.workers()
        assert (started.limit, len(started.queue.processing())) == (4, 0)
        for n in range(9):
            running.channel.send(Request("ns", str(n)))
        await asyncio.sleep(5)
        assert len(started.queue.processing()) == 4
        await asyncio.sleep(20)
        assert len(running.hook.reconciled()) == 8


@pytest.mark.behaviour(84)
async def test_log_lines_of_a_reconcile_carry_controller_object_and_id() -> None:
    """Each attempt has an id of its own; log lines inside carry controller, object and id, and nothing outside."""
    records: list[tuple[str, dict[str, str]]] = []

    async def reconcile(_: Request, ctx: Context) -> None:
        records.append((ctx.reconcile_id, dict(current())))
        if len(records) == 1:
            raise ValueError

    async with Running(reconcile) as running:
        running.channel.send(A)
        await asyncio.sleep(1)
    assert len({i for i, _ in records}) == 2
    for reconcile_id, fields in records:
        assert fields == {"controller": "c", "namespace": "ns", "name": "a", "reconcileID": reconcile_id}
    assert "reconcileID" not in current()


async def test_a_raising_hook_stops_no_worker() -> None:
    """An exception of a telemetry hook is logged."""

    class Broken(TelemetryHook):
        def record(self, record: Record) -> None:
            raise RuntimeError("mine")

    requests: list[Request] = []

    async def reconcile(request: Request) -> None:
        requests.append(request)

    channel = Channel("x")
    controller = Controller("c", reconcile, sources=[ChannelSource(channel)], hook=Broken())
    channel.send(A)
    task = asyncio.create_task(controller.start())
    await asyncio.sleep(1)
    assert requests == [A]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# ------------------------------------------------------------------ the end
@pytest.mark.behaviour(83, better="Running reconciles get a drain timeout before they are cancelled.")
async def test_stopping_lets_reconciles_finish_and_starts_none() -> None:
    """No new work, then what is in progress finishes; sources stay open until then."""
    finished: list[str] = []
    gate = Gate()

    async def slow(request: Request) -> None:
        await asyncio.sleep(5)
        assert gate.closed == 0
        finished.append(request.name)

    running = Running(slow, gate, shutdown_timeout=20)
    async with running:
        running.channel.send(A)
        running.channel.send(Request("ns", "b"))
        await asyncio.sleep(1)
        running.task.cancel()
        await asyncio.sleep(0)
        assert running.controller.state is ControllerState.DRAINING
        with pytest.raises(asyncio.CancelledError):
            await running.task
        assert running.now() == pytest.approx(5)
    assert finished == ["a"]


async def test_reconciles_are_cancelled_after_shutdown_timeout() -> None:
    """Reconciles that do not finish in time are cancelled, and may clean up."""
    cleaned: list[float] = []

    async def slow(_: Request) -> None:
        try:
            await asyncio.sleep(10**6)
        finally:
            await asyncio.sleep(1)
            cleaned.append(asyncio.get_running_loop().time())

    async with Running(slow, shutdown_timeout=10) as running:
        running.channel.send(A)
        await asyncio.sleep(1)
        running.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running.task
    assert cleaned == [pytest.approx(12)]


async def test_a_second_cancellation_cancels_reconciles_at_once() -> None:
    """Cancelling `start` again cancels the reconciles at once."""

    async def slow(_: Request) -> None:
        await asyncio.sleep(10**6)

    async with Running(slow, shutdown_timeout=1000) as running:
        running.channel.send(A)
        await asyncio.sleep(1)
        running.task.cancel()
        await asyncio.sleep(1)
        assert not running.task.done()
        running.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running.task
        assert running.now() == pytest.approx(2)


async def test_a_reconcile_that_ignores_its_cancellation_is_named() -> None:
    """The ShutdownTimeoutError has the key of the reconcile."""
    free = asyncio.Event()

    async def deaf(_: Request) -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    gate = Gate()
    async with Running(deaf, gate, shutdown_timeout=1) as running:
        running.channel.send(A)
        await asyncio.sleep(1)
        running.task.cancel()
        with pytest.raises(ShutdownTimeoutError, match="ns/a"):
            await running.task
        assert gate.closed == 1
    free.set()
    await asyncio.sleep(1)


@pytest.mark.behaviour(90)
@pytest.mark.parametrize("cancels", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(12))
async def test_a_cancellation_at_any_moment_leaves_no_task(seed: int, cancels: int) -> None:
    """A cancelled `start` ends, closes every source and leaves no task, whenever it is cancelled."""
    rng = random.Random(seed * 10 + cancels)
    world = World(THING, WIDGET, seed=seed)
    for n in range(5):
        world.server(WIDGET).put(f"w{n}")
        world.server(THING).put(f"t{n}")

    async def reconcile(_: Request) -> None:
        try:
            await asyncio.sleep(rng.choice([0, 0.01, 1, 100]))
        finally:
            await asyncio.sleep(rng.choice([0, 0.01, 1]))

    caching = asyncio.create_task(world.cache.start())
    gates = [Gate(start=rng.random() / 10, sync=rng.random() / 10) for _ in range(3)]
    sources: list[EventSource] = [
        KindSource(world.cache, WIDGET, EnqueueRequestForObject()),
        KindSource(world.cache, THING, EnqueueRequestForOwner(WIDGET)),
        *gates,
    ]
    options = ControllerOptions(max_concurrent_reconciles=3, shutdown_timeout=5)
    controller = Controller("c", reconcile, sources=sources, options=options)
    task = asyncio.create_task(controller.start())
    for _ in range(cancels):
        for _ in range(rng.randrange(30)):
            await asyncio.sleep(rng.choice([0, 0, 0.001, 0.02]))
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    # Cancelled before its first step it never began, and a task that never ran has nothing to close.
    assert controller.state in (ControllerState.STOPPED, ControllerState.NEW)
    assert all(gate.closed == (controller.state is ControllerState.STOPPED) for gate in gates)
    caching.cancel()
    await asyncio.gather(caching, return_exceptions=True)


async def test_events_of_owned_objects_reconcile_their_owner() -> None:
    """Owned objects are mapped to their owner through informers, also with faults of the server."""
    world = World(THING, WIDGET, seed=3)
    things = world.server(THING)
    things.fault_rate = 0.1
    counts: Counter[str] = Counter()

    async def reconcile(request: Request) -> None:
        counts[str(request)] += 1

    caching = asyncio.create_task(world.cache.start())
    async with Running(reconcile, KindSource(world.cache, THING, EnqueueRequestForOwner(WIDGET))):
        for n in range(10):
            things.put(f"t{n}")
            things.objects[f"t{n}"]["metadata"]["ownerReferences"] = [owner(WIDGET, f"w{n % 3}")]
        await asyncio.sleep(100)
        assert set(counts) == {"ns/w0", "ns/w1", "ns/w2"}
    caching.cancel()
    await asyncio.gather(caching, return_exceptions=True)


# ------------------------------------------------------------------ mistakes
def test_wrong_arguments_raise_usage_error() -> None:
    """Invalid names, options, results and reconcilers raise UsageError at once."""

    class Reconciler:
        async def reconcile(self, request: Request) -> None: ...

    with pytest.raises(UsageError, match="needs a name"):
        Controller("", _nothing)
    with pytest.raises(UsageError, match="at least 1"):
        ControllerOptions(max_concurrent_reconciles=0)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="requeue_after"):
            Result(requeue_after=wrong)
    with pytest.raises(UsageError, match=r"Reconciler\(\.\.\.\)"):
        inspect_reconciler(Reconciler, None)
    with pytest.raises(UsageError, match="is not a reconciler"):
        inspect_reconciler(5, None)
    assert inspect_reconciler(Reconciler(), None).form is ReconcilerForm.REQUEST


@pytest.mark.behaviour(87)
async def test_a_standby_warms_its_queue_and_reconciles_nothing() -> None:
    """Sources run before the start; with the start each source is started once and the workers take over."""
    names: list[str] = []
    gate = Gate(start=1, sync=5)
    channel = Channel("test")
    channel.send(Request("ns", "a"))

    async def reconcile(request: Request) -> None:
        names.append(request.name)

    controller = Controller("c", reconcile, sources=[gate, ChannelSource(channel)])
    warming = asyncio.create_task(controller.warmup())
    await asyncio.sleep(10)
    assert (gate.started, names, len(controller.queue)) == (1, [], 1)
    running = asyncio.create_task(controller.start())
    await asyncio.sleep(10)
    assert (gate.started, gate.closed, names) == (1, 0, ["a"])
    assert warming.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert gate.closed == 1


@pytest.mark.behaviour(86)
async def test_a_source_added_during_the_warm_up_starts_once() -> None:
    """A source that is added during the warm-up starts once."""
    gate = Gate()
    controller = Controller("c", _nothing, sources=[Gate()])
    warming = asyncio.create_task(controller.warmup())
    await asyncio.sleep(10)
    await controller.watch(gate)
    running = asyncio.create_task(controller.start())
    await asyncio.sleep(10)
    assert gate.started == 1
    for task in (running, warming):
        task.cancel()
    await asyncio.gather(running, warming, return_exceptions=True)
    assert gate.closed == 1


@pytest.mark.behaviour(90)
async def test_a_standby_that_never_leads_closes_its_sources() -> None:
    """Cancelled during the warm-up or after it, the sources are closed and nothing was reconciled."""
    for seconds in (1, 100):
        gate = Gate(sync=5)
        controller = Controller("c", _nothing, sources=[gate])
        warming = asyncio.create_task(controller.warmup())
        await asyncio.sleep(seconds)
        warming.cancel()
        await asyncio.gather(warming, return_exceptions=True)
        assert gate.closed == 1
        assert controller.state is ControllerState.STOPPED


@pytest.mark.behaviour(87)
async def test_warm_up_can_be_switched_off() -> None:
    """Without warm-up, sources start with the controller."""
    gate = Gate()
    controller = Controller("c", _nothing, sources=[gate], options=ControllerOptions(enable_warmup=False))
    await controller.warmup()
    assert gate.started == 0


async def test_the_first_failing_source_is_reported_at_once() -> None:
    """The error does not wait for a source that needs two minutes."""
    slow, broken = Gate(sync=115), Gate(error=UsageError("wrong"))
    controller = Controller("c", _nothing, sources=[slow, broken])
    with pytest.raises(UsageError):
        await controller.start()
    assert asyncio.get_running_loop().time() < 1
    assert slow.closed == broken.closed == 1


async def test_a_reconcile_that_hangs_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """After a minute the log has the key of the reconcile, and the options that limit it."""

    async def forever(request: Request) -> None:
        await asyncio.sleep(10_000)

    async with Running(forever, shutdown_timeout=0) as running:
        running.channel.send(Request("ns", "stuck"))
        await asyncio.sleep(61)
        assert "ns/stuck has been running for 60 s" in caplog.text


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_reconcile_is_named_once_from_any_start(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """The timer is due exactly a minute after the start. By rounding, their difference may be less than a minute.

    Virtual time then stood still.
    """

    async def slow(_: Request) -> None:
        await asyncio.sleep(70)

    async def main() -> None:
        await asyncio.sleep(random.Random(seed).random() * 10)
        async with Running(slow) as running:
            running.channel.send(Request("ns", "stuck"))
            await asyncio.sleep(100)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())
    assert caplog.text.count("ns/stuck has been running for 60 s") == 1


async def test_requeue_after_takes_a_timedelta() -> None:
    """Seconds and timedelta mean the same."""
    assert Result(requeue_after=timedelta(minutes=1)).requeue_seconds == Result(requeue_after=60).requeue_seconds
    with pytest.raises(UsageError, match="at least 0"):
        Result(requeue_after=timedelta(seconds=-1))


async def test_a_source_can_be_removed() -> None:
    """A removed source is closed, and the other sources continue."""
    gate = Gate()
    names: list[str] = []

    async def reconcile(request: Request) -> None:
        names.append(request.name)

    async with Running(reconcile, gate) as running:
        await running.controller.unwatch(gate)
        await running.controller.unwatch(gate)
        assert gate.closed == 1
        running.channel.send(Request("ns", "a"))
        await asyncio.sleep(1)
        assert names == ["a"]
    assert gate.closed == 1


@pytest.mark.parametrize("removed", [True, False])
async def test_nothing_waits_for_a_source_that_is_gone(removed: bool) -> None:
    """Neither after its removal nor after the end of the controller, also if it never syncs."""
    gate = Gate(sync=1e6)

    async def reconcile(request: Request) -> None: ...

    async with Running(reconcile) as running:
        await running.controller.watch(gate)
        await asyncio.sleep(300)
        assert any("sync <Gate>" in task.get_name() for task in asyncio.all_tasks())
        if removed:
            await running.controller.unwatch(gate)
            await asyncio.sleep(1)
            assert not any("sync <Gate>" in task.get_name() for task in asyncio.all_tasks())
    await asyncio.sleep(1)
    assert not any("sync <Gate>" in task.get_name() for task in asyncio.all_tasks())
