"""Events through a handler into a queue: nothing is lost, whatever the handler does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Self

import pytest
from cache_events import created, deleted, updated, view
from container_sizes import container_sizes, growth
from msgspec.structs import replace

from opsdk.errors import UsageError
from opsdk.event.dispatcher import EventDispatcher
from opsdk.event.event import AnyEvent
from opsdk.event.handlers import EnqueueRequestForObject, EnqueueRequestsFromMapFunc, Funcs
from opsdk.event.request import Request
from opsdk.queue.core import LOW_PRIORITY
from opsdk.queue.work_queue import WorkQueue


class BoundDispatcher:
    """A dispatcher bound to a queue."""

    def __init__(self, handler: Any, *predicates: Callable[[AnyEvent], bool]) -> None:
        self.queue: WorkQueue[Request] = WorkQueue(item_type=Request)
        self.dispatcher = EventDispatcher("things", handler, predicates)
        self.dispatcher.bind(self.queue)

    def taken(self) -> list[str]:
        result = []
        while (queued := self.queue.get_nowait()) is not None:
            result.append(queued.item.name)
            self.queue.done(queued.item)
        return result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.dispatcher.aclose()
        self.queue.shut_down()


class Moody:
    """Maps each state to a request named for its version; fails for the versions it dislikes, or always."""

    def __init__(self, *, asynchronous: bool) -> None:
        self.down = False
        self.poison: set[str] = set()
        self.asynchronous = asynchronous

    async def prepare(self, mapper: Any) -> None: ...

    def requests(self, event: AnyEvent) -> Any:
        return self._later(event) if self.asynchronous else self._now(event)

    async def _later(self, event: AnyEvent) -> list[Request]:
        await asyncio.sleep(0.01)
        return self._now(event)

    def _now(self, event: AnyEvent) -> list[Request]:
        versions = [v.resource_version for v in (event.old, event.new) if v is not None]
        if self.down:
            raise ConnectionError("down")
        if bad := self.poison & set(versions):
            raise ValueError(f"cannot map {bad}")
        return [Request("", v) for v in versions]


both = pytest.mark.parametrize("asynchronous", [False, True])


@both
async def test_an_outage_loses_no_state(asynchronous: bool) -> None:
    """Every state that an object had while the handler failed is mapped when the handler works again."""
    moody = Moody(asynchronous=asynchronous)
    async with BoundDispatcher(moody) as bound:
        moody.down = True
        bound.dispatcher.dispatch(updated(view(version=1), view(version=2)))
        await asyncio.sleep(1)
        bound.dispatcher.dispatch(updated(view(version=2), view(version=3)))
        await asyncio.sleep(30)
        bound.dispatcher.dispatch(updated(view(version=3), view(version=4)))
        await asyncio.sleep(1)
        assert bound.taken() == []
        moody.down = False
        await asyncio.sleep(400)
        assert sorted(bound.taken()) == ["1", "2", "3", "4"]
        assert bound.dispatcher.counts["given_up"] == 0


@both
@pytest.mark.parametrize("first", ["create", "update"])
async def test_a_state_that_cannot_be_mapped_is_superseded(asynchronous: bool, first: str) -> None:
    """A newer state frees the object from one that the handler can never map; the states around it are mapped."""
    moody = Moody(asynchronous=asynchronous)
    moody.poison = {"2"}
    async with BoundDispatcher(moody) as bound:
        bound.dispatcher.dispatch(
            created(view(version=2)) if first == "create" else updated(view(version=1), view(version=2))
        )
        await asyncio.sleep(1000)
        assert bound.taken() == []
        bound.dispatcher.dispatch(updated(view(version=2), view(version=3)))
        await asyncio.sleep(700)
        assert sorted(bound.taken()) == (["3"] if first == "create" else ["1", "3"])
        errors = bound.dispatcher.counts["handler_error"]
        await asyncio.sleep(3600)
        assert bound.dispatcher.counts["handler_error"] == errors


@both
async def test_a_deletion_supersedes_too(asynchronous: bool) -> None:
    """After a deletion the last state is mapped, and those before it that can be."""
    moody = Moody(asynchronous=asynchronous)
    moody.down = True
    async with BoundDispatcher(moody) as bound:
        bound.dispatcher.dispatch(updated(view(version=1), view(version=2)))
        await asyncio.sleep(1)
        bound.dispatcher.dispatch(deleted(view(version=3)))
        await asyncio.sleep(1)
        moody.down = False
        await asyncio.sleep(400)
        assert sorted(bound.taken()) == ["1", "2", "3"]


async def test_a_newer_success_does_not_swallow_an_older_failure() -> None:
    """Two events wait for an async function, the first fails, the second does not: both are mapped in the end."""
    calls = 0

    async def flaky(obj: Any) -> list[Request]:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.01)
        if calls == 1:
            raise ConnectionError("blip")
        return [Request("", obj.metadata.resource_version)]

    async with BoundDispatcher(EnqueueRequestsFromMapFunc(flaky)) as bound:
        bound.dispatcher.dispatch(updated(view(version=1), view(version=2)))
        bound.dispatcher.dispatch(updated(view(version=3), view(version=4)))
        await asyncio.sleep(1)
        assert sorted(bound.taken()) == ["1", "2", "3", "4"]


@both
@pytest.mark.parametrize("seed", range(25))
async def test_every_state_is_mapped_after_random_failures(seed: int, asynchronous: bool) -> None:
    """Random outages, objects and times: in the end every state was mapped, and no task or debt is left."""
    rng = random.Random(seed)
    moody = Moody(asynchronous=asynchronous)
    async with BoundDispatcher(moody) as bound:
        versions = dict.fromkeys("abc", 0)
        names: set[str] = set()
        version = 0
        for _ in range(60):
            name = rng.choice("abc")
            old, version = versions[name], version + 1
            bound.dispatcher.dispatch(
                updated(view(name, old), view(name, version)) if old else created(view(name, version))
            )
            versions[name] = version
            moody.down = rng.random() < 0.4
            await asyncio.sleep(rng.choice([0, 0, 0.05, 1, 20]))
            names |= set(bound.taken())
        moody.down = False
        await asyncio.sleep(1000)
        names |= set(bound.taken())
        assert names == {str(n) for n in range(1, version + 1)}
        assert not bound.dispatcher.retries_events
        assert bound.dispatcher.counts["given_up"] == 0


async def test_a_failing_object_does_not_delay_others() -> None:
    """While one object's mapping fails, others are mapped at once."""

    def picky(obj: Any) -> list[Request]:
        if obj.metadata.name == "bad":
            raise ValueError("no")
        return [Request("", obj.metadata.name)]

    async with BoundDispatcher(EnqueueRequestsFromMapFunc(picky)) as bound:
        bound.dispatcher.dispatch(created(view("bad")))
        bound.dispatcher.dispatch(created(view("good")))
        assert bound.taken() == ["good"]


