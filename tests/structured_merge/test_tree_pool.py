"""Equal parts of JSON trees as one part."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.structured_merge.tree_pool import TreePool
from opsdk.structured_merge.value import JsonValue

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
)


def parts(tree: JsonValue) -> Iterator[JsonValue]:
    """Yield the lists and objects of a tree."""
    if isinstance(tree, dict | list):
        yield tree
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from parts(part)


@given(st.lists(TREES, max_size=4))
def test_trees_keep_their_json(trees: list[JsonValue]) -> None:
    """Trees have the same JSON as before: the order of keys, 1 and 1.0 and true, 0.0 and -0.0."""
    pool = TreePool()
    before = [json.dumps(tree) for tree in trees]
    assert [json.dumps(pool.share(tree)) for tree in trees] == before


@given(st.lists(TREES, max_size=4))
def test_equal_parts_are_one(trees: list[JsonValue]) -> None:
    """Lists and objects with the same JSON are one list or object."""
    pool = TreePool()
    shared = [part for tree in trees for part in parts(pool.share(tree))]
    by_json = {json.dumps(part): part for part in shared}
    assert all(by_json[json.dumps(part)] is part for part in shared)


def test_objects_of_a_cluster_have_metadata_of_their_own() -> None:
    """Two objects that are equal share their parts, but neither themselves nor their metadata."""
    pool = TreePool()
    one, other = (pool.share_parts({"metadata": {"labels": {"a": "b"}}, "spec": {"n": [1]}}) for _ in range(2))
    assert one == other
    assert one is not other
    assert one["metadata"] is not other["metadata"]
    assert one["metadata"]["labels"] is other["metadata"]["labels"]
    assert one["spec"] is other["spec"]


def test_deep_trees_are_refused() -> None:
    """A tree that is nested too deeply raises RecursionError, and does not end the process."""
    tree: JsonValue = []
    for _ in range(100_000):
        tree = [tree]
    with pytest.raises(RecursionError):
        TreePool().share(tree)
