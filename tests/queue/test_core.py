"""The queue's rules."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from opsdk.base.cause import ReconcileCause
from opsdk.queue.core import LOW_PRIORITY, QueueCore, QueueState
from opsdk.queue.fairness import FairOrder

ITEMS = st.sampled_from("abcde")
# Short, so that items of every priority are overdue in many runs.
MAX_WAIT = 2.0


class QueueMachine(RuleBasedStateMachine):
    """The queue against a model that keeps, for each item, its priority, its time and its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: QueueCore[str] = self.new_queue()
        self.now = 0.0
        self.model: dict[str, tuple[int, float]] = {}
        self.working: set[str] = set()
        self.since: dict[str, float] = {}
        """When each ready item became ready at its priority."""
        self.took_overdue = False

    @rule(item=ITEMS, after=st.sampled_from([0.0, 1.0, 2.5]), priority=st.integers(-1, 2))
    def add(self, item: str, after: float, priority: int) -> None:
        """Adds merge: earliest time, highest priority."""
        fresh = self.queue.add(item, now=self.now, after=after, priority=priority)
        assert fresh == (item not in self.model)
        old = self.model.get(item, (priority, self.now + after))
        self.model[item] = (max(old[0], priority), min(old[1], self.now + after))
        if priority > old[0]:
            self.since.pop(item, None)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        """A pause begins or ends."""
        self.queue.paused = paused

    @rule()
    def take(self) -> None:
        """What is returned is due, not processed, and of the priority that is next; nothing during a pause."""
        due = {i: p for i, (p, when) in self.model.items() if when <= self.now and i not in self.working}
        assert self.queue.has_ready(self.now) == (bool(due) and not self.queue.paused)
        taken = self.queue.take(self.now)
        if self.queue.paused:
            assert taken is None
            return
        if not due:
            assert taken is None
            return
        assert taken is not None
        assert due[taken.item] == taken.priority
        self.check_priority(due, taken.priority)
        del self.model[taken.item], self.since[taken.item]
        self.working.add(taken.item)

    def check_priority(self, due: Mapping[str, int], taken: int) -> None:
        """The priority is the highest, or every second time the one whose oldest item waits longest and too long."""
        oldest = {priority: min(self.since[i] for i in due if due[i] == priority) for priority in due.values()}
        first, highest = min(oldest.values()), max(oldest)
        is_too_long = self.now - first > MAX_WAIT
        if taken == highest:
            assert self.took_overdue or not is_too_long or oldest[highest] == first
        else:
            assert not self.took_overdue
            assert is_too_long
            assert oldest[taken] == first
        self.took_overdue = taken != highest

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        """A finished item may be handed out again if it was added meanwhile."""
        item = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(item, now=self.now)
        self.working.remove(item)

    @precondition(lambda self: self.working)
    @rule(data=st.data(), after=st.sampled_from([0.0, 1.0]), damaged=st.booleans())
    def recover(self, data: st.DataObject, after: float, damaged: bool) -> None:
        """After an exception, no item is lost, whatever places it has left; the failed item is queued."""
        item = data.draw(st.sampled_from(sorted(self.working)))
        if damaged:
            self.queue.delayed.clear()
            self.queue._levels.clear()
            self.queue._depth.clear()
            self.queue._ready_count = 99
        self.queue.recover(item, now=self.now, after=after)
        self.working.remove(item)
        priority, when = self.model.get(item, (0, self.now + after))
        self.model[item] = (priority, min(when, self.now + after))
        self.since = {}
        self.forget_turns()

    def forget_turns(self) -> None:
        """Count the turns of flows anew."""

    def new_queue(self) -> QueueCore[str]:
        """Return an empty queue."""
        return QueueCore(max_wait=MAX_WAIT)

    @precondition(lambda self: not self.working)
    @rule()
    def restore(self) -> None:
        """Another queue goes on with what was saved. Until then it accepts and returns nothing."""
        saved, before = self.queue.save(), self.queue
        assert saved is not None
        self.queue = self.new_queue()
        self.queue.state, self.queue.paused = QueueState.HELD, before.paused
        assert not self.queue.add("a", now=self.now)
        assert self.queue.take(self.now) is None
        self.queue.restore(saved, now=self.now)
        self.since, self.took_overdue = {}, False
        assert self.queue.save() == saved

    @precondition(lambda self: self.working)
    @rule()
    def save_nothing(self) -> None:
        """An item that is processed is in no queue: there is nothing to go on with."""
        assert self.queue.save() is None

    @invariant()
    def agrees(self) -> None:
        """Queued and working items are those of the model, and the count is of what is ready."""
        assert set(self.queue.queued()) == set(self.model)
        assert set(self.queue.processing()) == self.working
        self.queue.advance(self.now)
        ready = [i for i, (_, when) in self.model.items() if when <= self.now and i not in self.working]
        assert len(self.queue) == len(ready)
        self.since = {item: self.since.get(item, self.now) for item in ready}
        later = [when for i, (_, when) in self.model.items() if when > self.now and i not in self.working]
        assert self.queue.next_ready_at() == (min(later) if later else None)


