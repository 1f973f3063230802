"""The order of children: laws of the planner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.children.graph import DONE, ChildGraph, ChildState, to_delete
from opsdk.errors import UsageError


@st.composite
def graphs(draw: st.DrawFn) -> dict[int, list[int]]:
    """Return an acyclic graph in any order of declaration."""
    size = draw(st.integers(1, 8))
    after = {n: draw(st.lists(st.integers(0, n - 1), unique=True, max_size=3)) if n else [] for n in range(size)}
    names = draw(st.permutations(range(size)))
    pairs = [(names[n], [names[other] for other in before]) for n, before in after.items()]
    return dict(draw(st.permutations(pairs)))


@given(graphs(), st.data())
def test_a_child_is_applied_exactly_when_all_before_it_are_done(after: dict[int, list[int]], data: Any) -> None:
    """The topological law and maximal parallelism: nothing starts too early, and nothing waits without a reason."""
    graph = ChildGraph(after)
    states = dict.fromkeys(after, ChildState.PENDING)
    while (ready := graph.to_apply(states)) or ChildState.APPLYING in states.values():
        assert ready == [
            child
            for child in after
            if states[child] is ChildState.PENDING and {states[b] for b in after[child]} <= DONE
        ]
        for child in ready:
            states[child] = ChildState.APPLYING
        running = [child for child, state in states.items() if state is ChildState.APPLYING]
        ended = data.draw(st.sampled_from(running))
        states[ended] = data.draw(
            st.sampled_from([ChildState.APPLIED, ChildState.READY, ChildState.WAITING, ChildState.FAILED])
        )
    for child, state in states.items():
        assert (state is ChildState.PENDING) == bool(graph.waits_for(child, states))
    if set(states.values()) <= DONE:
        assert not any(graph.waits_for(child, states) for child in after)


@given(graphs(), st.data())
def test_children_are_deleted_in_reverse(after: dict[int, list[int]], data: Any) -> None:
    """A child is deleted when all that come after it are gone, at any distance; in the end all are gone."""
    graph = ChildGraph(after)
    before = {child: data.draw(st.sampled_from([graph.ancestors(child), frozenset(after[child])])) for child in after}
    existing, deleting = set(after), set[int]()
    while existing:
        remaining = {child: before[child] for child in after if child in existing}
        expected = {child for child in existing - deleting if not any(child in graph.ancestors(o) for o in existing)}
        chosen = set(to_delete({child: graph.ancestors(child) for child in remaining}, deleting))
        assert chosen == expected
        assert chosen <= set(to_delete(remaining, deleting))
        deleting |= chosen
        assert deleting, "nothing is deleted any more, and children are left"
        gone = data.draw(st.sampled_from(sorted(deleting)))
        deleting.remove(gone)
        existing.remove(gone)


@given(st.dictionaries(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=3), min_size=1))
def test_any_order_of_living_children_is_deleted(before: dict[int, list[int]]) -> None:
    """Circles, which different versions of a program may leave, stop nothing; a child before a circle goes last."""
    remaining = dict(before)
    while remaining:
        chosen = to_delete(remaining, [])
        assert chosen
        for child in chosen:
            del remaining[child]


def test_a_child_before_a_circle_is_deleted_after_it() -> None:
    """The children of the circle go together, those before it later, and those after it first."""
    before = {"first": [], "a": ["b", "first"], "b": ["a"], "last": ["b"]}
    assert to_delete(before, []) == ["last"]
    del before["last"]
    assert to_delete(before, []) == ["a", "b"]


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({"a": ["b"], "b": ["a"]}, "the order of the children is a cycle: (a after b after a|b after a after b)"),
        ({"a": ["a"]}, "is a cycle: a after a"),
        ({"a": ["x"]}, "a comes after x, which is not in the set: add it, or remove it from after"),
    ],
)
def test_an_impossible_order_is_refused(after: dict[str, list[str]], message: str) -> None:
    """The message names the children and what to change."""
    with pytest.raises(UsageError, match=message):
        ChildGraph(after)


def test_a_circle_names_each_child_after_the_one_before_it() -> None:
    """The circle reads in the direction of `after`."""
    with pytest.raises(
        UsageError, match=r"a after b after c after a|b after c after a after b|c after a after b after c"
    ):
        ChildGraph({"a": ["b"], "b": ["c"], "c": ["a"]})
