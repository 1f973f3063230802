"""Which handlers run when: no object twice at once, no more retries than allowed, nothing forgotten."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from opsdk import Request
from opsdk.lifecycle.run_table import AnyRequest, HandlerRequest, RunTable, RunVerdict, request_of

KEYS = [Request("ns", name) for name in "abc"]
HANDLERS = ("x", "y")
items_of = st.one_of(
    st.sampled_from(KEYS),
    st.builds(HandlerRequest.of, st.sampled_from(KEYS), st.sampled_from(HANDLERS)),
)
steps_of = st.lists(
    st.one_of(
        st.tuples(st.just("take"), items_of),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("fail"), items_of),
        st.tuples(st.just("settle"), items_of),
    ),
    max_size=60,
)


class Play:
    """A queue and workers around a table."""

    def __init__(self, limit: int) -> None:
        self.table = RunTable(retry_limit=limit)
        self.limit = limit
        self.queue: list[AnyRequest] = []
        self.running: list[AnyRequest] = []
        self.ran: Counter[AnyRequest] = Counter()

    def take(self, item: AnyRequest) -> None:
        verdict = self.table.begin(item)
        if verdict is RunVerdict.RUN:
            self.running.append(item)
            self.ran[item] += 1
        elif isinstance(item, HandlerRequest) and verdict is not RunVerdict.PARKED:
            self.queue += self.table.unpark()
        keys = Counter((item.namespace, item.name) for item in self.running)
        assert max(keys.values(), default=0) <= 1
        assert sum(isinstance(item, HandlerRequest) for item in self.running) <= self.limit

    def end(self, number: int) -> None:
        if self.running:
            self.queue += self.table.end(self.running.pop(number % len(self.running)))

    def drain(self) -> None:
        """Let everything end, with handlers that succeed."""
        for _ in range(1000):
            while self.queue:
                self.take(self.queue.pop(0))
            if not self.running:
                return
            item = self.running[0]
            for handler in [item.handler] if isinstance(item, HandlerRequest) else HANDLERS:
                self.table.succeeded(request_of(item), handler)
            self.end(0)
        raise AssertionError("it never ends")


@given(steps_of, st.integers(1, 3))
def test_nothing_is_forgotten(steps: list[tuple[str, object]], limit: int) -> None:
    """Each taken request runs or its handler has succeeded meanwhile, and in the end the table is empty."""
    play = Play(limit)
    taken: Counter[AnyRequest] = Counter()
    for action, value in steps:
        if isinstance(value, int):
            play.end(value)
        elif isinstance(value, Request | HandlerRequest):
            key, handler = request_of(value), getattr(value, "handler", "x")
            match action:
                case "take":
                    play.take(value)
                    taken[value] += 1
                case "fail":
                    play.table.failed(key, handler)
                case "settle":
                    play.table.succeeded(key, handler)
        while play.queue:
            play.take(play.queue.pop(0))
    play.drain()
    for item in taken:
        assert play.ran[item] >= 1 or isinstance(item, HandlerRequest)
    for handler in HANDLERS:
        play.table.forget_handler(handler)
    assert len(play.table) == 0


def test_a_settled_retry_leaves_its_room_to_the_next() -> None:
    """A parked retry whose handler succeeds meanwhile does not keep the next one parked."""
    table = RunTable(retry_limit=1)
    first, second, third = (HandlerRequest.of(key, "x") for key in KEYS)
    for key in KEYS:
        table.failed(key, "x")
    assert [table.begin(item) for item in (first, second, third)] == [
        RunVerdict.RUN,
        RunVerdict.PARKED,
        RunVerdict.PARKED,
    ]
    assert table.end(first) == [second]
    table.succeeded(KEYS[1], "x")
    assert table.begin(second) is RunVerdict.SETTLED
    assert table.unpark() == [third]
    assert table.begin(third) is RunVerdict.RUN


def test_a_timeout_is_remembered_until_a_success() -> None:
    """The table knows which handlers timed out for an object, and forgets it with a success or a removal."""
    table = RunTable(retry_limit=1)
    table.failed(KEYS[0], "x", timed_out=True)
    table.failed(KEYS[0], "y")
    assert [table.timed_out(KEYS[0], name) for name in ("x", "y", "z")] == [True, False, False]
    assert table.succeeded(KEYS[0], "x")
    assert not table.succeeded(KEYS[0], "x")
    table.forget_handler("y")
    assert len(table) == 0
