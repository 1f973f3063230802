"""What an operator keeps in variables is a part of a state."""

from __future__ import annotations

import functools
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from opsdk import ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.verification.exploration.variables import variables_of

SEEN: list[str] = []
Keep = Callable[[str], object]


class Memory:
    """An object with methods as reconcilers."""

    def __init__(self) -> None:
        self.names = deque[str]()

    def keep(self, name: str) -> None:
        """Remember a name."""
        self.names.append(name)


def in_closure() -> Keep:
    """Keep in a set of the enclosing function."""
    names = set[str]()

    def keep(name: str) -> None:
        names.add(name)

    return keep


def in_module() -> Keep:
    """Keep in a global variable."""

    def keep(name: str) -> None:
        SEEN.append(name)

    return keep


def in_counter() -> Keep:
    """Count calls."""
    counter = itertools.count()
    return lambda _: next(counter)


def in_nested_function() -> Keep:
    """Keep in the closure of a function that the reconciler calls."""
    keep = in_closure()

    async def reconcile(name: str) -> object:
        return keep(name)

    def call(name: str) -> None:
        coroutine = reconcile(name)
        try:
            coroutine.send(None)
        except StopIteration:
            return

    return call


def in_partial() -> Keep:
    """Keep in an argument that is bound already."""

    def keep(names: dict[str, int], name: str) -> None:
        names[name] = 1

    return functools.partial(keep, {})


@pytest.mark.parametrize(
    "make", [in_closure, in_module, in_counter, in_nested_function, in_partial, lambda: Memory().keep]
)
def test_what_a_function_keeps_is_seen(make: Callable[[], Keep]) -> None:
    """It is equal until something is kept, and differs then."""
    keep = make()
    before = repr(variables_of([keep]))
    assert repr(variables_of([keep])) == before
    keep("a")
    assert repr(variables_of([keep])) != before


def test_times_and_what_the_server_assigns_are_left_out() -> None:
    """Two runs differ in them, and are at the same state."""

    def make(version: str) -> Keep:
        cached = [ConfigMap(metadata=ObjectMeta(name="a", uid=version, resource_version=version)), time.monotonic()]
        return lambda _: cached.clear()

    assert repr(variables_of([make("1")])) == repr(variables_of([make("2")]))


def test_objects_of_other_packages_have_no_state() -> None:
    """A client counts its requests, and a logger its records."""

    def make(other: Any) -> Keep:
        return lambda _: other

    assert repr(variables_of([make(time.localtime)])) == repr(variables_of([make(time.localtime)]))
    assert "Random" in repr(variables_of([make(__import__("random").Random())]))


@pytest.mark.slow
def test_rings_and_large_values_end() -> None:
    """An object that contains itself, and one with more values than a state may have."""
    ring: list[Any] = []
    ring.append(ring)
    large = [[number] for number in range(100_000)]
    assert "..." in repr(variables_of([lambda _: ring]))
    assert "..." in repr(variables_of([lambda _: large]))
