"""Plain reconcilers and finalizers: they run in threads, with everything that async ones have."""
# ruff: noqa: D103 - some functions are examples of declarations: their names say what they are

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from boxes import Box, box, records, running, writes
from hypothesis import given
from hypothesis import strategies as st

from envtest import Environment
from opsdk import (
    Client,
    Cluster,
    Context,
    ControllerOptions,
    ObjectMeta,
    Operator,
    OperatorOptions,
    Request,
    Result,
    UsageError,
)
from opsdk.aio.blocking import BlockingPool, blocking, current_call
from opsdk.aio.clock import monotonic
from opsdk.aio.fence import FENCE
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.builder.arguments import WatchSpec
from opsdk.client.blocking import BlockingClient
from opsdk.client.client import SubResourceClient
from opsdk.client.generated_blocking import BlockingSubResourceClient
from opsdk.client.patch import MergeFrom, merge_patch
from opsdk.controller.blocking_context import BlockingContext
from opsdk.controller.blocking_status import BlockingStatusPatch
from opsdk.controller.status import StatusPatch
from opsdk.errors import LeaderElectionLostError
from opsdk.pods.blocking import BlockingPodClient
from opsdk.pods.client import PodClient
from opsdk.testing.loop import VirtualLoop

CLEAN_UP = "tests.opsdk.dev/clean-up"


def set_size(obj: Box, ctx: BlockingContext) -> None:
    """Copy the size to the status."""
    with ctx.status(obj) as patch:
        patch.status.size = obj.spec.size
        patch.set_condition("Ready", True, "Fits")


class WithState:
    """A reconciler with state."""

    def reconcile(self, obj: Box, ctx: BlockingContext) -> None:
        """Copy the size to the status."""
        set_size(obj, ctx)


def with_more(more: int, obj: Box, ctx: BlockingContext) -> None:
    """Copy the size to the status."""
    set_size(obj, ctx)


def by_request(request: Request, ctx: BlockingContext) -> Result | None:
    """Read the object itself."""
    obj = ctx.client.get_or_none(Box, request.key)
    if obj is not None:
        set_size(obj, ctx)
    return None


@pytest.mark.parametrize(
    "reconciler",
    [set_size, WithState(), WithState, functools.partial(with_more, 3), by_request],
    ids=["function", "object", "class", "partial", "request"],
)
async def test_every_form_of_a_plain_function_reconciles_once(reconciler: Any) -> None:
    """The status write of a plain function, with a condition, starts no second reconcile."""
    operator = Operator("boxes")
    operator.reconciler(Box)(reconciler)
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        stored = await client.get(Box, "default/a")
        assert stored.status is not None
        assert stored.status.size == 1
        assert stored.status.conditions[0].last_transition_time is not None
        assert stored.status.conditions[0].last_transition_time.year == 2026
        (record,) = records(operator)
        assert writes(record) == ["patch status"]
        assert record.reads


async def test_the_context_has_every_step() -> None:
    """Children, Events, log lines, subresources, lists, pages, watches and other coroutines work in the thread."""
    operator = Operator("boxes")
    done: list[object] = []
    fields: list[Any] = []

    def keep_fields(record: logging.LogRecord) -> bool:
        fields.append(getattr(record, "opsdk", None))
        return True

    logger = logging.getLogger("tests.blocking")
    logger.addFilter(keep_fields)

    @operator.reconciler(Box, owns=[ConfigMap], options=ControllerOptions(reconciliation_timeout=30))
    def reconcile(obj: Box, ctx: BlockingContext) -> None:
        if done:
            return
        began = monotonic()
        ctx.sleep(2)
        done.append((monotonic() - began, ctx.remaining))
        logger.warning("at work")
        child = ctx.apply(ConfigMap(metadata=ObjectMeta(name="child"), data={"size": "1"}))
        done.append(child.metadata.owner_references is not None)
        ctx.event("Sized", "the size is 1")
        before = obj.metadata.resource_version
        obj.metadata.labels = {"sized": "yes"}
        ctx.client.patch(obj, MergeFrom())
        done.append(obj.metadata.resource_version != before)
        done.append([o.metadata.name for o in ctx.client.list_pages(ConfigMap, namespace="default")])
        with ctx.client.watch(ConfigMap, namespace="default") as events:
            done.append(next(events).object.metadata.name)
        done.append(ctx.run(ctx_value()))
        ctx.client.delete(ConfigMap, "child", namespace="default")
        ctx.client.status().patch(obj, merge_patch({"status": {"size": 7}}))

    async def ctx_value() -> int:
        await asyncio.sleep(1)
        return 42

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        assert [e.reason for e in await client.list(Event)] == ["Sized"]
    assert done == [(2, 28), True, True, ["child"], "child", 42]
    assert (fields[0]["controller"], fields[0]["name"]) == ("box", "a")
    assert fields[0]["reconcileID"]


