"""Fairness between the flows of a queue."""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from collections import Counter, defaultdict, deque
from typing import Any

import msgspec
import pytest
from container_sizes import container_sizes
from hypothesis import given
from hypothesis import strategies as st

from opsdk import ControllerOptions, Request, UsageError
from opsdk.queue.core import LOW_PRIORITY, QueueCore
from opsdk.queue.fairness import Fairness, FairOrder
from opsdk.queue.flows import fair_order
from opsdk.queue.work_queue import WorkQueue


def fair_core(weights: dict[str, float] | None = None) -> QueueCore[tuple[str, int]]:
    """A queue whose items are pairs of a tenant and a number."""
    by_tenant = weights or {}
    return QueueCore(FairOrder(lambda item: item[0], lambda flow: by_tenant.get(str(flow), 1.0)))


def served(core: QueueCore[tuple[str, int]], count: int) -> list[str]:
    """The tenants of the next items, each of which is done at once."""
    tenants = []
    for _ in range(count):
        taken = core.take(0.0)
        assert taken is not None
        core.done(taken.item, now=0.0)
        tenants.append(taken.item[0])
    return tenants


def jain(shares: list[float]) -> float:
    """Jain's fairness index: 1 if all shares are equal, 1/n if one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


class Simulation:
    """Workers that each take one second for an item of a fair queue, in simulated time."""

    def __init__(self, core: QueueCore[tuple[str, int]], *, workers: int) -> None:
        self._core = core
        self._workers = workers
        self.latencies: dict[str, list[float]] = defaultdict(list)
        """Seconds from the arrival of each item until its end, by tenant."""

    def run(self, arrivals: list[tuple[float, str]], *, until: float) -> None:
        """Serve items that arrive at these times."""
        arrived: dict[tuple[str, int], float] = {}
        pending = deque(sorted((time, number, tenant) for number, (time, tenant) in enumerate(arrivals)))
        busy: list[tuple[float, tuple[str, int]]] = []
        now = 0.0
        while now <= until:
            while pending and pending[0][0] <= now:
                arrival, number, tenant = pending.popleft()
                arrived[tenant, number] = arrival
                self._core.add((tenant, number), now=arrival)
            while busy and busy[0][0] <= now:
                end, item = heapq.heappop(busy)
                self._core.done(item, now=end)
                self.latencies[item[0]].append(end - arrived.pop(item))
            while len(busy) < self._workers and (taken := self._core.take(now)) is not None:
                heapq.heappush(busy, (now + 1.0, taken.item))
            times = [entries[0][0] for entries in (pending, busy) if entries]
            if not times:
                return
            now = min(times)


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("noisy_tenants", [1, 10])
def test_a_quiet_tenant_waits_at_most_twice_as_long_among_noise(noisy_tenants: int, workers: int) -> None:
    """One item against a thousand of the others: the p99 of the quiet tenant is at most twice its p99 alone."""
    rng = random.Random(noisy_tenants * workers)
    quiet = [(20 + 40 * number + rng.random() * 20, "quiet") for number in range(100)]
    noise = [(number / 25, f"noisy-{number % noisy_tenants}") for number in range(100 * 1000)]
    until = quiet[-1][0] + 100

    alone = Simulation(fair_core(), workers=workers)
    alone.run(quiet, until=until)
    together = Simulation(fair_core(), workers=workers)
    together.run([*quiet, *noise], until=until)

    assert len(together.latencies["quiet"]) == len(alone.latencies["quiet"]) == 100
    assert percentile(together.latencies["quiet"], 0.99) <= 2 * percentile(alone.latencies["quiet"], 0.99)


def test_without_fairness_the_noise_goes_first() -> None:
    """The same noise in a plain queue makes the quiet tenant wait for all of it: the law above can fail."""
    plain: QueueCore[tuple[str, int]] = QueueCore()
    simulation = Simulation(plain, workers=1)
    simulation.run([*((number / 1000, "noisy") for number in range(1000)), (10.0, "quiet")], until=2000)
    assert simulation.latencies["quiet"] == [pytest.approx(991.0)]


def test_tenants_with_different_loads_get_equal_shares() -> None:
    """Forty tenants with 100 to 4,000 items: Jain's index of their turns is at least 0.95."""
    core = fair_core()
    for tenant in range(40):
        for number in range(100 * (tenant + 1)):
            core.add((f"tenant-{tenant}", number), now=0.0)
    turns: Counter[str] = Counter()
    for checked in range(100, 4000, 100):
        turns.update(served(core, 100))
        assert jain([turns[f"tenant-{tenant}"] for tenant in range(40)]) >= (0.95 if checked >= 800 else 0.9)
    assert jain([turns[f"tenant-{tenant}"] for tenant in range(40)]) > 0.999


