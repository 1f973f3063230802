"""JSON patch, the server's dialect."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from opsdk.apimachinery.patch.json_patch import apply_json_patch, create_json_patch
from opsdk.errors import PatchError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.value import JsonObject
from tests.structured_merge.json_values import objects, trees


@given(objects(), objects())
def test_a_created_patch_makes_the_new_of_the_old(old: Any, new: Any) -> None:
    """Applying what was created gives exactly the new object."""
    assert deep_equal(apply_json_patch(old, create_json_patch(old, new)), new)


@given(trees())
def test_no_change_is_an_empty_patch(tree: Any) -> None:
    """Equal trees need no operations."""
    assert create_json_patch(tree, copy.deepcopy(tree)) == []


DOC = {"data": {"x": "1"}, "list": ["a", "b"], "m": {"a/b": 1, "c~d": 2}}


@pytest.mark.parametrize(
    ("operation", "where", "found"),
    [
        ({"op": "add", "path": "/data/y", "value": 2}, "data", {"x": "1", "y": 2}),
        ({"op": "add", "path": "/data/y"}, "data", {"x": "1", "y": None}),
        ({"op": "add", "path": "/list/-", "value": "c"}, "list", ["a", "b", "c"]),
        ({"op": "add", "path": "/list/0", "value": "c"}, "list", ["c", "a", "b"]),
        ({"op": "add", "path": "/list/2", "value": "c"}, "list", ["a", "b", "c"]),
        ({"op": "add", "path": "/list/-1", "value": "c"}, "list", ["a", "b", "c"]),
        ({"op": "remove", "path": "/list/-1"}, "list", ["a"]),
        ({"op": "replace", "path": "/list/-2", "value": "c"}, "list", ["c", "b"]),
        ({"op": "replace", "path": "/data/none", "value": "1"}, "data", {"x": "1", "none": "1"}),
        ({"op": "remove", "path": "/m/a~1b"}, "m", {"c~d": 2}),
        ({"op": "replace", "path": "/m/c~0d", "value": 3}, "m", {"a/b": 1, "c~d": 3}),
        ({"op": "move", "from": "/data/x", "path": "/m/x"}, "m", {"a/b": 1, "c~d": 2, "x": "1"}),
        ({"op": "copy", "from": "/data/nowhere", "path": "/data/z"}, "data", {"x": "1", "z": None}),
        ({"op": "test", "path": "/data/none", "value": None}, "data", {"x": "1"}),
        ({"op": "add", "path": "ignored/y", "value": 2}, "y", 2),
    ],
)
def test_what_the_server_accepts(operation: JsonObject, where: str, found: Any) -> None:
    """The operations do what kube-apiserver does, also where the RFC says otherwise."""
    before = copy.deepcopy(DOC)
    assert apply_json_patch(DOC, [operation])[where] == found
    assert before == DOC


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/x", "value": "2"},
        {"op": "test", "path": "/data/none", "value": "2"},
        {"op": "test", "path": "/data/x", "value": None},
        {"op": "remove", "path": "/data/none"},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/data/x/y", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "replace", "path": "/list/2", "value": 1},
        {"op": "replace", "path": "/list/-", "value": 1},
        {"op": "remove", "path": "/list/-3"},
        {"op": "move", "from": "/data/none", "path": "/data/y"},
        {"op": "copy", "from": "/none/x", "path": "/data/y"},
        {"op": "bogus", "path": "/data/x"},
        {"path": "/data/x", "value": "1"},
        {"op": "add", "value": "1"},
        {"op": "move", "path": "/data/x"},
        {"op": "replace", "path": "", "value": "text"},
        {"op": "add", "path": "", "value": {}},
    ],
)
def test_what_the_server_refuses(operation: JsonObject) -> None:
    """An operation that does not fit is an error, and the document stays."""
    before = copy.deepcopy(DOC)
    with pytest.raises(PatchError):
        apply_json_patch(DOC, [{"op": "add", "path": "/data/first", "value": 1}, operation])
    assert before == DOC


def test_replace_takes_the_whole_document() -> None:
    """The new document is an independent object or list."""
    value = {"kind": "X", "items": [1]}
    result = apply_json_patch(DOC, [{"op": "replace", "path": "", "value": value}])
    assert result == value
    assert result is not value
    assert apply_json_patch(DOC, [{"op": "replace", "path": "", "value": [1]}]) == [1]


def test_a_copy_is_independent() -> None:
    """Changing a copy later does not change its source."""
    operations = [
        {"op": "copy", "from": "/data", "path": "/copy"},
        {"op": "replace", "path": "/copy/x", "value": "2"},
    ]
    assert apply_json_patch(DOC, operations)["data"] == {"x": "1"}