async def test_failures_are_retried_with_growing_delays() -> None:
    """A mapping that never works takes a dozen attempts in the first minutes, then one every five minutes."""
    moody = Moody(asynchronous=False)
    moody.down = True
    async with BoundDispatcher(moody) as bound:
        bound.dispatcher.dispatch(created(view()))
        await asyncio.sleep(600)
        early = bound.dispatcher.counts["handler_error"]
        await asyncio.sleep(3000)
        assert early <= 14
        assert 8 <= bound.dispatcher.counts["handler_error"] - early <= 11


async def test_a_function_that_cancels_itself_is_a_failure() -> None:
    """A CancelledError without a cancellation is retried, and later events are mapped."""
    calls = 0

    async def odd(obj: Any) -> list[Request]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise asyncio.CancelledError
        return [Request("", obj.metadata.name)]

    async with BoundDispatcher(EnqueueRequestsFromMapFunc(odd)) as bound:
        bound.dispatcher.dispatch(created(view("a")))
        bound.dispatcher.dispatch(created(view("b")))
        await asyncio.sleep(1)
        assert sorted(bound.taken()) == ["a", "b"]


async def test_results_of_handlers_are_checked() -> None:
    """A result that is not a Request is an error of the handler, also of a generator; it does not reach the queue."""

    class Lazy(EnqueueRequestForObject):
        def requests(self, event: AnyEvent) -> Any:
            yield Request("", "first")
            raise ValueError("late")

    async with BoundDispatcher(EnqueueRequestsFromMapFunc(lambda _: ["ns/name"])) as bound:
        bound.dispatcher.dispatch(created(view()))
        assert bound.taken() == []
        assert bound.dispatcher.counts["handler_error"] == 1
    async with BoundDispatcher(Lazy()) as bound:
        bound.dispatcher.dispatch(created(view()))
        assert bound.taken() == []
        assert bound.dispatcher.counts["handler_error"] == 1


