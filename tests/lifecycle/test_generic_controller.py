"""GenericController: named handlers of one kind, against the embedded server, in virtual time."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from opsdk import Context, ObjectMeta, Request
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import deep_copy
from opsdk.controller.controller import ControllerState
from opsdk.controller.journal import Journal
from opsdk.errors import ConflictError, TerminalError, UsageError
from opsdk.lifecycle.errors import IgnoreError
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.handlers import HandlerTransaction
from opsdk.lifecycle.options import LASSO, NORMAN, GenericControllerOptions, RetryPolicy
from opsdk.telemetry.records import Reconciled, Record, TelemetryHook

ALL = GenericControllerOptions(retry=RetryPolicy.ALL)


class Calls:
    """Makes handlers that record their calls for ConfigMaps of the default namespace."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.seen: list[tuple[float, str, str, Any]] = []

    def handler(self, name: str, *failures: BaseException, seconds: float = 0.0, only: str = "") -> Any:
        """Return a handler that raises each failure once, and takes some time for the objects named `only`."""
        remaining = list(failures)

        async def handle(request: Request, obj: ConfigMap | None) -> None:
            if request.namespace != "default" or "kube" in request.name:
                return
            self.seen.append((self.now(), name, request.name, obj))
            if seconds and only in ("", request.name):
                await asyncio.sleep(seconds)
            if remaining and only in ("", request.name):
                raise remaining.pop(0)

        return handle

    def names(self, key: str = "x") -> list[str]:
        """Return the handlers that were called for an object, in order."""
        return [name for _, name, called, _ in self.seen if called == key]

    def times(self, handler: str, key: str = "x") -> list[float]:
        """Return when a handler was called for an object."""
        return [time for time, name, called, _ in self.seen if (name, called) == (handler, key)]


@pytest.fixture
def calls(world: Any) -> Calls:
    """Return a recorder on the world's clock."""
    return Calls(world.now)


def controller_of(world: Any, **options: Any) -> GenericController[ConfigMap]:
    """Return a controller of ConfigMaps."""
    return GenericController(world.cluster, ConfigMap, options=GenericControllerOptions(**options))


class Recording(TelemetryHook):
    """Keeps the ends of reconciles."""

    def __init__(self) -> None:
        self.ends: list[Reconciled] = []

    def record(self, record: Record) -> None:
        if isinstance(record, Reconciled):
            self.ends.append(record)


# ------------------------------------------------------------------ calls and retries
async def test_all_handlers_run_and_all_are_retried(world: Any, calls: Calls) -> None:
    """Norman GenericController: handlers a (fails), b: both are called, the key is retried, b is called again."""
    controller = controller_of(world, retry=RetryPolicy.ALL)
    controller.add_handler("a", calls.handler("a", ValueError("first")))
    controller.add_handler("b", calls.handler("b"))
    await world.config("x")
    async with world.running(controller):
        await world.until(lambda: len(calls.names()) == 4)
        await asyncio.sleep(60)
    assert calls.names() == ["a", "b", "a", "b"]


async def test_only_the_failed_handler_is_retried(world: Any, calls: Calls) -> None:
    """Norman GenericController, option: only a is called again, with its own attempts and its own backoff."""
    attempts: list[int] = []

    async def failing(request: Request, obj: ConfigMap, ctx: Context) -> None:
        if request.name == "x":
            attempts.append(ctx.attempt)
            if len(attempts) < 4:
                raise ValueError("not yet")

    controller = controller_of(world)
    controller.add_handler("a", failing)
    controller.add_handler("b", calls.handler("b", KeyError("once")))
    await world.config("x")
    async with world.running(controller):
        await world.until(lambda: len(attempts) == 4)
        await asyncio.sleep(60)
    assert attempts == [0, 1, 2, 3]
    assert calls.names() == ["b", "b"]


