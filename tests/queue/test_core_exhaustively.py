"""The queue beside its model: every sequence of operations up to a length."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Self, TypeVar

import pytest
from state_search import reachable_states

from opsdk.queue.core import QueueCore

T = TypeVar("T")


def pause(queue: QueueCore[str], *, paused: bool) -> None:
    """Begin or end a pause."""
    queue.paused = paused


class QueuePair:
    """A queue and, for each item, its priority, its time, and whether it is processed."""

    def __init__(self) -> None:
        self.queue: QueueCore[str] = QueueCore()
        self.calls: list[Callable[[QueueCore[str]], object]] = []
        """All calls of the queue: a queue with the same calls is a copy of it."""
        self.now = 0.0
        self.model: dict[str, tuple[int, float]] = {}
        self.working: set[str] = set()

    def copy(self) -> Self:
        """Return a machine in the same state. A queue has an `itertools.count`, which Python 3.14 does not copy."""
        pair = type(self)()
        for call in self.calls:
            pair.call(call)
        pair.now, pair.model, pair.working = self.now, dict(self.model), set(self.working)
        return pair

    def operations(self) -> Mapping[str, Callable[[], None]]:
        """Two items, two delays, two priorities, time, pauses, takes, and ends of what is processed."""
        operations: dict[str, Callable[[], None]] = {"wait": self.wait, "take": self.take, "pause": self.pause}
        for item in "ab":
            operations[f"add {item}"] = partial(self.add, item, 0.0, 0)
            operations[f"add {item} later"] = partial(self.add, item, 1.5, 1)
        for item in self.working:
            operations[f"done {item}"] = partial(self.done, item)
        return operations

    def state(self) -> Hashable:
        """What is queued and processed, by times from now; and the order in which the queue would hand it out."""
        model = sorted((item, priority, max(when - self.now, 0.0)) for item, (priority, when) in self.model.items())
        queue: QueueCore[str] = QueueCore()
        for call in self.calls:
            call(queue)
        queue.paused = False
        order = []
        while (taken := queue.take(self.now)) is not None:
            order.append(taken.item)
        return tuple(model), frozenset(self.working), self.queue.paused, tuple(order)

    def call(self, call: Callable[[QueueCore[str]], T]) -> T:
        """Call the queue."""
        self.calls.append(call)
        return call(self.queue)

    def add(self, item: str, after: float, priority: int) -> None:
        """Adds merge: earliest time, highest priority."""
        is_new = self.call(partial(QueueCore.add, item=item, now=self.now, after=after, priority=priority))
        assert is_new == (item not in self.model)
        old = self.model.get(item, (priority, self.now + after))
        self.model[item] = max(old[0], priority), min(old[1], self.now + after)
        self.check()

    def wait(self) -> None:
        """A second passes."""
        self.now += 1.0
        self.check()

    def pause(self) -> None:
        """A pause begins or ends."""
        self.call(partial(pause, paused=not self.queue.paused))
        self.check()

    def take(self) -> None:
        """The queue returns what is due, not processed, and of the highest priority; nothing during a pause."""
        due = {item: priority for item, (priority, _) in self.due().items()}
        taken = self.call(partial(QueueCore.take, now=self.now))
        assert (taken is not None) == (bool(due) and not self.queue.paused)
        if taken is not None:
            assert due[taken.item] == max(due.values()) == taken.priority
            del self.model[taken.item]
            self.working.add(taken.item)
        self.check()

    def done(self, item: str) -> None:
        """The item may be taken again if it was added meanwhile."""
        self.call(partial(QueueCore.done, item=item, now=self.now))
        self.working.remove(item)
        self.check()

    def due(self) -> dict[str, tuple[int, float]]:
        """Return what may be taken now."""
        return {item: entry for item, entry in self.model.items() if entry[1] <= self.now and item not in self.working}

    def check(self) -> None:
        """Compare the queue with the model."""
        assert set(self.queue.queued()) == set(self.model)
        assert set(self.queue.processing()) == self.working
        self.call(partial(QueueCore.advance, now=self.now))
        assert len(self.queue) == len(self.due())
        later = [when for item, (_, when) in self.model.items() if when > self.now and item not in self.working]
        assert self.queue.next_ready_at() == (min(later) if later else None)


def test_all_states_of_two_items_obey_the_model() -> None:
    """After nine operations there is no further state."""
    assert reachable_states(QueuePair, 8) < reachable_states(QueuePair, 10) == reachable_states(QueuePair, 11)


class ForgetfulPair(QueuePair):
    """The bug: what is added while it is processed is not queued again."""

    def add(self, item: str, after: float, priority: int) -> None:
        """Add an item, unless it is processed."""
        if item not in self.working:
            super().add(item, after, priority)
        else:
            self.model[item] = priority, self.now + after


def test_a_planted_bug_is_found_with_its_sequence() -> None:
    """The shortest one."""
    with pytest.raises(AssertionError, match="after add a, take, add a, "):
        reachable_states(ForgetfulPair, 4)
