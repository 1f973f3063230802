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