async def test_an_event_runs_all_handlers_and_is_no_attempt(world: Any, calls: Calls) -> None:
    """An event while a retry waits calls every handler at once; it neither moves the retry nor is an attempt."""
    controller = controller_of(world, rate_limiter=NORMAN.rate_limiter)
    failures = [ValueError(str(number)) for number in range(3)]
    controller.add_handler("a", calls.handler("a", *failures))
    controller.add_handler("b", calls.handler("b"))
    config = await world.config("x")
    async with world.running(controller):
        await world.until(lambda: calls.names() == ["a", "b"])
        first = calls.times("a")[0]
        config.data["k"] = "v"
        await world.user.update(config)
        await asyncio.sleep(60)
    assert calls.names() == ["a", "b", "a", "b", "a", "a"]
    assert calls.times("a")[2] - first == pytest.approx(0.5, abs=0.01)
    assert calls.times("a")[3] - calls.times("a")[2] == pytest.approx(1.0, abs=0.01)


async def test_a_handler_gets_what_the_one_before_returned(world: Any) -> None:
    """Norman GenericController: the returned object is passed on; what a failed handler changed is not."""
    labels: list[dict[str, str]] = []

    async def returns(request: Request, obj: ConfigMap | None) -> ConfigMap | None:
        if obj is not None:
            obj.data["by"] = "first"
        return obj

    async def breaks(request: Request, obj: ConfigMap | None) -> None:
        if obj is not None:
            obj.data["by"] = "broken"
        raise ValueError("broken")

    async def last(request: Request, obj: ConfigMap | None) -> None:
        if obj is not None and request.name == "x":
            labels.append(dict(obj.data))

    controller = controller_of(world)
    for function in (returns, breaks, last):
        controller.add_handler(function.__name__, function)
    await world.config("x")
    async with world.running(controller):
        await world.until(lambda: labels)
    assert labels == [{"by": "first"}]
    assert (await world.read("x")).data == {}


async def test_a_deleted_object_is_none(world: Any, calls: Calls) -> None:
    """Norman GenericController: the object is None when it is deleted; a `when` does not hide that."""
    controller = controller_of(world)
    controller.add_handler("a", calls.handler("a"), when=lambda obj: False)
    config = await world.config("x")
    async with world.running(controller):
        await world.user.delete(config)
        await world.until(lambda: calls.seen)
    assert [obj for *_, obj in calls.seen] == [None]


