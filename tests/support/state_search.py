"""Exhaustive search over the operations of a core: each sequence up to a length, where equal states go on once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

__all__ = ["Machine", "reachable_states"]


class Machine(Protocol):
    """A core beside its model. Its operations check that both agree."""

    def operations(self) -> Mapping[str, Callable[[], None]]:
        """Return the operations that are possible now, by name."""
        ...

    def state(self) -> Hashable:
        """Return all on which the future depends. Times are relative to now."""
        ...


def reachable_states(make: Callable[[], Machine], length: int) -> int:
    """Carry out every sequence of operations up to a length. Returns the number of different states.

    Raises:
        AssertionError: an operation found a difference; the message ends with the sequence.
    """
    states = {make().state()}
    waiting: deque[tuple[str, ...]] = deque([()])
    while waiting:
        sequence = waiting.popleft()
        for name in play(make, sequence).operations():
            longer = (*sequence, name)
            state = play(make, longer).state()
            if state not in states:
                states.add(state)
                if len(longer) < length:
                    waiting.append(longer)
    return len(states)


def play(make: Callable[[], Machine], sequence: tuple[str, ...]) -> Machine:
    """Return a machine after a sequence of operations."""
    machine = make()
    for number, name in enumerate(sequence, 1):
        try:
            machine.operations()[name]()
        except AssertionError as error:
            raise AssertionError(f"{error}\nafter {', '.join(sequence[:number])}") from error
    return machine
