"""Exhaustive search over the operations of a core: each sequence up to a length, where equal states go on once."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

__all__ = ["Machine", "flatten", "reachable_states"]


class Machine(Protocol):
    """A core beside its model. Its operations check that both agree.

    It is copied by its method ``copy``, which returns a new machine, or else by pickle.
    """

    def operations(self) -> Mapping[str, Callable[[], None]]:
        """Return the operations that are possible now, by name."""
        ...

    def state(self) -> Hashable:
        """Return all on which the future depends. Times are relative to now."""
        ...


M = TypeVar("M", bound=Machine)


def reachable_states(make: Callable[[], M], length: int, *, at_rest: Callable[[M], None] | None = None) -> int:
    """Carry out every sequence of operations up to a length. Returns the number of different states.

    Args:
        make: makes a machine in its first state.
        length: of the longest sequence.
        at_rest: brings a copy of each state to rest, and checks what must hold there.

    Raises:
        AssertionError: an operation found a difference; the message ends with the sequence.
    """
    first = make()
    states = {first.state()}
    waiting: deque[tuple[tuple[str, ...], Callable[[], M]]] = deque([((), _copier(first))])
    while waiting:
        sequence, copy = waiting.popleft()
        for name in copy().operations():
            machine, longer = copy(), (*sequence, name)
            _check(machine.operations()[name], longer)
            state = machine.state()
            if state in states:
                continue
            states.add(state)
            copier = _copier(machine)
            if len(longer) < length:
                waiting.append((longer, copier))
            if at_rest is not None:
                _check(partial(at_rest, copier()), (*longer, "and then at rest"))
    return len(states)


def _copier(machine: M) -> Callable[[], M]:
    """Return what makes copies of the machine as it is now. The machine itself is not used again."""
    if (copy := getattr(machine, "copy", None)) is not None:
        copies: Callable[[], M] = copy
        return copies
    return partial(pickle.loads, pickle.dumps(machine))


def _check(step: Callable[[], None], sequence: tuple[str, ...]) -> None:
    try:
        step()
    except AssertionError as error:
        raise AssertionError(f"{error}\nafter {', '.join(sequence)}") from error


_PLAIN = frozenset({int, str, float, bool, type(None)})

Parts = Mapping[type, Callable[[Any], tuple[Any, ...]]]


def flatten(value: Any, parts: Parts) -> list[Hashable]:
    """Return all on which a value depends as one list, for `Machine.state`. Decimal strings become numbers.

    Two references to one object differ from references to two equal ones. Functions and bytes are left out.

    Args:
        value: the machine, or a part of it.
        parts: what is compared of an object of a class or its subclasses; by default all its attributes.
    """
    flat: list[Hashable] = []
    _flatten(value, parts, flat, {})
    return flat


def _flatten(value: Any, parts: Parts, flat: list[Hashable], places: dict[int, tuple[int, Any]]) -> None:
    kind = type(value)
    if kind in _PLAIN:
        flat.append(int(value) if kind is str and value.isdecimal() else value)
        return
    if kind is tuple or kind is list:
        flat.append(len(value))
        for one in value:
            _flatten(one, parts, flat, places)
        return
    if isinstance(value, Enum | type):
        flat.append(value)
        return
    if kind is bytes or callable(value):
        return
    place, _ = places.setdefault(id(value), (len(flat), value))  # with the value, so that no other one gets its id
    if place != len(flat):
        flat.append(("the one at", place))
        return
    part = next((parts[each] for each in kind.__mro__ if each in parts), None)
    inside = part(value) if part is not None else _inside(value)
    flat.append((kind.__name__, len(inside)))
    for one in inside:
        _flatten(one, parts, flat, places)


def _inside(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        return tuple(value.items())
    if isinstance(value, tuple | deque):
        return tuple(value)
    if isinstance(value, set | frozenset):
        return tuple(sorted(value))
    if isinstance(value, msgspec.Struct):
        return tuple(getattr(value, name) for name in value.__struct_fields__)
    slots = [getattr(value, name) for name in getattr(type(value), "__slots__", ())]
    return (*slots, *vars(value).values()) if hasattr(value, "__dict__") else tuple(slots)
