"""Patches cost what their bytes cost: copies, moves, indices and nesting have budgets, and lists have an index."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.data.schemas import types
from envtest.groups.common.model import Typing
from opsdk.apimachinery.patch.json_patch import apply_json_patch
from opsdk.apimachinery.patch.strategic_merge_patch import apply_strategic, create_strategic
from opsdk.errors import PatchError, TooLargeError
from opsdk.structured_merge.equality import deep_equal, identity
from opsdk.structured_merge.value import JsonObject, JsonValue
from tests.security.processor_time import cpu_seconds

POD = Typing(types()).shapes.of("io.k8s.api.core.v1.Pod")
SPEC, METADATA = POD.field("spec"), POD.field("metadata")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 2.5]) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(JSON, JSON)
def test_an_identity_is_equal_where_values_are_equal(a: JsonValue, b: JsonValue) -> None:
    """Numbers by value, booleans apart from numbers, objects without order, at any depth."""
    assert (identity(a) == identity(b)) == deep_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40,
        pytest.param(
            [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "copy", "from": "/b", "path": "/a/-"}] * 40,
            marks=pytest.mark.slow,
        ),
        [{"op": "copy", "from": "/b", "path": "/a/-"}] * 4000,
    ],
)
def test_copies_have_a_budget(operations: list[JsonObject]) -> None:
    """Each copy can double the document: kube-apiserver lets all of them add 3 MiB."""
    with pytest.raises(TooLargeError, match="accumulated size increase"):
        apply_json_patch({"a": [0], "b": "x" * 1000}, operations)


def test_copies_do_not_nest_without_end() -> None:
    """A copy of an object into itself is one level deeper each time."""
    nesting = [{"op": "copy", "from": "/a", "path": "/a/b"}]
    assert apply_json_patch({"a": {}}, nesting * 190)
    with pytest.raises(PatchError, match="exceeded max depth"):
        apply_json_patch({"a": {}}, nesting * 300)


def test_copies_within_the_budget_apply() -> None:
    """A patch whose copies add two megabytes is applied."""
    patched = apply_json_patch({"a": [], "b": "x" * 1000}, [{"op": "copy", "from": "/b", "path": "/a/-"}] * 2000)
    assert len(patched["a"]) == 2000


@pytest.mark.parametrize("op", [{"op": "add", "value": 0}, {"op": "move", "from": "/a/1"}])
def test_moved_elements_have_a_budget(op: JsonObject) -> None:
    """An insertion at the begin moves all elements of a list."""
    with pytest.raises(TooLargeError, match="moves"):
        apply_json_patch({"a": [0] * 300_000}, [{**op, "path": "/a/0"}] * 10_000)


def test_an_index_of_many_digits_is_no_index() -> None:
    """Python refuses to convert more than 4,300 digits."""
    with pytest.raises(PatchError, match="not a list index"):
        apply_json_patch({"a": [1]}, [{"op": "remove", "path": "/a/" + "9" * 5000}])


# ------------------------------------------------------------------ strategic merge
def _elements(count: int, first: int = 0) -> list[JsonObject]:
    return [{"name": f"n{number}", "image": "x"} for number in range(first, first + count)]


def _merge_keyed(count: int) -> None:
    apply_strategic({"containers": _elements(count)}, {"containers": _elements(count, count // 2)}, SPEC)


def _delete_keyed(count: int) -> None:
    gone = [{"$patch": "delete", "name": element["name"]} for element in _elements(count)]
    apply_strategic({"containers": _elements(count)}, {"containers": gone}, SPEC)


def _order_keyed(count: int) -> None:
    order = [{"name": element["name"]} for element in reversed(_elements(count))]
    apply_strategic({"containers": _elements(count)}, {"$setElementOrder/containers": order, "containers": []}, SPEC)


def _merge_plain(count: int) -> None:
    before, after = ([f"f{number}" for number in range(first, first + count)] for first in (0, count // 2))
    apply_strategic({"finalizers": before}, {"finalizers": after}, METADATA)


def _delete_plain(count: int) -> None:
    texts = [f"f{number}" for number in range(count)]
    apply_strategic({"finalizers": texts}, {"$deleteFromPrimitiveList/finalizers": texts[::-1]}, METADATA)


def _retain(count: int) -> None:
    fields = {f"f{number}": number for number in range(count)}
    apply_strategic(fields, {"$retainKeys": list(fields), **fields}, METADATA)


def _create(count: int) -> None:
    before, after = ([f"f{number}" for number in range(first, first + count)] for first in (0, count // 2))
    create_strategic({"finalizers": before}, {"finalizers": after}, METADATA)


@pytest.mark.parametrize(
    "merge", [_merge_keyed, _delete_keyed, _order_keyed, _merge_plain, _delete_plain, _retain, _create]
)
def test_a_strategic_merge_takes_linear_time(merge: Callable[[int], None]) -> None:
    """Eight times the elements cost about eight times as much; they cost 64 times as much where lists are searched."""
    small, large = (min(cpu_seconds(partial(merge, count)) for _ in range(3)) for count in (1000, 8000))
    assert large < 30 * small