def test_weights_divide_the_turns() -> None:
    """A tenant with the weight 4 gets four turns for each one of a tenant with 1, and eight for each one with 0.5."""
    core = fair_core({"big": 4.0, "small": 0.5})
    for number in range(1000):
        for tenant in ("big", "small", "usual"):
            core.add((tenant, number), now=0.0)
    turns = Counter(served(core, 1100))
    assert turns["big"] == pytest.approx(800, abs=8)
    assert turns["usual"] == pytest.approx(200, abs=2)
    assert turns["small"] == pytest.approx(100, abs=2)


def test_a_priority_comes_before_fairness() -> None:
    """All live changes of one tenant overtake the initial list of the other."""
    core = fair_core()
    core.add(("listed", 0), now=0.0, priority=LOW_PRIORITY)
    for number in range(3):
        core.add(("live", number), now=0.0)
    assert served(core, 4) == ["live", "live", "live", "listed"]


def test_a_raised_item_uses_no_turn_of_its_old_priority() -> None:
    """A tenant whose initial list was overtaken by live changes is not charged twice."""
    core = fair_core()
    for number in range(4):
        core.add(("a", number), now=0.0, priority=LOW_PRIORITY)
        core.add(("b", number), now=0.0, priority=LOW_PRIORITY)
    core.add(("a", 0), now=0.0)
    assert served(core, 8) == ["a", *"ababab", "b"]


def test_one_item_after_the_other_gets_no_more_turns_than_a_backlog() -> None:
    """A tenant with one hot item is added again after each turn: it gets every second turn, not more."""
    core = fair_core()
    for number in range(100):
        core.add(("backlog", number), now=0.0)
    turns = []
    core.add(("hot", 0), now=0.0)
    for _ in range(100):
        turns += served(core, 1)
        core.add(("hot", 0), now=0.0)
    assert Counter(turns) == {"backlog": 50, "hot": 50}


@pytest.mark.slow
def test_no_memory_grows_with_the_names_of_flows() -> None:
    """A hundred thousand tenants come and go beside one that always has items: flows that are empty for a round go."""
    order: FairOrder[tuple[str, int]] = FairOrder(lambda item: item[0], lambda _: 1.0)
    core = QueueCore(order)
    for number in range(100_000):
        core.add(("lives", number), now=0.0)
        core.add((f"tenant-{number}", 0), now=0.0)
        served(core, 1 if number < 10 else 2)
        assert order.flows() <= 12 + 3
    served(core, len(core))
    assert core.take(0.0) is None
    assert order.flows() == 0


async def test_items_that_are_raised_again_and_again_leave_no_flows() -> None:
    """A thousand tenants are raised out of a priority that gets no turns: their flows go at once."""
    order: FairOrder[tuple[str, int]] = FairOrder(lambda item: item[0], lambda _: 1.0)
    core = QueueCore(order)
    core.add(("live", 0), now=0.0)
    for number in range(1000):
        core.add((f"tenant-{number}", 0), now=0.0, priority=LOW_PRIORITY)
        core.add((f"tenant-{number}", 0), now=0.0)
        core.add(("live", number), now=0.0)
        served(core, 2)
        assert order.flows() <= 5
    assert container_sizes(order)["_Level.turns"] <= 5 * 65  # each of at most 65 turns has four fields