FLOWS = {"a": "x", "b": "x", "c": "x", "d": "y", "e": "z"}
WEIGHTS = {"x": 1.0, "y": 2.0, "z": 0.5}


class FairQueueMachine(QueueMachine):
    """The queue with fairness: every law of the queue, and the share of each flow."""

    def __init__(self) -> None:
        super().__init__()
        # Turns of two flows since both have ready items of one priority, by priority and flows.
        self.turns: dict[tuple[int, str, str], dict[str, int]] = {}

    def new_queue(self) -> QueueCore[str]:
        """Return an empty queue. A restored one counts turns anew."""
        self.forget_turns()
        return QueueCore(FairOrder(FLOWS.__getitem__, lambda flow: WEIGHTS[str(flow)]), max_wait=MAX_WAIT)

    def forget_turns(self) -> None:
        self.turns = {}

    def _ready_flows(self) -> set[tuple[int, str]]:
        return {
            (priority, FLOWS[item])
            for item, (priority, when) in self.model.items()
            if when <= self.now and item not in self.working
        }

    @rule()
    def take(self) -> None:
        """An item is served for its flow, in every pair of flows that both have ready items."""
        before = dict(self.model)
        super().take()
        for item in before.keys() - self.model.keys():
            for (priority, *pair), turns in self.turns.items():
                if priority == before[item][0] and FLOWS[item] in pair:
                    turns[FLOWS[item]] += 1

    @invariant()
    def flows_have_their_shares(self) -> None:
        """Of two flows with ready items, turns by weight differ by at most one turn of each."""
        ready = self._ready_flows()
        pairs = {
            (priority, one, other)
            for priority in {priority for priority, _ in ready}
            for one, other in combinations(sorted(flow for p, flow in ready if p == priority), 2)
        }
        self.turns = {pair: self.turns.get(pair, dict.fromkeys(pair[1:], 0)) for pair in pairs}
        for (_, one, other), turns in self.turns.items():
            difference = turns[one] / WEIGHTS[one] - turns[other] / WEIGHTS[other]
            assert abs(difference) <= 1 / WEIGHTS[one] + 1 / WEIGHTS[other] + 1e-9


TestFairQueueMachine = FairQueueMachine.TestCase
TestFairQueueMachine.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@pytest.mark.behaviour(66)
def test_equal_priorities_are_ordered_by_when_items_became_ready() -> None:
    """Of equal priorities, the item that became ready first is taken first."""
    q: QueueCore[str] = QueueCore()
    q.add("late", now=0, after=2)
    q.add("early", now=0, after=1)
    q.add("now", now=0)
    assert [q.take(5.0).item for _ in range(3)] == ["now", "early", "late"]  # type: ignore[union-attr]


@pytest.mark.behaviour(66, 67, 73)
def test_live_changes_overtake_the_initial_list() -> None:
    """A low-priority item is raised by a live change, and goes behind those already raised."""
    q: QueueCore[str] = QueueCore()
    for item in "abc":
        q.add(item, now=0, priority=LOW_PRIORITY)
    q.add("c", now=0)
    q.add("b", now=0)
    assert [q.take(0).item for _ in range(3)] == ["c", "b", "a"]  # type: ignore[union-attr]
    assert q.take(0) is None


@given(
    low=st.lists(st.sampled_from([LOW_PRIORITY, -1]), min_size=1, max_size=30),
    burst=st.integers(1, 5),
    seconds=st.floats(0.1, 20.0),
    fair=st.booleans(),
)
def test_no_item_starves_behind_items_of_higher_priority(
    low: list[int], burst: int, seconds: float, fair: bool
) -> None:
    """While live changes occupy the worker, the n-th waiting item is taken at the latest with the 2n-th take.

    The count begins when `max_wait` has passed.
    """
    q: QueueCore[tuple[str, int]] = QueueCore(FairOrder(itemgetter(0), lambda _: 1.0) if fair else None, max_wait=30)
    for number, priority in enumerate(low):
        q.add(("initial", number), now=0, priority=priority)
    now, live, late_takes, taken_late = 0.0, 0, 0, 0
    waiting = len(low)
    while waiting:
        for _ in range(burst):
            live += 1
            q.add(("live", live), now=now)
        taken = q.take(now)
        assert taken is not None
        late_takes += now > 30
        if taken.item[0] == "initial":
            assert now > 30
            waiting -= 1
            taken_late += 1
        assert late_takes < 2 * (taken_late + 1)
        q.done(taken.item, now=now)
        now += seconds


