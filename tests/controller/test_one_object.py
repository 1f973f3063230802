"""What happens for one object stays with that object, wherever an exception is raised."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from boxes import Box, box, environment, running

import opsdk
from opsdk import Client, Cluster, Context, ControllerOptions, ObjectMeta, Operator, Request, Unstructured, crd_for
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.client.patch import merge_patch
from opsdk.controller.daemons import DaemonSpec
from opsdk.controller.pausing import Pausing
from opsdk.controller.request_processor import RequestProcessor
from opsdk.controller.retries import RetryLimit
from opsdk.controller.worker_pool import WorkerPool
from opsdk.queue.core import QueueItem
from opsdk.queue.fairness import Fairness
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter
from opsdk.queue.work_queue import WorkQueue
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.records import Reconciled, TelemetryHook

_SOURCES = f"{Path(opsdk.__file__).parent}/"
# What a controller calls. Whatever is raised below comes out of these.
_WALKED = tuple(
    f"{_SOURCES}{name}/"
    for name in ("aio", "base", "children", "client", "cluster", "controller", "queue", "telemetry")
)
# More than the calls of the longest first pass, which the test checks.
CALLS = 780

# More than the calls of `retry_after_error` and of `WorkQueue.done`, which the test checks.
RETRY_CALLS, DONE_CALLS = 90, 20


@cache
def _is_walked(file: str) -> bool:
    return file.startswith(_WALKED)


@types.coroutine
def in_steps(coroutine: Coroutine[Any, Any, None], trace: Callable[..., None]) -> Generator[Any, Any, None]:
    """Run a coroutine with a trace function, which other tasks do not have."""
    step = partial(coroutine.send, None)
    while True:
        sys.settrace(trace)
        try:
            waits_for = step()
        except StopIteration:
            return
        finally:
            sys.settrace(None)
        try:
            step = partial(coroutine.send, (yield waits_for))
        except BaseException as error:  # noqa: BLE001 - a cancellation, for the coroutine
            step = partial(coroutine.throw, error)


class UnprintableError(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Panic(BaseException):
    """What a native library raises."""


FAULTS: Sequence[Callable[[], BaseException]] = (
    lambda: ValueError("bad \udce9 bytes"),
    UnprintableError,
    lambda: Panic("native"),
    asyncio.CancelledError,
)


class RaisingWalk:
    """Raises in one call that a worker makes for each object, in its first pass.

    For the object with the number n, it is the call `step` * n or the next one.

    The calls are those of opsdk's functions, and the continuations of its coroutines, between the end of
    `WorkQueue.get` and the call of `WorkQueue.done`.

    Args:
        first: 0 for the calls `step` * n, 1 for the next ones. The next call has the next fault.
        step: calls from one object's to that of the next object. With 2, each call raises for one object.
    """

    def __init__(self, first: int, step: int) -> None:
        self._first, self._step = first, step
        self._name = ""
        self.calls = Counter[str]()
        self.raised: dict[str, str] = {}
        """The function that raised, by object."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Count a call, and raise in the one of its object."""
        name = self._name
        if not name or not _is_walked(frame.f_code.co_filename):
            return
        self.calls[name] += 1
        number = int(name.rpartition("-")[2])
        if self.calls[name] == self._step * number + self._first:
            self.raised[name] = frame.f_code.co_name
            fault = FAULTS[(self._first + number) % len(FAULTS)]
            raise fault()

    @contextmanager
    def walking(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Walk while the block runs."""
        get, done, work = WorkQueue.get, WorkQueue.done, WorkerPool._work

        async def get_and_walk(queue: WorkQueue[Any]) -> QueueItem[Any]:
            queue_item = await get(queue)
            name = queue_item.item.name
            self._name = "" if name in self.calls else name  # else not the first pass
            return queue_item

        def done_and_walk(queue: WorkQueue[Any], item: Any) -> None:
            self._name = ""
            sys.settrace(self)  # a trace function that raises is removed
            done(queue, item)

        async def work_in_steps(pool: WorkerPool, requests: RequestProcessor) -> None:
            await in_steps(work(pool, requests), self)

        with monkeypatch.context() as patch:
            patch.setattr(WorkQueue, "get", get_and_walk)
            patch.setattr(WorkQueue, "done", done_and_walk)
            patch.setattr(WorkerPool, "_work", work_in_steps)
            yield


class RetryWalk(RaisingWalk):
    """Raises in one call of `RequestProcessor.retry_after_error`, then of `WorkQueue.done`.

    Args:
        fails: the first pass of each object raises outside of the reconciler, so both are called. Else only `done` is.
    """

    def __init__(self, *, fails: bool) -> None:
        super().__init__(first=1, step=1)
        self._fails = fails
        self._begun: set[str] = set()

    @contextmanager
    def walking(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Walk while the block runs."""
        reconcile, retry = RequestProcessor.reconcile, RequestProcessor.retry_after_error
        done, work = WorkQueue.done, WorkerPool._work
        finished: set[str] = set()

        def reconcile_or_raise(requests: RequestProcessor, queue_item: QueueItem[Any]) -> Coroutine[Any, Any, Any]:
            name = queue_item.item.name
            if self._fails and name not in self._begun:
                self._begun.add(name)
                raise OSError("no route")
            return reconcile(requests, queue_item)

        def retry_and_walk(requests: RequestProcessor, queue_item: QueueItem[Any], error: BaseException) -> None:
            self._name = queue_item.item.name
            retry(requests, queue_item, error)

        def done_and_walk(queue: WorkQueue[Any], item: Any) -> None:
            self._name = "" if item.name in finished else item.name
            finished.add(item.name)
            sys.settrace(self)  # a trace function that raises is removed
            try:
                done(queue, item)
            finally:
                self._name = ""

        async def work_in_steps(pool: WorkerPool, requests: RequestProcessor) -> None:
            await in_steps(work(pool, requests), self)

        with monkeypatch.context() as patch:
            patch.setattr(RequestProcessor, "reconcile", reconcile_or_raise)
            patch.setattr(RequestProcessor, "retry_after_error", retry_and_walk)
            patch.setattr(WorkQueue, "done", done_and_walk)
            patch.setattr(WorkerPool, "_work", work_in_steps)
            yield


class Outcomes(TelemetryHook):
    """Counts the failures."""

    def __init__(self) -> None:
        self.failures = 0

    def record(self, record: object) -> None:
        """Count a failure."""
        self.failures += isinstance(record, Reconciled) and record.error is not None


def make_operator(failing: int) -> Operator:
    """Return an operator of boxes with everything that a controller does around a reconcile.

    Args:
        failing: 0 fails in the first pass of each box with an even number, 1 of those with an odd one.
    """
    operator = Operator("boxes")
    tried: set[str] = set()

    async def clean_up(obj: Box, ctx: Context) -> None:
        pass

    async def monitor(obj: Box, ctx: Context) -> None:
        await asyncio.sleep(3600)

    @operator.reconciler(
        Box,
        owns=[ConfigMap],
        finalizers={"tests.opsdk.dev/clean-up": clean_up},
        daemons=[DaemonSpec(function=monitor)],
        options=ControllerOptions(
            rate_limiter=ItemExponentialFailureRateLimiter[Any](base=1, cap=60),
            error_condition="Stalled",
            ready_condition="Ready",
            retry_limit=RetryLimit(attempts=50),
            reconciliation_timeout=30,
            max_interval=3600,
            last_reconciled="annotation",
            pausing=Pausing(condition="Paused"),
        ),
    )
    async def reconcile(obj: Box, ctx: Context) -> None:
        name = obj.metadata.name
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=name), data={"size": str(obj.spec.size)}))
        if int(name.rpartition("-")[2]) % 2 == failing and name not in tried:
            tried.add(name)
            raise OSError("no route")
        async with ctx.status(obj) as patch:
            patch.status.size = obj.spec.size

    return operator