async def test_a_raising_predicate_lets_the_event_pass() -> None:
    """A predicate that returns False drops the event; predicates are called in order."""

    def broken(_: AnyEvent) -> bool:
        raise RuntimeError("mine")

    async with BoundDispatcher(EnqueueRequestForObject(), broken) as bound:
        bound.dispatcher.dispatch(created(view("a")))
        assert bound.taken() == ["a"]
        assert bound.dispatcher.counts["predicate_error"] == 1
    async with BoundDispatcher(EnqueueRequestForObject(), lambda e: e.view.key.name != "a", broken) as bound:
        bound.dispatcher.dispatch(created(view("a")))
        assert bound.taken() == []
        assert (bound.dispatcher.counts["dropped"], bound.dispatcher.counts["predicate_error"]) == (1, 0)


@pytest.mark.behaviour(73)
async def test_initial_objects_wait_behind_changes() -> None:
    """Initial and resync events have the low priority, changes the ordinary one."""
    async with BoundDispatcher(EnqueueRequestForObject()) as bound:
        bound.dispatcher.dispatch(created(view("old"), initial=True))
        bound.dispatcher.dispatch(created(view("new")))
        first, second = bound.queue.get_nowait(), bound.queue.get_nowait()
        assert first is not None
        assert second is not None
        assert (first.item.name, first.priority) == ("new", 0)
        assert (second.item.name, second.priority) == ("old", LOW_PRIORITY)
        bound.dispatcher.dispatch(replace(updated(view("calm"), view("calm")), resync=True))
        third = bound.queue.get_nowait()
        assert third is not None
        assert (third.item.name, third.priority) == ("calm", LOW_PRIORITY)


async def test_async_functions_are_called_one_at_a_time() -> None:
    """During a burst of events there is one call at a time, in order."""
    at_work = peak = 0
    order: list[str] = []

    async def slow(obj: Any) -> list[Request]:
        nonlocal at_work, peak
        at_work += 1
        peak = max(peak, at_work)
        await asyncio.sleep(1)
        at_work -= 1
        order.append(obj.metadata.name)
        return []

    async with BoundDispatcher(EnqueueRequestsFromMapFunc(slow)) as bound:
        for n in range(10):
            bound.dispatcher.dispatch(created(view(f"o{n}")))
        await bound.dispatcher.wait_mapped()
    assert peak == 1
    assert order == [f"o{n}" for n in range(10)]


async def test_a_close_ends_the_wait_for_calls_that_never_began() -> None:
    """Closed in the iteration of the event: the call's task is cancelled before its first step."""

    async def never(obj: Any) -> list[Request]:
        pytest.fail("it was called")

    bound = BoundDispatcher(EnqueueRequestsFromMapFunc(never))
    bound.dispatcher.dispatch(created(view("o")))
    await bound.dispatcher.aclose()
    async with asyncio.timeout(60):
        await bound.dispatcher.wait_mapped()