async def test_a_plain_finalizer_runs_in_a_thread() -> None:
    """A plain finalizer may wait with a `Result`; an error keeps the object."""
    operator = Operator("boxes")
    calls: list[bool] = []

    def clean_up(obj: Box, ctx: BlockingContext) -> Result | None:
        ctx.sleep(1)
        calls.append(ctx.finalizing)
        if len(calls) == 1:
            raise ValueError("not yet")
        return Result(requeue_after=5) if len(calls) == 2 else None

    operator.reconciler(Box, finalizers={CLEAN_UP: clean_up})(set_size)
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(5)
        await client.delete(box())
        await asyncio.sleep(30)
        assert await client.get_or_none(Box, "default/a") is None
    assert calls == [True] * 3


async def test_at_the_deadline_the_next_wait_raises() -> None:
    """The reconcile counts as timed out when its thread has ended, and is retried then, not before."""
    operator = Operator("boxes", OperatorOptions(controller=ControllerOptions(reconciliation_timeout=5)))
    steps: list[tuple[float, str]] = []

    @operator.reconciler(Box)
    def reconcile(obj: Box, ctx: BlockingContext) -> None:
        steps.append((monotonic(), "begins"))
        if len(steps) > 1:
            return
        try:
            ctx.sleep(60)
        except asyncio.CancelledError:
            steps.append((monotonic(), "is cancelled"))
            ctx._wait(asyncio.sleep(30), always=True)
            steps.append((monotonic(), "ends"))
            raise

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        first = records(operator)[0]
    began = steps[0][0]
    assert [(round(time - began, 1), step) for time, step in steps] == [
        (0, "begins"),
        (5, "is cancelled"),
        (35, "ends"),
        (35, "begins"),
    ]
    assert "TimeoutError" in first.detail


async def test_the_stop_cancels_a_thread_after_the_shutdown_timeout() -> None:
    """After the shutdown timeout a thread's wait raises, and the operator ends without an error."""
    operator = Operator("boxes", OperatorOptions(controller=ControllerOptions(shutdown_timeout=3)))
    raised: list[float] = []

    @operator.reconciler(Box)
    def reconcile(obj: Box, ctx: BlockingContext) -> None:
        try:
            ctx.sleep(3600)
        except asyncio.CancelledError:
            raised.append(monotonic())
            raise

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(10)
        stopped = monotonic()
    assert raised == [stopped + 3]


async def test_a_blocking_map_function_and_a_plain_one() -> None:
    """A decorated function reads with a `BlockingClient`; a plain one runs in the loop."""
    operator = Operator("boxes")

    @blocking
    def map_in_thread(config_map: ConfigMap) -> list[Request]:
        boxes = BlockingClient(operator.client).list(Box, namespace="default")
        return [Request("default", b.metadata.name) for b in boxes]

    requests: list[Request] = []

    @operator.reconciler(Box, watches=[WatchSpec(kind=ConfigMap, handler=map_in_thread)])
    def reconcile(request: Request) -> None:
        requests.append(request)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        await client.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="default")))
        await asyncio.sleep(1)
    assert requests == [Request("default", "a")] * 2


# ------------------------------------------------------------------ one thread for one key
SCHEDULES = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 8),  # seconds of work
        st.sampled_from(["lets it pass", "stays", "ignores it"]),
        st.integers(0, 5),  # seconds until the next change
    ),
    min_size=1,
    max_size=6,
)


@given(SCHEDULES, st.integers(1, 3))
@pytest.mark.slow
def test_a_key_is_never_in_two_threads(schedule: list[tuple[str, int, str, int]], workers: int) -> None:
    """After a deadline, a key waits for its thread; no more threads run than there are workers."""
    inside: Counter[str] = Counter()
    most: Counter[str] = Counter()
    plans = iter(schedule)
    options = ControllerOptions(reconciliation_timeout=3, max_concurrent_reconciles=workers)
    operator = Operator("boxes", OperatorOptions(controller=options))

    @operator.reconciler(Box)
    def reconcile(request: Request, ctx: BlockingContext) -> None:
        _, seconds, on_cancel, _ = next(plans, ("", 0, "", 0))
        for name in (request.name, "all"):
            inside[name] += 1
            most[name] = max(most[name], inside[name])
        try:
            ctx.sleep(seconds)
        except asyncio.CancelledError:
            if on_cancel == "lets it pass":
                raise
            ctx._wait(asyncio.sleep(4), always=True)
            if on_cancel == "stays":
                raise
        finally:
            for name in (request.name, "all"):
                inside[name] -= 1

    async def main() -> None:
        async with running(operator) as client:
            for name in "ab":
                await client.create(box(name))
            for number, (name, _, _, pause) in enumerate(schedule):
                await client.patch(box(name), merge_patch({"spec": {"size": number + 2}}))
                await asyncio.sleep(pause)
            await asyncio.sleep(30)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())
    assert most["a"] <= 1
    assert most["b"] <= 1
    assert 1 <= most["all"] <= workers
    assert not inside.total()


# ------------------------------------------------------------------ leadership
async def test_a_former_leader_does_not_write_from_a_thread() -> None:
    """A thread computes longer than the lease lasts: its next write is refused, and the operator ends."""
    operator = Operator("boxes", OperatorOptions(leader_election=True, leader_election_namespace="default"))
    loop: Any = asyncio.get_running_loop()
    refused: list[str] = []

    @operator.reconciler(Box)
    def reconcile(obj: Box, ctx: BlockingContext) -> None:
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


