"""JSON merge patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from opsdk.apimachinery.patch.merge_patch import apply_merge_patch, create_merge_patch
from opsdk.structured_merge.equality import deep_equal
from tests.structured_merge.json_values import objects, trees


@given(objects(), objects())
def test_a_created_patch_makes_the_new_of_the_old(old: Any, new: Any) -> None:
    """Applying what was created gives exactly the new object, if it has no nulls."""
    assert deep_equal(apply_merge_patch(old, create_merge_patch(old, new)), new)


@given(trees(), trees())
def test_nothing_is_mutated(target: Any, patch: Any) -> None:
    """Applying and creating a merge patch change neither argument."""
    before = copy.deepcopy((target, patch))
    apply_merge_patch(target, patch)
    create_merge_patch(target, patch)
    assert before == (target, patch)


@given(objects())
def test_no_change_is_an_empty_patch(tree: Any) -> None:
    """Equal objects need no patch."""
    assert create_merge_patch(tree, copy.deepcopy(tree)) == {}


@given(objects(), trees())
def test_applying_twice_is_applying_once(target: Any, patch: Any) -> None:
    """Merge patches are idempotent."""
    once = apply_merge_patch(target, patch)
    assert deep_equal(apply_merge_patch(once, patch), once)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"n": 2**63}, {"m": 2**80}, {"n": 2**63, "m": 2**80}),
    ],
)
def test_the_examples_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    """RFC 7386, appendix A, and large integers stay exact."""
    assert apply_merge_patch(target, patch) == result