def test_an_item_whose_flow_changed_while_it_was_ready_is_raised() -> None:
    """A flow function may read a table that changes: the item is found in its old flow."""
    teams = {"a": "red", "b": "red"}
    order: FairOrder[str] = FairOrder(teams.__getitem__, lambda _: 1.0)
    core = QueueCore(order)
    for item in "ab":
        core.add(item, now=0.0, priority=LOW_PRIORITY)
    teams["b"] = "blue"
    core.add("b", now=0.0)
    assert [taken.item for _ in range(2) if (taken := core.take(0.0)) is not None] == ["b", "a"]
    assert core.take(0.0) is None


def test_a_standby_queue_with_fairness_drops_the_oldest_items() -> None:
    """The limit of a queue holds with fairness, and dropped items are not served."""
    core = fair_core()
    core.limit = 10
    for number in range(30):
        core.add((f"tenant-{number % 3}", number), now=0.0)
    assert (len(core), core.dropped) == (10, 20)
    assert len(served(core, 10)) == 10
    assert core.take(0.0) is None


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 40)), max_size=60, unique=True),
    st.lists(st.sampled_from("xyz"), max_size=20),
)
def test_fairness_loses_and_doubles_no_item(items: list[tuple[str, int]], raised: list[str]) -> None:
    """Every added item is served once, and the items of one tenant in the order in which they were added."""
    core = fair_core({"x": 3.0, "y": 0.25})
    for item in items:
        core.add(item, now=0.0)
    for tenant in raised:
        first = next((item for item in items if item[0] == tenant), None)
        if first is not None:
            core.add(first, now=0.0, priority=1)
    taken = []
    while (queue_item := core.take(0.0)) is not None:
        taken.append(queue_item.item)
    assert sorted(taken) == sorted(items)
    for tenant in set("xyz") - set(raised):
        assert [i for i in taken if i[0] == tenant] == [i for i in items if i[0] == tenant]


# -------------------------------------------------------------- the author's functions
async def test_requests_of_namespaces_take_turns() -> None:
    """Without a function, the namespace of a request is its flow; weights are those of namespaces."""
    queue: WorkQueue[Any] = WorkQueue("q", fairness=Fairness(weights={"b": 2}))
    for number in range(4):
        queue.add(Request("a", str(number)))
    for number in range(4):
        queue.add(Request("b", str(number)))
    order = [(await queue.get()).item.namespace for _ in range(8)]
    assert order == ["a", "b", "b", "a", "b", "b", "a", "a"]