class Fallen:
    """The fence of a replica that has lost its lease."""

    def check(self, action: str) -> None:
        """Refuse every write."""
        raise LeaderElectionLostError(f"{action} was not sent")


@pytest.mark.realtime
async def test_the_fence_holds_in_real_threads() -> None:
    """The fence holds in the function's thread, and in one that it starts without context variables."""
    refused: list[str] = []

    def work(client: BlockingClient) -> None:
        try:
            client.create(ConfigMap(metadata=ObjectMeta(name="late", namespace="default")))
        except LeaderElectionLostError as error:
            refused.append(str(error))

    def work_twice(client: Client) -> None:
        work(BlockingClient(client))
        thread = threading.Thread(target=work, args=(BlockingClient(client, current_call()),))
        thread.start()
        thread.join()

    async with Environment() as env, Cluster(env.config) as cluster, BlockingPool("tests", 1) as pool:
        FENCE.set(Fallen())
        await pool.run(work_twice, cluster.uncached)
        FENCE.set(None)
        assert await cluster.uncached.get_or_none(ConfigMap, "default/late") is None
    assert [text.partition(" was")[0] for text in refused] == ["POST /api/v1/namespaces/default/configmaps"] * 2


# ------------------------------------------------------------------ names and bad input
@pytest.mark.parametrize(
    ("form", "blocking_form", "missing"),
    [
        (Context, BlockingContext, {"recorder", "specs", "progress", "fields"}),
        (Client, BlockingClient, {"executor"}),
        (PodClient, BlockingPodClient, {"open_exec", "attach", "open_port", "port_forward"}),
        (SubResourceClient, BlockingSubResourceClient, {"executor", "name"}),
        (StatusPatch, BlockingStatusPatch, set()),
    ],
)
def test_the_blocking_form_has_the_same_methods(form: type, blocking_form: type, missing: set[str]) -> None:
    """Every public name exists, with the same parameters, and none is a coroutine."""
    names = {name for name in dir(form) if not name.startswith("_")} - missing
    assert sorted(names - set(dir(blocking_form))) == []
    for name in sorted(names):
        method = getattr(form, name)
        if callable(method):
            other = getattr(blocking_form, name)
            assert list(inspect.signature(other).parameters) == list(inspect.signature(method).parameters), name
            assert not inspect.iscoroutinefunction(other)


def async_context(obj: Box, ctx: Context) -> None: ...
async def blocking_context(obj: Box, ctx: BlockingContext) -> None: ...
def other_context(obj: Box, ctx: Operator) -> None: ...
def generator(obj: Box, ctx: BlockingContext) -> Any:
    yield ctx


async def async_generator(obj: Box, ctx: Context) -> Any:
    yield ctx


@blocking
def decorated(obj: Box, ctx: BlockingContext) -> None: ...
def hides_async(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that is not async."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@hides_async
async def hidden(obj: Box, ctx: Context) -> None: ...


@pytest.mark.parametrize("is_finalizer", [False, True])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (async_context, "is a plain function.*'ctx' is declared as Context: annotate it with BlockingContext"),
        (functools.partial(async_context), "annotate it with BlockingContext"),
        (blocking_context, "is async.*'ctx' is declared as BlockingContext: annotate it with Context"),
        (other_context, "'ctx' gets the BlockingContext, but is declared as Operator"),
        (generator, "is a generator: return a value instead of `yield`"),
        (async_generator, "is a generator"),
        (decorated, "remove @blocking"),
        (hidden, "its decorator is not: declare the wrapper with `async def`"),
    ],
)
def test_a_wrong_function_is_refused_with_file_and_line(function: Any, message: str, is_finalizer: bool) -> None:
    """A wrong reconciler or finalizer function is refused, with its file and line."""
    operator = Operator("boxes")
    with pytest.raises(UsageError, match=message) as raised:
        operator.reconciler(Box, finalizers={CLEAN_UP: function} if is_finalizer else {})(function)
    target = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    assert f"{__file__}:{target.__code__.co_firstlineno}" in str(raised.value)


@pytest.mark.parametrize("threads", [-1, True, 1.5, "4"])
def test_a_wrong_number_of_threads_is_refused(threads: Any) -> None:
    """The number of threads is a nonnegative integer, and 0 selects one thread for each worker."""
    with pytest.raises(UsageError, match=r"blocking_threads is .*: pass a number of threads, or 0"):
        ControllerOptions(blocking_threads=threads)


async def test_a_plain_function_that_returns_a_coroutine_fails() -> None:
    """The reconcile fails with the remedy; the coroutine is closed."""
    operator = Operator("boxes")

    async def work() -> None: ...

    @operator.reconciler(Box)
    def reconcile(obj: Box) -> Any:
        return work()

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(0.001)
        while not records(operator):
            await asyncio.sleep(0.1)
    assert "declare the function itself with `async def`" in records(operator)[0].detail
