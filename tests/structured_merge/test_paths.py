"""Field paths and JSON pointers."""

from __future__ import annotations

import pytest

from opsdk.structured_merge.paths import MISSING, FieldPath, get_path


def test_a_field_path_reads_as_the_server_writes_it() -> None:
    """Fields are joined by dots, indices and keys stand in brackets."""
    assert str(FieldPath("spec").child("containers").index(0).child("name")) == "spec.containers[0].name"
    assert str(FieldPath("metadata").child("labels").key("a/b")) == "metadata.labels[a/b]"


def test_extending_a_path_leaves_it_alone() -> None:
    """A path is a value: extending it returns another one."""
    spec = FieldPath("spec")
    spec.child("a")
    assert str(spec) == "spec"
    assert not FieldPath()


@pytest.mark.parametrize(
    ("parts", "found"),
    [(["a", 1, "b"], 2), (["a", -1, "b"], 2), (["a", 5], MISSING), (["z"], MISSING), (["a", "b"], MISSING), ([], None)],
)
def test_get_path_finds_or_says_missing(parts: list[str | int], found: object) -> None:
    """A path that leads nowhere gives the default, never an error."""
    tree = {"a": [{"b": 1}, {"b": 2}]}
    assert get_path(tree, parts) == (tree if found is None else found)