async def test_closing_leaves_no_task() -> None:
    """Closed in the middle of a call, with more waiting and failures pending: no task, no warning, no late event."""

    async def forever(obj: Any) -> list[Request]:
        await asyncio.sleep(10_000)
        return [Request("", obj.metadata.name)]

    bound = BoundDispatcher(EnqueueRequestsFromMapFunc(forever))
    for n in range(3):
        bound.dispatcher.dispatch(created(view(f"o{n}")))
    await asyncio.sleep(1)
    await bound.dispatcher.aclose()
    await bound.dispatcher.aclose()
    bound.dispatcher.dispatch(created(view("late")))
    await asyncio.sleep(20_000)
    assert bound.taken() == []


async def test_one_queue_only() -> None:
    """A dispatcher serves one queue."""
    async with BoundDispatcher(EnqueueRequestForObject()) as bound:
        with pytest.raises(UsageError, match="is already started"):
            bound.dispatcher.bind(bound.queue)


def test_awaitable_protocol() -> None:
    """The dispatcher recognises coroutines as awaitable results."""

    async def later() -> None: ...

    result = later()
    assert isinstance(result, Awaitable)
    result.close()


async def test_a_map_function_that_raises_keeps_no_task_for_deleted_names() -> None:
    """Failed mappings of deleted objects are dropped within minutes; those of live objects are retried."""
    before = len(asyncio.all_tasks())
    broken = True

    def requests(event: AnyEvent) -> Any:
        if broken:
            raise RuntimeError("down")
        return [Request(*event.view.key)]

    async with BoundDispatcher(Funcs(create=requests, delete=requests)) as bound:
        bound.dispatcher.dispatch(created(view("lives")))
        for number in range(500):
            bound.dispatcher.dispatch(created(view(f"o{number}")))
            await asyncio.sleep(0.2)
            bound.dispatcher.dispatch(deleted(view(f"o{number}")))
            await asyncio.sleep(0.2)
        assert len(asyncio.all_tasks()) - before <= 2
        await asyncio.sleep(1000)
        assert len(asyncio.all_tasks()) - before == 1
        assert bound.dispatcher.retries_events
        assert bound.dispatcher.failures.failing()[0].failing == {view("lives").key}
        broken = False
        await asyncio.sleep(600)
        assert bound.taken() == ["lives"]
        assert len(asyncio.all_tasks()) == before


async def test_a_deletion_survives_an_outage_of_its_map_function() -> None:
    """The deletion is mapped when the function works again a minute later."""
    broken = True

    def requests(event: AnyEvent) -> Any:
        if broken:
            raise RuntimeError("down")
        return [Request(*event.view.key)]

    async with BoundDispatcher(Funcs(create=requests, delete=requests)) as bound:
        bound.dispatcher.dispatch(deleted(view("a")))
        await asyncio.sleep(60)
        broken = False
        await asyncio.sleep(120)
        assert bound.taken() == ["a"]
        assert bound.dispatcher.failures.failing() == []


async def test_a_predicate_that_raises_keeps_no_deleted_names() -> None:
    """Readiness counts the live objects for which it raises."""

    def broken(event: AnyEvent) -> bool:
        raise RuntimeError("down")

    async with BoundDispatcher(EnqueueRequestForObject(), broken) as bound:
        bound.dispatcher.dispatch(created(view("lives")))
        for number in range(100):
            bound.dispatcher.dispatch(created(view(f"o{number}")))
            bound.dispatcher.dispatch(deleted(view(f"o{number}")))
        [failure] = bound.dispatcher.failures.failing()
        assert failure.failing == {view("lives").key}


class Panic(BaseException):
    """As PyO3's PanicException: no Exception."""


