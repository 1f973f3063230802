"""The sizes of large stored objects."""

from __future__ import annotations

from opsdk.aio.large_work import LARGE_BYTES
from opsdk.apiserver.storage.large_objects import LargeObjects


def test_only_large_objects_are_remembered() -> None:
    """An object that becomes small again is forgotten, and so is the oldest one beyond the limit."""
    objects = LargeObjects(limit=2)
    trees = [{"metadata": {"uid": f"u{number}"}, "a": "x" * LARGE_BYTES} for number in range(3)]
    sizes = [objects.measure(tree) for tree in trees]
    assert [objects.size(tree) for tree in trees] == [None, *sizes[1:]]
    assert objects.measure({"metadata": {"uid": "u1"}}) < LARGE_BYTES
    assert objects.size(trees[1]) is None
    objects.measure({"a": "x" * LARGE_BYTES})  # such as a review, which has no uid
    assert list(objects.sizes) == ["u2"]