def test_a_queue_without_a_limit_returns_the_highest_priority() -> None:
    """With 0, items of a low priority wait for as long as others are ready."""
    q: QueueCore[str] = QueueCore(max_wait=0)
    q.add("low", now=0, priority=LOW_PRIORITY)
    for number in range(100):
        q.add(f"live {number}", now=number * 10)
        assert q.take(number * 10).item == f"live {number}"  # type: ignore[union-attr]


@pytest.mark.behaviour(61)
def test_an_item_is_never_processed_by_two_workers() -> None:
    """An item added during processing is returned again only after done()."""
    q: QueueCore[str] = QueueCore()
    q.add("a", now=0)
    assert q.take(0) is not None
    q.add("a", now=1)
    assert q.take(1) is None
    assert len(q) == 0
    assert q.done("a", now=3) == 3
    assert q.take(3) is not None


def test_done_twice_raises_key_error() -> None:
    """done() without take() is refused."""
    with pytest.raises(KeyError, match="not being processed"):
        QueueCore[str]().done("a", now=0)


@pytest.mark.behaviour(65)
@pytest.mark.parametrize("drain", [True, False])
def test_a_queue_that_is_shut_down_takes_no_items(*, drain: bool) -> None:
    """After shutdown no item is accepted; ready items are returned only when draining."""
    q: QueueCore[str] = QueueCore()
    q.add("a", now=0)
    q.add("later", now=0, after=10)
    q.shut_down(drain=drain)
    assert q.add("b", now=0) is False
    taken = q.take(0)
    assert (taken is not None) == drain
    assert q.take(100) is None
    assert q.state is (QueueState.DRAINING if drain else QueueState.CLOSED)


def test_heaps_drop_outdated_entries() -> None:
    """A thousand keys with a delay of ten hours, ten of them added often: the heaps stay as large as the keys."""
    core: QueueCore[int] = QueueCore()
    for key in range(1000):
        core.add(key, now=0.0, after=36_000)
    for step in range(6000):
        now = step / 10
        for key in range(10):
            core.add(key, now=now)
            item = core.take(now)
            assert item is not None
            core.done(item.item, now=now)
            core.add(item.item, now=now, after=36_000)
    assert len(core.delayed) <= 2 * 1000 + 64
    assert len(list(core.queued())) == 1000
    assert [core.take(40_000.0) is not None for _ in range(1001)] == [True] * 1000 + [False]


def test_a_timer_that_has_not_fired_is_no_cause() -> None:
    """An update before the end of the delay is the only cause; after the end, the timer is one too."""
    timer = ReconcileCause("requeue_after", detail="60 s")
    update = ReconcileCause("ConfigMap", "update", "default/a", "2")
    for taken_at, causes in ((10.0, [update]), (60.0, [update, timer])):
        for first, second in ((timer, update), (update, timer)):
            q: QueueCore[str] = QueueCore()
            for cause in (first, second):
                after = 60.0 if cause is timer else 0.0
                q.add("a", now=0.0, after=after, cause=cause, timer=cause is timer)
            taken = q.take(taken_at)
            assert taken is not None
            assert list(taken.causes) == causes
    q = QueueCore()
    q.add("a", now=0.0, after=60, cause=timer, timer=True)
    q.add("a", now=0.0, after=30, cause=timer, timer=True)
    assert q.take(29.0) is None
    taken = q.take(30.0)
    assert taken is not None
    assert taken.causes == (timer,)


def test_the_event_of_a_delayed_request_is_a_cause() -> None:
    """A handler may delay its request: its event has happened all the same."""
    q: QueueCore[str] = QueueCore()
    update = ReconcileCause("ConfigMap", "update", "default/a", "2")
    q.add("a", now=0.0, after=60, cause=update)
    q.add("a", now=0.0)
    taken = q.take(0.0)
    assert taken is not None
    assert taken.causes == (update,)


def test_a_limit_replaces_the_oldest_items() -> None:
    """Items that wait, are delayed or were added again count once."""
    q: QueueCore[int] = QueueCore()
    q.limit = 10
    for number in range(30):
        q.add(number, now=0.0, after=5.0 if number % 2 else 0.0, priority=number % 3)
        q.add(number, now=0.0)
        assert len(list(q.queued())) <= 10
    assert (sorted(q.queued()), q.dropped, len(q)) == (list(range(20, 30)), 20, 10)


def test_a_paused_queue_that_is_drained_closes() -> None:
    """A paused queue closes when it is drained: it returns nothing, so draining would never end."""
    q: QueueCore[str] = QueueCore()
    q.add("a", now=0.0)
    q.paused = True
    q.shut_down(drain=True)
    assert q.ended
    assert q.take(0.0) is None