@pytest.mark.parametrize(
    "error", [Panic(), GeneratorExit(), BaseExceptionGroup("group", [Panic()]), RecursionError()], ids=repr
)
@both
async def test_no_exception_of_a_function_stops_a_source(error: BaseException, asynchronous: bool) -> None:
    """Predicates and handlers may raise anything: the event is mapped by a retry, and other objects at once."""
    broken = True

    def now(event: AnyEvent) -> list[Request]:
        if broken and event.view.key.name == "bad":
            raise error
        return [Request(*event.view.key)]

    async def later(event: AnyEvent) -> list[Request]:
        await asyncio.sleep(0)
        return now(event)

    def predicate(event: AnyEvent) -> bool:
        raise error

    async with BoundDispatcher(Funcs(create=later if asynchronous else now), predicate) as bound:
        bound.dispatcher.dispatch(created(view("bad")))
        bound.dispatcher.dispatch(created(view("good")))
        await asyncio.sleep(0.05)
        assert bound.taken() == ["good"]
        broken = False
        await asyncio.sleep(10)
        assert bound.taken() == ["bad"]


@pytest.mark.slow
async def test_an_outage_loses_no_deletion_of_a_burst() -> None:
    """3,000 objects are deleted at once while the map function raises: all are mapped when it works again."""
    broken = True

    def requests(event: AnyEvent) -> Any:
        if broken:
            raise RuntimeError("down")
        return [Request(*event.view.key)]

    async with BoundDispatcher(Funcs(create=requests, update=requests, delete=requests)) as bound:
        before = container_sizes(bound.dispatcher)
        for number in range(3000):
            bound.dispatcher.dispatch(deleted(view(f"o{number}")))
        bound.dispatcher.dispatch(created(view("o0")))  # it is created again
        await asyncio.sleep(20)
        broken = False
        await asyncio.sleep(60)
        assert len(set(bound.taken())) == 3000
        assert bound.dispatcher.counts["given_up"] == 0
        assert not bound.dispatcher.retries_events
        assert growth(before, container_sizes(bound.dispatcher), above=10) == {}


class Hanging:
    """Maps each object to its name. Calls for objects whose names begin with "slow" do not end."""

    async def prepare(self, mapper: Any) -> None: ...

    async def requests(self, event: AnyEvent) -> list[Request]:
        if event.view.key.name.startswith("slow"):
            await asyncio.Event().wait()
        return [Request("", event.view.key.name)]


@pytest.mark.parametrize("after", [0.0, 1.0, 6.0, 30.0])
@pytest.mark.parametrize("hanging", [1, 3])
async def test_an_event_overtakes_calls_that_hang(after: float, hanging: int) -> None:
    """Whenever it comes: before the call counts as slow, and long after."""
    async with BoundDispatcher(Hanging()) as bound:
        for number in range(hanging):
            bound.dispatcher.dispatch(created(view(f"slow-{number}")))
        await asyncio.sleep(after)
        bound.dispatcher.dispatch(created(view("other")))
        await asyncio.sleep(5.5 * hanging)
        assert bound.taken() == ["other"]


class Overflowing(Moody):
    """Lets one more event of the object fail while an old one is tried again: that one is dropped."""

    dispatcher: EventDispatcher

    def __init__(self) -> None:
        super().__init__(asynchronous=True)
        self.overflows = 0

    async def _later(self, event: AnyEvent) -> list[Request]:
        if not self.down and not self.overflows and event.view.resource_version == "34":
            self.overflows += 1
            self.dispatcher.dispatch(updated(view(version=70), view(version=71)))
            await asyncio.sleep(0.1)
        return await super()._later(event)


async def test_an_event_that_is_dropped_while_it_is_tried_ends_no_retries() -> None:
    """More events of the object fail meanwhile than are kept: the others are tried on."""
    handler = Overflowing()
    async with BoundDispatcher(handler) as bound:
        handler.dispatcher = bound.dispatcher
        handler.down = True
        for version in range(1, 65):
            bound.dispatcher.dispatch(updated(view(version=version), view(version=version + 1)))
        await asyncio.sleep(1.5)
        handler.down, handler.poison = False, {*map(str, range(2, 65)), "71"} - {"33", "34"}
        await asyncio.sleep(120)
        assert handler.overflows == 1
        assert bound.dispatcher.counts["given_up"] == 1
        handler.poison = set()
        await asyncio.sleep(3600)
        assert not bound.dispatcher.retries_events
        assert "71" in bound.taken()
