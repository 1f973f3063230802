"""Which exceptions of user code stay with their object."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from cache_events import view

from opsdk.aio.containment import cancellations, contain, is_contained, is_panic, leaf_errors
from opsdk.cache.entry import TRANSFORM, make_entry
from opsdk.controller.finalizers import Finalizers
from opsdk.event.sources import FuncSource
from opsdk.event.timers import PollSource
from opsdk.queue.work_queue import WorkQueue
from opsdk.telemetry.describe import describe, repr_of
from opsdk.telemetry.records import Hooks, Record, TelemetryHook, Workers
from opsdk.webhook.calls import call_user_function


class Panic(BaseException):
    """As PyO3's PanicException: no Exception."""


RAISED = [
    Panic("native"),
    GeneratorExit(),
    asyncio.CancelledError(),
    BaseExceptionGroup("group", [Panic(), ValueError()]),
    RecursionError(),
    ValueError("usual"),
]
every_error = pytest.mark.parametrize("error", RAISED, ids=repr)


@every_error
def test_an_error_of_a_function_is_contained(error: BaseException) -> None:
    """Any error of a function becomes an Exception, with the original as cause if it is none."""
    assert is_contained(error)
    exception = contain(error)
    assert isinstance(exception, Exception)
    assert error in (exception, exception.__cause__)
    assert is_panic(exception) is is_panic(error) is (not isinstance(error, Exception))


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(1), BaseExceptionGroup("g", [ValueError(), SystemExit(1)])], ids=repr
)
def test_an_exit_is_not_contained(error: BaseException) -> None:
    """KeyboardInterrupt and SystemExit end the process, also in a group."""
    assert not is_contained(error)
    with pytest.raises(type(error)):
        contain(error)


async def test_the_own_cancellation_of_a_task_is_not_contained() -> None:
    """A task's own cancellation is not contained, also after an earlier one that a library caught."""
    verdicts: list[bool] = []

    async def work() -> None:
        task = asyncio.current_task()
        for _ in range(2):
            before = cancellations(task)
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError as error:
                verdicts.append(is_contained(error, task=task, cancelling=before))
            verdicts.append(is_contained(asyncio.CancelledError(), task=task, cancelling=cancellations(task)))

    task = asyncio.create_task(work())
    for _ in range(2):
        await asyncio.sleep(1)
        task.cancel()
    await task
    assert verdicts == [False, True, False, True]


async def test_the_end_of_a_coroutine_is_not_contained() -> None:
    """A coroutine that is closed gets a GeneratorExit, and must not go on."""
    verdicts: list[bool] = []

    async def work(task: asyncio.Task[Any]) -> None:
        try:
            await asyncio.sleep(100)
        except GeneratorExit as error:
            verdicts.append(is_contained(error, task=task))
            raise

    other = asyncio.create_task(asyncio.sleep(0))
    coroutine = work(other)
    coroutine.send(None)
    coroutine.close()
    await other
    gc.collect()
    assert verdicts == [False]


def test_groups_are_walked_at_any_depth() -> None:
    """20,000 groups within each other have one error, and a text."""
    error: BaseException = Panic("deep")
    for _ in range(20_000):
        error = BaseExceptionGroup("group", [error])
    assert [repr(leaf) for leaf in leaf_errors(error)] == ["Panic('deep')"]
    assert is_panic(error)
    assert describe(error)[1]


def test_an_error_without_a_text_is_described() -> None:
    """An error whose text raises is described by its class."""

    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise Panic

        __repr__ = __str__

    assert "UnprintableError" in describe(UnprintableError())[0]
    assert "UnprintableError" in repr_of(UnprintableError())


# ------------------------------------------------------------------ where user code is called
@every_error
async def test_finalizers_contain_errors(error: BaseException) -> None:
    """The finalizer of a function that raises stays; the other functions are called."""

    async def fails(obj: Any, ctx: Any) -> None:
        raise error

    async def works(obj: Any, ctx: Any) -> None: ...

    obj = view(finalizers=["demo.dev/a", "demo.dev/b"], deletionTimestamp="2026-01-01T00:00:00Z").object
    result = await Finalizers({"demo.dev/a": fails, "demo.dev/b": works}).finalize(obj, None)
    assert obj.metadata.finalizers == ["demo.dev/a"]
    assert len(result.errors) == 1


@every_error
def test_transforms_and_indices_contain_errors(error: BaseException) -> None:
    """The object is stored, and the problem is reported."""

    def fails(_: Any) -> Any:
        raise error

    data = b'{"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1"}}'
    entry, problems = make_entry(data, {"owner": fails}, fails)
    assert entry.key.name == "a"
    assert {problem.function for problem in problems} == {TRANSFORM, "index 'owner'"}


@every_error
async def test_a_poll_contains_errors(error: BaseException) -> None:
    """The poll is retried, and its failure is reported meanwhile."""
    answers: list[Any] = [error, {"a": 1}]

    async def poll() -> dict[str, int]:
        answer = answers.pop(0) if answers else {"a": 1}
        if isinstance(answer, BaseException):
            raise answer
        return answer

    source, queue = PollSource(poll, 10), WorkQueue[str]()
    await source.start(queue)
    await asyncio.sleep(0)
    assert source.failing_functions()
    await asyncio.sleep(60)
    assert (len(queue), source.problem(), source.failing_functions()) == (1, "", [])
    await source.aclose()


@every_error
async def test_a_producer_that_ends_is_reported(error: BaseException) -> None:
    """Readiness says so, whatever it raised."""

    async def produce(queue: WorkQueue[Any]) -> None:
        raise error

    source = FuncSource(produce)
    await source.start(WorkQueue())
    await asyncio.sleep(1)
    assert "produce" in source.problem()
    await source.aclose()


@every_error
async def test_a_webhook_contains_errors(error: BaseException) -> None:
    """The call becomes an error response, counted as a panic."""

    async def handle() -> None:
        raise error

    result = await call_user_function(handle(), name="hook", seconds=10)
    assert result.panicked
    assert type(error).__name__ in result.failure


@every_error
def test_telemetry_hooks_contain_errors(error: BaseException) -> None:
    """The other hooks get the record."""

    class Broken(TelemetryHook):
        def record(self, record: Record) -> None:
            raise error

    class Kept(TelemetryHook):
        def __init__(self) -> None:
            self.records: list[Record] = []

        def record(self, record: Record) -> None:
            self.records.append(record)

    recorder = Kept()
    Hooks([Broken(), recorder]).record(Workers(controller="c", limit=1, queue=WorkQueue[str]().core))
    assert len(recorder.records) == 1