async def stopped(task: asyncio.Task[None]) -> None:
    """Stop an operator."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def collected() -> Iterator[None]:
    """Collect what a test leaves, within its filters of warnings: a coroutine or generator whose call raised."""
    yield
    gc.collect()


@pytest.mark.usefixtures("collected")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine .* was never awaited")
@pytest.mark.slow
@pytest.mark.parametrize("step", [4, pytest.param(2, marks=pytest.mark.deep)])
async def test_whatever_raises_while_an_object_is_reconciled(
    step: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The operator goes on, the object is retried and counted, and the other objects too, also after a restart."""
    caplog.set_level(logging.CRITICAL)  # thousands of tracebacks
    names = [f"box-{number}" for number in range(CALLS // step)]
    async with environment.Environment(crds=[crd_for(Box)]) as env, Cluster(env.config) as outside:
        client = outside.uncached
        for name in names:
            await client.create(box(name))
        for start in range(2):
            walk, outcomes = RaisingWalk(start, step), Outcomes()
            with walk.walking(monkeypatch):
                task = asyncio.create_task(make_operator(failing=start).start(env.config, hooks=[outcomes]))
                await asyncio.sleep(200)
            assert not task.done()
            boxes = await client.list(Box, namespace="default")
            assert [b.metadata.name for b in boxes if b.status is None or b.status.size != b.spec.size] == []
            assert outcomes.failures >= len(walk.raised) > len(names) // 2
            # The last objects have no call left, in passes that fail and in passes that do not.
            assert {0, 1} <= {int(name.rpartition("-")[2]) % 2 for name in names if name not in walk.raised}
            await stopped(task)
            for name in names:
                await client.patch(box(name), merge_patch({"spec": {"size": 2 + start}}))


@pytest.mark.slow
@pytest.mark.usefixtures("collected")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("fails", [True, False], ids=["retry and done", "done"])
@pytest.mark.parametrize("fairness", [None, Fairness()], ids=["in order", "fair"])
async def test_whatever_raises_while_a_worker_queues_a_retry(
    fails: bool, fairness: Fairness | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception there, or at the end of a pass, ends no worker: the object is retried and counted."""
    caplog.set_level(logging.CRITICAL)
    operator, outcomes, walk = Operator("boxes"), Outcomes(), RetryWalk(fails=fails)

    @operator.reconciler(Box, options=ControllerOptions(fairness=fairness))
    async def reconcile(obj: Box, ctx: Context) -> None:
        async with ctx.status(obj) as patch:
            patch.status.size = obj.spec.size

    names = [f"box-{number}" for number in range(RETRY_CALLS if fails else DONE_CALLS)]
    async with environment.Environment(crds=[crd_for(Box)]) as env, Cluster(env.config) as outside:
        client = outside.uncached
        for name in names:
            await client.create(box(name))
        with walk.walking(monkeypatch):
            task = asyncio.create_task(operator.start(env.config, hooks=[outcomes]))
            await asyncio.sleep(100)
            for size in (2, 3):
                for name in names:
                    await client.patch(box(name), merge_patch({"spec": {"size": size}}))
                await asyncio.sleep(100)
                assert not task.done()
                boxes = await client.list(Box, namespace="default")
                assert [b.metadata.name for b in boxes if b.status is None or b.status.size != size] == []
        # The queue logs what its hooks raise, and continues.
        assert outcomes.failures > len(walk.raised) // 2 > 4
        assert names[-1] not in walk.raised, "there are more calls than objects"
        await stopped(task)


@pytest.mark.parametrize("broken", [["done"], ["done", "recover"]], ids=["done", "done and recover"])
async def test_a_queue_that_always_raises_for_one_object_serves_the_others(
    broken: Sequence[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Even where nothing can be repaired, only the object itself is lost, and a critical line says so."""
    operator, passes = Operator("boxes"), Counter[str]()

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        passes[obj.metadata.name] += 1

    def break_for_bad(name: str) -> None:
        works = getattr(WorkQueue, name)

        def raising(queue: WorkQueue[Any], item: Any, **options: Any) -> None:
            if item.name == "bad":
                raise MemoryError
            works(queue, item, **options)

        monkeypatch.setattr(WorkQueue, name, raising)

    for name in broken:
        break_for_bad(name)
    async with running(operator) as client:
        await client.create(box("bad"))
        await client.create(box("good"))
        await asyncio.sleep(100)
        await client.patch(box("good"), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(100)
    assert passes["good"] == 2
    assert (passes["bad"] > 2) == ("recover" not in broken)
    assert any(record.levelno == logging.CRITICAL for record in caplog.records) == ("recover" in broken)


# ------------------------------------------------------------------ objects that their class cannot decode
def lenient_definition() -> JsonObject:
    """Return the definition of boxes, with a spec that may be anything."""
    definition = crd_for(Box)
    [version] = definition["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return definition


def malformed(name: str = "bad") -> Unstructured:
    """Return a box whose size is no number."""
    tree = {"metadata": {"name": name, "namespace": "default"}, "spec": {"size": "large"}}
    return Unstructured.from_tree({"apiVersion": Box.gvk.api_version, "kind": "Box", **tree})


async def condition_of(client: Client, name: str, type: str) -> JsonObject | None:
    """Return a condition of a box that may be malformed."""
    obj = await client.get(unstructured_kind(Box.gvk.api_version, "Box"), f"default/{name}")
    return next((c for c in obj.get("status", "conditions") or [] if c["type"] == type), None)


@pytest.mark.parametrize(
    "options",
    [
        ControllerOptions(max_interval=60),
        ControllerOptions(max_interval=60, error_condition="Stalled", ready_condition="Ready"),
        ControllerOptions(hot_loop_limit=1, retry_limit=RetryLimit(attempts=3)),
        ControllerOptions(last_reconciled="annotation", pausing=Pausing(condition="Paused")),
    ],
    ids=["interval", "conditions", "limits", "record"],
)
@pytest.mark.parametrize("form", ["object", "request"])
async def test_a_malformed_object_ends_no_operator(options: ControllerOptions, form: str) -> None:
    """The other objects are reconciled, whatever the options are, also by an operator that is started later."""
    passes = Counter[str]()

    def make() -> Operator:
        operator = Operator("boxes")
        if form == "object":

            @operator.reconciler(Box, options=options)
            async def reconcile_object(obj: Box) -> None:
                passes[obj.metadata.name] += 1
        else:

            @operator.reconciler(Box, options=options)
            async def reconcile(request: Request) -> None:
                passes[request.name] += 1

        return operator

    async with environment.Environment(crds=[lenient_definition()]) as env, Cluster(env.config) as outside:
        await outside.uncached.create(malformed())
        await outside.uncached.create(box("good"))
        for size in (1, 2):
            task = asyncio.create_task(make().start(env.config))
            await asyncio.sleep(200)
            assert passes["good"] >= size
            assert not task.done()
            await stopped(task)


async def test_a_malformed_object_shows_why_it_fails() -> None:
    """Its condition and its Event are written, though its class cannot decode it."""
    operator = Operator("boxes")

    @operator.reconciler(Box, options=ControllerOptions(error_condition="Stalled", retry_limit=RetryLimit(attempts=3)))
    async def reconcile(obj: Box) -> None:
        pass

    async with environment.Environment(crds=[lenient_definition()]) as env, Cluster(env.config) as outside:
        await outside.uncached.create(malformed())
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(200)
        condition = await condition_of(outside.uncached, "bad", "Stalled")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("True", "RetryLimitExceeded")
        assert "spec.size" in condition["message"]
        [event] = [e for e in await outside.uncached.list(Event, namespace="default") if e.type == "Warning"]
        assert event.reason == "RetryLimitExceeded"
        # Repaired, it is reconciled.
        await outside.uncached.patch(box("bad"), merge_patch({"spec": {"size": 2}}))
        await asyncio.sleep(10)
        condition = await condition_of(outside.uncached, "bad", "Stalled")
        assert condition is not None
        assert condition["status"] == "False"
        await stopped(task)


async def test_a_daemon_outlives_an_object_that_does_not_decode() -> None:
    """The daemon reads its object again until it decodes."""
    operator, sizes = Operator("boxes"), list[int]()

    @operator.daemon(Box, every=10)
    async def monitor(obj: Box, ctx: Context) -> None:
        sizes.append(obj.spec.size)

    async with environment.Environment(crds=[lenient_definition()]) as env, Cluster(env.config) as outside:
        await outside.uncached.create(box())
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(15)
        await outside.uncached.patch(malformed("a"), merge_patch({"spec": {"size": "large"}}))
        await asyncio.sleep(60)
        before = len(sizes)
        await outside.uncached.patch(box(), merge_patch({"spec": {"size": 7}}))
        await asyncio.sleep(120)
        assert 7 in sizes[before:]
        await stopped(task)


# ------------------------------------------------------------------ texts of errors
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad \udce9 bytes"), "bad \\udce9 bytes"),
        (ValueError(), "ValueError"),
        (UnprintableError(), "its text cannot be shown: RuntimeError"),
        (ExceptionGroup("two", [ValueError("\ud800"), UnprintableError()]), "two"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), "surrogates not allowed"),
    ],
    ids=["surrogate", "empty", "unprintable", "group", "encoding"],
)
async def test_any_error_has_a_text_for_the_object(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The condition and the Event of a failed reconcile are written, whatever the text of the error is."""
    caplog.set_level(logging.CRITICAL)  # pytest-xdist cannot send the tracebacks
    operator = Operator("boxes")

    @operator.reconciler(Box, options=ControllerOptions(error_condition="Stalled", retry_limit=RetryLimit(attempts=2)))
    async def reconcile(obj: Box) -> None:
        raise error

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        condition = await condition_of(client, "a", "Stalled")
        assert condition is not None
        assert text in condition["message"]
        assert [e.reason for e in await client.list(Event, namespace="default")] == ["RetryLimitExceeded"]


class BrokenLimiter(ItemExponentialFailureRateLimiter[Any]):
    """A rate limiter of an author that raises."""

    def when(self, item: Any, *, now: float) -> float:
        """Raise."""
        raise LookupError(item)


async def test_a_broken_rate_limiter_ends_no_worker() -> None:
    """A failed request is retried after a minute where the rate limiter raises."""
    operator, times = Operator("boxes"), list[float]()

    @operator.reconciler(Box, options=ControllerOptions(rate_limiter=BrokenLimiter()))
    async def reconcile(obj: Box) -> None:
        times.append(asyncio.get_running_loop().time())
        raise OSError("no route")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(150)
    assert [round(b - a) for a, b in pairwise(times)] == [60, 60]
