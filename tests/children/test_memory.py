"""Laws of `opsdk.children.memory`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.children.memory import Memory


@given(st.integers(1, 4), st.lists(st.integers(0, 6)))
def test_the_newest_values_are_kept(size: int, numbers: list[int]) -> None:
    """A memory holds the last distinct keys, up to its size, each with its last value."""
    memory: Memory[int, int] = Memory(size)
    for position, number in enumerate(numbers):
        memory.remember(number, position)
    last = {number: position for position, number in enumerate(numbers)}
    newest = sorted(last, key=lambda number: last[number])[-size:]
    assert dict(memory) == {number: last[number] for number in newest}


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 20), st.booleans())))
def test_the_newest_values_within_the_bytes_are_kept(max_bytes: int, steps: list[tuple[int, int, bool]]) -> None:
    """The weight is the sum of the values, and never above the limit."""
    memory: Memory[int, int] = Memory(100, weigh=lambda value: value, max_bytes=max_bytes)
    for key, value, forget in steps:
        if forget:
            memory.forget(key)
        else:
            memory.remember(key, value)
            assert (key in memory) == (value <= max_bytes)
        assert memory.weight == sum(memory.values()) <= max_bytes