async def test_requests_without_a_namespace_are_one_flow() -> None:
    """A request of another class, without a namespace, is served in order."""
    queue: WorkQueue[Any] = WorkQueue("q", fairness=Fairness())
    for number in range(3):
        queue.add(number)
    assert [(await queue.get()).item for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    "flow",
    [lambda _: 1 / 0, lambda _: [], lambda _: {"a": 1}],
    ids=["raises", "list", "dict"],
)
async def test_a_flow_function_that_fails_loses_no_request(flow: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The namespace counts instead, and the error is logged once with the request."""
    queue: WorkQueue[Any] = WorkQueue("q", fairness=Fairness(flow=flow))
    with caplog.at_level(logging.ERROR):
        for request in (Request("a", "0"), Request("a", "1"), Request("b", "0")):
            queue.add(request)
    assert [str((await queue.get()).item) for _ in range(3)] == ["a/0", "b/0", "a/1"]
    assert [record.getMessage() for record in caplog.records] == [
        "the fairness of controller q: flow (the namespace counts) raised for a/0"
    ]


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), "1", True, None, 1e-9])
async def test_a_weight_function_with_a_wrong_result_counts_as_one(
    weight: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is logged, and all requests are served."""
    queue: WorkQueue[Any] = WorkQueue("q", fairness=Fairness(weights=lambda _: weight))
    for request in (Request("a", "0"), Request("a", "1"), Request("b", "0")):
        queue.add(request)
    with caplog.at_level(logging.ERROR):
        assert [str((await queue.get()).item) for _ in range(3)] == ["a/0", "b/0", "a/1"]
    assert "weights (the weight is 1) raised for a" in caplog.text


async def test_a_mapping_that_changes_later_changes_no_weight() -> None:
    """The weights were checked at the declaration, so later numbers do not count."""
    weights = {"a": 1.0}
    order = fair_order("q", Fairness(weights=weights))
    weights["a"] = 0.0
    order.push(0, Request("a", "0"))
    assert order.pop() == Request("a", "0")


async def asynchronous(_: Any) -> str:
    """A coroutine function, whose result would always be a group of its own."""
    return "a"


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"flow": "namespace"}, "flow of Fairness takes a function from a request to its group, but got 'namespace'"),
        ({"flow": str}, "flow of Fairness takes a function"),
        ({"flow": asynchronous}, "which is async"),
        ({"weights": 5}, "weights of Fairness takes a mapping from groups to numbers, or a function, but got 5"),
        ({"weights": asynchronous}, "which is async"),
        ({"weights": {"a": 0}}, "the weight of 'a' is 0: a weight is a number from 0.001 to 1000"),
        ({"weights": {"a": -1}}, "the weight of 'a' is -1"),
        ({"weights": {"a": float("nan")}}, "the weight of 'a' is nan"),
        ({"weights": {"a": float("inf")}}, "the weight of 'a' is inf"),
        ({"weights": {"a": "2"}}, "the weight of 'a' is '2'"),
        ({"weights": {"a": True}}, "the weight of 'a' is True"),
    ],
)
def test_wrong_arguments_are_refused_at_the_declaration(keywords: dict[str, Any], words: str) -> None:
    """The error says what to write, with this file and line."""
    with pytest.raises(UsageError) as error:
        Fairness(**keywords)
    assert words in str(error.value)
    assert f"{__file__}:" in str(error.value)


@pytest.mark.parametrize("value", [True, "namespace", Fairness, {"weights": {}}])
def test_an_option_that_is_no_fairness_is_refused(value: Any) -> None:
    """The error says what to write, with this file and line."""
    with pytest.raises(UsageError, match=r"write fairness=Fairness\(\)") as error:
        ControllerOptions(fairness=value)
    assert f"{__file__}:" in str(error.value)


def test_options_with_fairness_are_equal_by_value() -> None:
    """Two options with the same weights are equal, and a copy keeps them."""
    options = ControllerOptions(fairness=Fairness(weights={"a": 2}))
    assert msgspec.structs.replace(options, max_concurrent_reconciles=2).fairness == Fairness(weights={"a": 2})


async def test_a_fair_queue_hands_each_item_to_one_worker() -> None:
    """Under cancelled workers and repeated adds, every tenant's last add is processed."""
    rng = random.Random(3)
    queue: WorkQueue[Request] = WorkQueue("q", fairness=Fairness())
    expected: Counter[Request] = Counter()
    handled: Counter[Request] = Counter()

    async def worker() -> None:
        while True:
            request = (await queue.get()).item
            version = expected[request]
            try:
                await asyncio.sleep(rng.random())
                handled[request] = version
            finally:
                if handled[request] != version:
                    queue.add(request)
                queue.done(request)

    workers = [asyncio.create_task(worker()) for _ in range(3)]
    for _ in range(300):
        request = Request(rng.choice("abc"), str(rng.randrange(4)))
        expected[request] += 1
        queue.add(request, after=rng.choice([0, 0.5]), priority=rng.choice([0, LOW_PRIORITY]))
        await asyncio.sleep(rng.random() / 3)
        if rng.random() < 0.05:
            victim = rng.randrange(3)
            workers[victim].cancel()
            await asyncio.gather(workers[victim], return_exceptions=True)
            workers[victim] = asyncio.create_task(worker())
    await asyncio.sleep(300)
    assert handled == expected
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
