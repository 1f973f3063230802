"""The paths of printer columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.extensions.jsonpath import find, valid
from opsdk.base.limits import LIMITS
from opsdk.structured_merge.value import JsonObject, JsonValue

TREE: JsonObject = {
    "spec": {"n": 3, "on": True, "a.b": "dotted", "list": [10, 20, 30, 40]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "age": 5, "limit": 9},
            {"type": "Done", "status": "False", "age": 9, "limit": 5},
            {"type": "Odd"},
        ]
    },
}
FOUND: list[tuple[str, list[Any]]] = [
    (".spec.n", [3]),
    ("$.spec.n", [3]),
    (".", [TREE]),
    (".spec.nothing.at.all", []),
    (r".spec.a\.b", ["dotted"]),
    (".spec['a.b']", []),
    (r".spec['a\.b']", ["dotted"]),
    (".spec.n ", [3]),
    (".spec.n x", []),
    (".spec.n@x", []),
    (".spec['n','on']", [3, True]),
    (".spec.list[0]", [10]),
    (".spec.list[-1]", [40]),
    (".spec.list[9]", []),
    (".spec.list[0,2]", [10, 30]),
    (".spec.list[0,2,9]", []),
    (".spec.list[0:9]", []),
    (".spec.list[9:9]", []),
    (".spec.list[1:3]", [20, 30]),
    (".spec.list[:]", [10, 20, 30, 40]),
    (".spec.list[-2:]", [30, 40]),
    (".spec.list[::2]", [10, 30]),
    (".spec.list[::0]", []),
    (".spec.list[*]", [10, 20, 30, 40]),
    (".spec.n[0]", []),
    (".status.conditions[*].type", ["Ready", "Done", "Odd"]),
    (".status.conditions.*.type", ["Ready", "Done", "Odd"]),
    ("..type", ["Ready", "Done", "Odd"]),
    ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
    (".status.conditions[?(@.type=='Ready')].status", ["True"]),
    ('.status.conditions[?( @.type != "Ready" )].type', ["Done", "Odd"]),
    (".status.conditions[?(@.status)].type", ["Ready", "Done"]),
    (".status.conditions[?(@.age>5)].type", ["Done"]),
    (".status.conditions[?(@.age>=5)].type", ["Ready", "Done"]),
    (".status.conditions[?(@.age<@.limit)].type", ["Ready"]),
    ('.status.conditions[?(@.age=="5")].type', []),
    (".status.conditions[?(@.age==true)].type", []),
]


@pytest.mark.parametrize(("path", "found"), FOUND, ids=[row[0] for row in FOUND])
def test_every_json_path_form_of_a_column_works(path: str, found: list[Any]) -> None:
    """Each form of JSONPath that a column may have finds its values."""
    assert valid(path)
    assert find(TREE, path) == found


INVALID = ["spec.n", "", ".a[", ".a[x]", ".a..", ".a[?(x)]", ".a['x]", ".a[ 0 ]", ".a[0,]", ".a['b',]", '.a["b"]']


@pytest.mark.parametrize("path", INVALID)
def test_what_is_no_path_is_not_taken_for_one(path: str) -> None:
    """An invalid JSONPath is not valid for a column."""
    assert not valid(path)


@given(st.text(alphabet=".[]*'\"?(@)=<>!ab0:,-\\ $", max_size=30))
def test_any_path_gives_a_list(path: str) -> None:
    """Every valid path returns a list of values, without an error."""
    assert isinstance(find(TREE, path), list)


CALLS_OF_A_VALUE = 20
"""Calls of functions for each value that an evaluation may visit, at most."""


def calls_of(function: Callable[[], object]) -> int:
    """Call a function. Returns how many functions in Python it has called, generators counted for each value."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    former = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(former)
    return calls


@pytest.mark.parametrize(
    "path",
    ["..*..*", "..*..*..*..*..*", "..a..a..a..a", "[*][*][*][*]..*", "..*['a','a','a','a']..*", "..a[?(@..*..*..a)]",
     "..*[?(@..*)]"],
)  # fmt: skip
def test_an_evaluation_visits_a_bounded_number_of_values(path: str) -> None:
    """An evaluation is bounded, however often a path multiplies; ordinary paths keep their values."""
    deep: JsonValue = []
    for _ in range(2000):
        deep = {"a": [deep, 1]}
    wide: JsonValue = [[[[{"a": n} for n in range(20)] for _ in range(20)] for _ in range(20)] for _ in range(20)]
    for tree in (deep, wide):
        assert calls_of(partial(find, tree, path)) < CALLS_OF_A_VALUE * LIMITS.json_path_values
    assert len(find({"a": [{"b": n} for n in range(5000)]}, ".a[*].b")) == 5000
