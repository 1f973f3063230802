"""Strategic merge patches that make no sense, and what they leave as it is."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.data.schemas import types
from envtest.groups.common.model import Typing
from opsdk.apimachinery.patch.strategic_merge_patch import apply_strategic
from opsdk.errors import PatchError

TYPING = Typing(types())
OWNERS = {"metadata": {"ownerReferences": [{"uid": "a", "name": "n"}]}}


def patched(original: Any, patch: Any, kind: str = "core.v1.Pod") -> Any:
    """The outcome."""
    return apply_strategic(original, patch, TYPING.shapes.of(f"io.k8s.api.{kind}"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("bogus", "bogus"),
        (1, "%!s(int64=1)"),
        (None, "%!s(<nil>)"),
        (True, "%!s(bool=true)"),
        (["x", 1], "[x %!s(int64=1)]"),
    ],
)
def test_invalid_directives_are_printed_as_go_does(value: Any, shown: str) -> None:
    """An invalid directive is printed as Go's ``%s`` prints it."""
    with pytest.raises(PatchError, match=r"^unknown patch type: ") as refused:
        patched({"metadata": {"name": "a"}}, {"metadata": {"$patch": value}})
    assert str(refused.value).startswith(f"unknown patch type: {shown} in map: map[$patch:")


@pytest.mark.parametrize(
    ("original", "patch", "why"),
    [
        ({"metadata": {"finalizers": ["a"]}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": [1]}}, "[[a] [1]]"),
        (
            {"metadata": {"finalizers": []}},
            {"metadata": {"finalizers": [{"$patch": "delete"}]}},
            "without merge key for string",
        ),
        (
            {"metadata": {"finalizers": []}},
            {"metadata": {"$setElementOrder/finalizers": []}},
            "no elements in any of the given",
        ),
        (
            OWNERS,
            {"metadata": {"ownerReferences": [{"name": "n"}]}},
            "map: map[name:n] does not contain declared merge key: uid",
        ),
        (
            OWNERS,
            {"metadata": {"ownerReferences": [{"uid": "a"}], "$setElementOrder/ownerReferences": [{"name": "n"}]}},
            "map: map[name:n] does not contain declared merge key: uid",
        ),
        (
            OWNERS,
            {"metadata": {"ownerReferences": [{"uid": "a"}], "$setElementOrder/ownerReferences": ["a"]}},
            "expected a map[string]interface {}, but received a string",
        ),
    ],
)
def test_lists_that_do_not_fit_are_told(original: Any, patch: Any, why: str) -> None:
    """A list that cannot be patched raises an error with the reason."""
    with pytest.raises(PatchError) as refused:
        patched(original, patch)
    assert why in str(refused.value)


def test_lists_inside_of_maps_cannot_be_merged() -> None:
    """A list inside a map cannot be merged, because only struct fields have a merge strategy."""
    review = {"spec": {"extra": {"a": ["x"]}}}
    with pytest.raises(PatchError, match="data type is not struct, instead is: map"):
        patched(review, review, "authorization.v1.SubjectAccessReview")
    assert patched({"spec": {"extra": {}}}, review, "authorization.v1.SubjectAccessReview") == review


def test_elements_that_are_new_keep_their_nulls() -> None:
    """Beside others they are appended as they are; where nothing was, nulls mean nothing."""
    new = {"metadata": {"ownerReferences": [{"uid": "b", "name": None}]}}
    assert patched(OWNERS, new)["metadata"]["ownerReferences"] == [
        {"uid": "b", "name": None},
        {"uid": "a", "name": "n"},
    ]
    assert patched({"metadata": {}}, new) == {"metadata": {"ownerReferences": [{"uid": "b"}]}}


def test_a_list_is_replaced_by_what_stands_beside_the_directive() -> None:
    """With ``$patch: replace`` in a list, its other elements replace the list."""
    patch = {
        "metadata": {"ownerReferences": [{"uid": "b", "name": "x"}, {"$patch": "replace"}, {"uid": "b", "name": "y"}]}
    }
    assert patched(OWNERS, patch)["metadata"]["ownerReferences"] == [
        {"uid": "b", "name": "x"},
        {"uid": "b", "name": "y"},
    ]


def test_elements_without_merge_key_are_an_error_at_the_end() -> None:
    """An element without its merge key is skipped in the search, and is an error at the end."""
    with pytest.raises(PatchError, match=r"map: map\[name:lost\] does not contain declared merge key: uid"):
        patched(
            {"metadata": {"ownerReferences": [{"name": "lost"}, {"uid": "a"}]}},
            {"metadata": {"ownerReferences": [{"uid": "a"}]}},
        )