@pytest.mark.parametrize("policy", list(RetryPolicy))
async def test_errors_that_are_not_retried(
    world: Any, calls: Calls, policy: RetryPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    """Norman GenericController: IgnoreError swallows; TerminalError is logged; neither is retried, and b is called."""
    controller = controller_of(world, retry=policy)
    controller.add_handler("a", calls.handler("a", IgnoreError("done"), TerminalError("hopeless")))
    controller.add_handler("b", calls.handler("b"))
    config = await world.config("x")
    async with world.running(controller):
        await world.until(lambda: calls.names() == ["a", "b"])
        await asyncio.sleep(60)
        assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
        config.data["k"] = "v"
        await world.user.update(config)
        await asyncio.sleep(60)
    assert calls.names() == ["a", "b", "a", "b"]
    assert "not retried: hopeless [in handler a]" in caplog.text


async def test_errors_are_joined(world: Any) -> None:
    """Norman GenericController: the journal has `[name] failed with : ...` of every handler."""
    journal = Journal()

    async def fails(request: Request, obj: ConfigMap | None) -> None:
        raise ConflictError("modified") if request.name == "x" else ValueError("wrong")

    controller = GenericController(world.cluster, ConfigMap, options=ALL, journal=journal)
    controller.add_handler("a", fails)
    controller.add_handler("b", fails)
    await world.config("x")
    async with world.running(controller):
        await world.until(lambda: list(journal.find(name="x")))
    (detail, *_) = [record.detail for record in journal.find(name="x")]
    assert "HandlersFailedError([a] failed with : modified, [b] failed with : modified)" in detail


async def test_another_object_is_an_error_and_is_not_passed_on(world: Any, calls: Calls) -> None:
    """Bad input: a handler returns an object with another name, kind or uid; the next one gets the object before."""

    async def wrong(request: Request, obj: ConfigMap | None) -> Any:
        if obj is None:
            return None
        renamed, copied = deep_copy(obj), deep_copy(obj)
        renamed.metadata.name, copied.metadata.uid = "y", "another"
        others = {"x0": renamed, "x1": copied, "x2": "text"}
        return others.get(request.name, ConfigMap(metadata=ObjectMeta(name="x3", namespace="default")))

    journal = Journal()
    controller = GenericController(world.cluster, ConfigMap, journal=journal)
    controller.add_handler("a", wrong)
    controller.add_handler("b", calls.handler("b"))
    errors = ["default/y", "uid another", "returned 'text'", "uid none"]
    for number in range(len(errors)):
        await world.config(f"x{number}")
    async with world.running(controller):
        await world.until(lambda: len(calls.seen) >= len(errors))
        await asyncio.sleep(60)
    for number, text in enumerate(errors):
        # An error of the program is not retried.
        (record,) = journal.find(name=f"x{number}")
        assert text in record.detail
    assert sorted(obj.metadata.name for *_, obj in calls.seen) == ["x0", "x1", "x2", "x3"]


async def test_on_change_and_on_remove(world: Any) -> None:
    """Wrangler generic controller: OnChange gets every change and None; OnRemove has wrangler's finalizer."""
    changes: list[bool] = []
    removed: list[str] = []

    async def change(request: Request, obj: ConfigMap | None) -> None:
        if request == Request("default", "x"):
            changes.append(obj is None)

    async def remove(obj: ConfigMap, ctx: Context) -> None:
        removed.append(f"{ctx.request} {obj.metadata.finalizers}")

    controller = controller_of(world)
    controller.on_change("dns", change)
    controller.on_remove("cleanup", remove)
    config = await world.config("x")
    async with world.running(controller):
        await world.until(lambda: len(changes) >= 2)
        await world.user.delete(config)
        await world.until(lambda: True in changes)
    assert removed == ["default/x ['wrangler.cattle.io/cleanup']"]


@pytest.mark.parametrize("in_condition", [True, False])
async def test_a_panic_fails_its_handler_only(world: Any, calls: Calls, in_condition: bool) -> None:
    """An exception that is not an Exception is counted as a panic; the next handler and other objects are called."""

    class Panic(BaseException):
        """As PyO3's PanicException."""

    def fails(obj: ConfigMap) -> bool:
        raise Panic

    async def panics(request: Request, obj: ConfigMap | None) -> None:
        raise Panic

    hook = Recording()
    controller = GenericController(world.cluster, ConfigMap, hook=hook)
    if in_condition:
        controller.add_handler("a", calls.handler("a"), when=fails)
    else:
        controller.add_handler("a", panics)
    controller.add_handler("b", calls.handler("b"))
    await world.config("x")
    await world.config("y")
    async with world.running(controller):
        await world.until(lambda: calls.names("x") == calls.names("y") == ["b"])
        await asyncio.sleep(1)
        assert controller.controller.state is ControllerState.RUNNING
    assert any(end.panicked for end in hook.ends)


async def test_a_condition_that_raises_fails_its_handler_only(world: Any, calls: Calls) -> None:
    """Bad input: a `when` or an `enabled` that raises is an error of that handler; the others are called."""
    broken = True

    def fails(obj: ConfigMap) -> bool:
        if broken:
            raise KeyError(obj.metadata.name)
        return True

    controller = controller_of(world)
    controller.add_handler("a", calls.handler("a"), when=fails)
    controller.add_handler("b", calls.handler("b"))
    await world.config("x")
    async with world.running(controller):
        await world.until(lambda: calls.names() == ["b"])
        await asyncio.sleep(10)
        broken = False
        await world.until(lambda: calls.names() == ["b", "a"], within=60)


# ------------------------------------------------------------------ isolation
async def test_a_hanging_handler_delays_only_its_key(world: Any, calls: Calls) -> None:
    """Bad input: a handler that hangs is cancelled, retried alone, and no longer delays the others of its object."""
    controller = controller_of(world, workers=2, handler_timeout=30.0)
    controller.add_handler("hangs", calls.handler("hangs", seconds=10**6, only="x"))
    controller.add_handler("b", calls.handler("b"))
    config = await world.config("x")
    await world.config("y")
    async with world.running(controller):
        await world.until(lambda: calls.names("y") == ["hangs", "b"])
        assert calls.times("b", "y")[0] < 1.0
        await world.until(lambda: "b" in calls.names("x"), within=60)
        assert calls.times("b", "x")[0] == pytest.approx(30, abs=1)
        await asyncio.sleep(60)
        config.data["k"] = "v"
        started = world.now()
        await world.user.update(config)
        await world.until(lambda: calls.times("b", "x")[-1] >= started, within=60)
        # The retry of the handler that hangs may hold the object until its own timeout, and no longer.
        assert calls.times("b", "x")[-1] - started <= 30.1


async def test_a_handler_that_hangs_for_every_object_does_not_starve_the_others(world: Any, calls: Calls) -> None:
    """Isolation: after as many timeouts as workers, new objects reach the other handlers at once."""
    controller = controller_of(world, workers=3, handler_timeout=10.0)
    controller.add_handler("hangs", calls.handler("hangs", seconds=10**6))
    controller.add_handler("b", calls.handler("b"))
    for number in range(12):
        await world.config(f"x{number}")
    async with world.running(controller):
        await asyncio.sleep(45)
        assert len({name for _, handler, name, _ in calls.seen if handler == "b"}) == 12
        await world.config("late")
        created = world.now()
        await world.until(lambda: calls.times("b", "late"))
        assert calls.times("b", "late")[0] - created < 1.0


async def test_failing_retries_leave_a_worker_to_new_events(world: Any, calls: Calls) -> None:
    """Isolation: a slow failing handler with many objects takes all workers but one."""
    controller = controller_of(world, workers=3, handler_timeout=0.0)

    async def slow(request: Request, obj: ConfigMap | None, ctx: Context) -> None:
        if request.name.startswith("bad"):
            if ctx.attempt:
                await asyncio.sleep(100)
            raise ValueError("still bad")

    controller.add_handler("slow", slow)
    controller.add_handler("b", calls.handler("b"))
    for number in range(10):
        await world.config(f"bad{number}")
    async with world.running(controller):
        await asyncio.sleep(150)
        await world.config("good")
        created = world.now()
        await world.until(lambda: calls.times("b", "good"))
        assert calls.times("b", "good")[0] - created < 1.0


async def test_one_object_is_never_handled_twice_at_once(world: Any) -> None:
    """Isolation: retries of single handlers and events of one object run one after the other."""
    running: Counter[str] = Counter()
    overlaps: list[str] = []
    total: Counter[str] = Counter()

    def make(name: str, failures: int) -> Any:
        async def handle(request: Request, obj: ConfigMap | None) -> None:
            if running[request.name]:
                overlaps.append(f"{name} {request.name}")
            running[request.name] += 1
            await asyncio.sleep(0.003)
            running[request.name] -= 1
            total[name + request.name] += 1
            if total[name + request.name] <= failures:
                raise ValueError(name)

        return handle

    controller = controller_of(world)
    for name, failures in (("a", 3), ("b", 4), ("c", 0)):
        controller.add_handler(name, make(name, failures))
    config = await world.config("x")
    async with world.running(controller):
        for number in range(10):
            config.data["n"] = str(number)
            config = await world.user.update(config)
            await asyncio.sleep(0.004)
        await asyncio.sleep(60)
    assert overlaps == []
    assert total["ax"] >= 4
    assert total["bx"] >= 5


# ------------------------------------------------------------------ registration
@pytest.mark.parametrize("policy", list(RetryPolicy))
async def test_a_late_handler_sees_existing_objects(world: Any, calls: Calls, policy: RetryPolicy) -> None:
    """Norman add after start: a late handler sees existing objects; with ALL the others are called again as well."""
    controller = controller_of(world, retry=policy)
    controller.add_handler("early", calls.handler("early"))
    await world.config("x")
    async with world.running(controller):
        await world.until(lambda: calls.names() == ["early"])
        controller.add_handler("late", calls.handler("late"))
        await world.until(lambda: "late" in calls.names())
        await asyncio.sleep(5)
    assert calls.names() == {RetryPolicy.ALL: ["early", "early", "late"], RetryPolicy.FAILED: ["early", "late"]}[policy]


async def test_a_handler_ends_with_its_block(world: Any, calls: Calls) -> None:
    """Norman add after start: the end of the block removes the handler, after its running call has ended."""
    controller = controller_of(world)
    controller.add_handler("stays", calls.handler("stays"))
    config = await world.config("x")
    async with world.running(controller):
        async with controller.add_handler("slow", calls.handler("slow", ValueError("again"), seconds=5.0)):
            await world.until(lambda: "slow" in calls.names())
        ended = world.now()
        assert ended - calls.times("slow")[0] >= 5.0
        config.data["k"] = "v"
        await world.user.update(config)
        await asyncio.sleep(60)
        assert calls.names().count("slow") == 1
        with pytest.raises(UsageError, match="it has stays"):
            controller.remove_handler("slow")
        controller.remove_handler("stays")
        controller.add_handler("slow", calls.handler("slow"))
    assert calls.names().count("stays") == 2


async def test_a_transaction_activates_all_or_none(world: Any, calls: Calls) -> None:
    """Norman HandlerTransaction: registrations become active together at commit; a rollback drops them."""
    controller = controller_of(world)
    controller.add_handler("first", calls.handler("first"))
    await world.config("x")
    async with world.running(controller):
        await world.until(calls.names)
        with HandlerTransaction() as transaction:
            controller.add_handler("a", calls.handler("a"), transaction=transaction)
            controller.add_handler("b", calls.handler("b"), transaction=transaction)
            controller.enqueue("default", "x")
            await asyncio.sleep(5)
            assert set(calls.names()) == {"first"}
        await world.until(lambda: set(calls.names()) == {"first", "a", "b"})
        transaction = HandlerTransaction()
        controller.add_handler("c", calls.handler("c"), transaction=transaction)
        transaction.__exit__(ValueError, ValueError(), None)
        controller.add_handler("c", calls.handler("c2"))
        await world.until(lambda: "c2" in calls.names())
        with pytest.raises(UsageError, match="rolled back"):
            controller.add_handler("d", calls.handler("d"), transaction=transaction)
    assert "c" not in calls.names()


async def test_a_feature_handler(world: Any, calls: Calls) -> None:
    """Norman AddFeatureHandler: the handler is called while `enabled` returns True, also for deleted objects."""
    features = {"dns": False}
    controller = controller_of(world)
    controller.add_handler("dns", calls.handler("dns"), enabled=lambda: features["dns"])
    config = await world.config("x")
    async with world.running(controller):
        await asyncio.sleep(5)
        assert calls.names() == []
        features["dns"] = True
        controller.enqueue("default", "x")
        await world.until(lambda: calls.names() == ["dns"])
        features["dns"] = False
        await world.user.delete(config)
        await asyncio.sleep(5)
    assert calls.names() == ["dns"]


@pytest.mark.parametrize(
    ("name", "function", "text"),
    [
        ("", "good", "needs a name"),
        ("taken", "good", "already has a handler 'taken'"),
        ("a", "plain", "is not async"),
        ("a", "short", "cannot be called: it must take 2"),
    ],
)
async def test_what_cannot_be_a_handler(world: Any, name: str, function: str, text: str) -> None:
    """Bad input: a handler that cannot be called is refused when it is added, with its place."""

    async def good(request: Request, obj: ConfigMap | None) -> None: ...

    async def short(request: Request) -> None: ...

    def plain(request: Request, obj: ConfigMap | None) -> None: ...

    controller = controller_of(world)
    controller.add_handler("taken", good)
    with pytest.raises(UsageError, match=text):
        controller.add_handler(name, {"good": good, "short": short, "plain": plain}[function])


# ------------------------------------------------------------------ queue
async def test_enqueue_after(world: Any, calls: Calls) -> None:
    """Norman Queue: enqueue_after under the virtual clock; what is queued before the start is kept."""
    controller = controller_of(world)
    controller.add_handler("a", calls.handler("a"))
    controller.enqueue("default", "early")
    async with world.running(controller):
        await world.until(lambda: calls.names("early") == ["a"])
        began = world.now()
        controller.enqueue_after("default", "x", 300.0)
        await asyncio.sleep(400)
    assert calls.times("a") == [pytest.approx(began + 300, abs=0.1)]


async def test_a_resync_calls_all_handlers_at_its_interval(world: Any, calls: Calls) -> None:
    """Norman Queue: a resync calls all handlers for all objects at its interval; norman's is two hours."""
    assert NORMAN.resync == 7200.0
    controller = controller_of(world, resync=NORMAN.resync)
    controller.add_handler("a", calls.handler("a"))
    await world.config("x")
    async with world.running(controller):
        await asyncio.sleep(2 * 7200 + 60)
    assert len(calls.names()) == 3


def test_the_presets() -> None:
    """Norman Queue, lasso limiter: 500 ms to 1000 s with 10 qps/100; 5 ms to 30 s, then 2 min after 30 failures."""
    limiter = copy.deepcopy(NORMAN.rate_limiter)
    assert limiter is not None
    assert [limiter.when("x", now=0.0) for _ in range(12)][-1] == 1000.0
    assert limiter.when("y", now=0.0) == 0.5
    from opsdk.lifecycle.options import SlowingRateLimiter

    lasso: SlowingRateLimiter[str] = SlowingRateLimiter()
    delays = [lasso.when("x", now=0.0) for _ in range(32)]
    assert (delays[0], max(delays[:30]), delays[30], LASSO.workers) == (0.005, 30.0, 120.0, 5)


# ------------------------------------------------------------------ running
async def test_without_a_handler_nothing_is_watched(world: Any, calls: Calls) -> None:
    """Lasso details, deferred start: the informer starts with the first handler."""
    controller = controller_of(world)
    async with world.running(controller):
        await asyncio.sleep(5)
        assert world.cluster.cache.kinds() == []
        controller.add_handler("a", calls.handler("a"))
        await world.config("x")
        await world.until(lambda: calls.names() == ["a"])


async def test_each_call_is_measured(world: Any, calls: Calls) -> None:
    """Lasso details, metrics: each call of a handler has a result and a duration under its own name."""
    hook = Recording()
    controller = GenericController(world.cluster, ConfigMap, options=ALL, hook=hook)
    controller.add_handler("a", calls.handler("a", ValueError("once"), seconds=2.0, only="x"))
    await world.config("x")
    async with world.running(controller):
        await world.until(lambda: len(calls.names()) == 2)
        await asyncio.sleep(5)
    ends = [
        (e.result.value, round(e.seconds))
        for e in hook.ends
        if e.controller == "configmap-handlers/a" and e.seconds > 1
    ]
    assert ends == [("error", 2), ("success", 2)]


async def test_a_stale_object_is_not_acted_upon(world: Any, calls: Calls) -> None:
    """Lasso details, guard: the cache shows a deleted object again; no handler gets it, and the key is retried."""
    controller = controller_of(world)
    controller.add_handler("a", calls.handler("a"))
    config = await world.config("x")
    async with world.running(controller):
        await world.until(lambda: calls.names() == ["a"])
        await world.user.delete(config)
        await world.until(lambda: calls.names() == ["a", "a"])
        (cached,) = world.cluster.cache.kinds()
        (informer,) = cached.informers.values()
        stale = informer.store.make_entry(_encoded(config))
        informer.store.put(stale)  # as a list from a lagging API server
        controller.enqueue("default", "x")
        await asyncio.sleep(5)
        assert len(calls.names()) == 2
        informer.store.remove(stale.key)
        await asyncio.sleep(10)
    assert [obj is None for *_, obj in calls.seen] == [False, True, True]


def _encoded(config: ConfigMap) -> bytes:
    from opsdk.apimachinery.codec import encode

    return encode(config)
