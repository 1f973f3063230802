"""Strategic merge patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.patch.strategic_merge_patch import apply_strategic, create_strategic
from opsdk.errors import PatchError
from opsdk.structured_merge.value import JsonObject
from tests.structured_merge.schemas import WORK

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"]), max_size=3)
STRINGS = st.lists(st.sampled_from("xyz"), max_size=3)


def keyed(element: st.SearchStrategy[JsonObject], key: str, values: list[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists without a key twice."""
    return st.lists(st.sampled_from(values), unique=True, max_size=4).flatmap(
        lambda keys: st.tuples(*(element.map(lambda item, value=value: {**item, key: value}) for value in keys)).map(
            list
        )
    )


ENV = keyed(st.fixed_dictionaries({}, optional={"value": st.sampled_from("12")}), "name", ["E", "F", "G"])
CONTAINERS = keyed(
    st.fixed_dictionaries({}, optional={"image": st.sampled_from("12"), "args": STRINGS, "env": ENV}),
    "name",
    ["a", "b", "c"],
)
VOLUMES = keyed(st.fixed_dictionaries({}, optional={"emptyDir": st.just({}), "configMap": LABELS}), "name", ["v", "w"])
WORKS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": LABELS, "finalizers": st.lists(st.sampled_from("xyz"), unique=True, max_size=3)}
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "replicas": st.integers(0, 2),
                "containers": CONTAINERS,
                "volumes": VOLUMES,
                "nodeSelector": LABELS,
                "replaced": LABELS,
                "tolerations": st.lists(LABELS, max_size=2),
                "strategy": st.fixed_dictionaries({}, optional={"type": st.sampled_from("AB"), "rolling": st.just({})}),
            },
        ),
    },
)


@given(WORKS, WORKS)
def test_a_created_patch_makes_the_new_of_the_old(old: JsonObject, new: JsonObject) -> None:
    """Applying what was created gives exactly the new object, order of lists included, and mutates nothing."""
    before = copy.deepcopy((old, new))
    patch = create_strategic(old, new, WORK)
    assert apply_strategic(old, patch, WORK) == new
    assert before == (old, new)


@given(WORKS)
def test_no_change_is_an_empty_patch(tree: JsonObject) -> None:
    """Equal objects need no patch."""
    assert create_strategic(tree, copy.deepcopy(tree), WORK) == {}


LIVE: JsonObject = {
    "metadata": {"labels": {"l": "1"}, "finalizers": ["x", "y"]},
    "spec": {
        "replicas": 1,
        "containers": [{"name": "c", "image": "i", "args": ["a"]}, {"name": "side", "image": "s"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "strategy": {"type": "Rolling", "rolling": {"n": 1}},
        "tolerations": [{"key": "k"}],
        "replaced": {"a": "1"},
    },
}


@pytest.mark.parametrize(
    ("patch", "field", "result"),
    [
        (
            {"containers": [{"name": "c", "image": "2"}]},
            "containers",
            [{"name": "c", "image": "2", "args": ["a"]}, {"name": "side", "image": "s"}],
        ),
        (
            {"containers": [{"name": "n"}]},
            "containers",
            [{"name": "n"}, {"name": "c", "image": "i", "args": ["a"]}, {"name": "side", "image": "s"}],
        ),
        ({"containers": [{"name": "c", "$patch": "delete"}]}, "containers", [{"name": "side", "image": "s"}]),
        ({"containers": [{"$patch": "replace"}, {"name": "o"}]}, "containers", [{"name": "o"}]),
        (
            {"$setElementOrder/containers": [{"name": "side"}, {"name": "c"}]},
            "containers",
            [{"name": "side", "image": "s"}, {"name": "c", "image": "i", "args": ["a"]}],
        ),
        (
            {
                "containers": [{"name": "n"}, {"name": "c", "$patch": "delete"}],
                "$setElementOrder/containers": [{"name": "n"}, {"name": "side"}],
            },
            "containers",
            [{"name": "n"}, {"name": "side", "image": "s"}],
        ),
        (
            {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"a": "b"}}]},
            "volumes",
            [{"name": "v", "configMap": {"a": "b"}}],
        ),
        ({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}, "strategy", {"type": "Recreate"}),
        ({"tolerations": [{"key": "z"}]}, "tolerations", [{"key": "z"}]),
        ({"strategy": {"$patch": "replace", "type": "X"}}, "strategy", {"type": "X"}),
        ({"strategy": {"$patch": "delete"}}, "strategy", {}),
        ({"replaced": {"b": "2"}}, "replaced", {"b": "2"}),
        ({"replicas": None}, "replicas", None),
        ({"nodeSelector": {"a": "1", "b": None}}, "nodeSelector", {"a": "1"}),
        ({"$deleteFromPrimitiveList/containers": "x"}, "replicas", 1),
    ],
)
def test_directives_replace_delete_merge_and_order(patch: JsonObject, field: str, result: Any) -> None:
    """The directives ``$patch``, ``$retainKeys`` and ``$setElementOrder`` work as in kubectl."""
    assert apply_strategic(LIVE, {"spec": patch}, WORK)["spec"].get(field) == result


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        ({"finalizers": ["z"]}, ["z", "x", "y"]),
        ({"finalizers": ["x"]}, ["x", "y"]),
        ({"$deleteFromPrimitiveList/finalizers": ["x"]}, ["y"]),
        ({"$setElementOrder/finalizers": ["y", "z", "x"], "finalizers": ["z"]}, ["y", "z", "x"]),
    ],
)
def test_lists_of_scalars(patch: JsonObject, result: list[str]) -> None:
    """Merging lists of scalars are sets with an order."""
    assert apply_strategic(LIVE, {"metadata": patch}, WORK)["metadata"]["finalizers"] == result


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"containers": [{"image": "x"}]}, "map: map[image:x] does not contain declared merge key: name"),
        (
            {"containers": [{"name": "c", "$patch": "explode"}]},
            "unknown patch type: explode in map: map[$patch:explode name:c]",
        ),
        ({"$patch": "bogus"}, "unknown patch type: bogus in map: map[$patch:bogus]"),
        ({"containers": [{"$patch": "merge"}]}, "merging lists cannot yet be specified in the patch"),
        ({"strategy": {"$retainKeys": "x"}}, "invalid patch format of retainKeys"),
        ({"strategy": {"$retainKeys": ["rolling"], "type": "X"}}, "invalid patch format of retainKeys"),
        ({"$setElementOrder/containers": "x"}, "expected a []interface {}, but received a string"),
        (
            {"containers": [{"name": "c"}], "$setElementOrder/containers": [{"name": "x"}]},
            "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:x]]\n",
        ),
    ],
)
def test_what_makes_no_sense_is_told_as_the_server_tells_it(patch: JsonObject, message: str) -> None:
    """Errors of contradictory patches have the server's message."""
    with pytest.raises(PatchError) as caught:
        apply_strategic(LIVE, {"spec": patch}, WORK)
    assert str(caught.value) == message


def test_elements_must_be_of_one_type() -> None:
    """A list of objects does not merge with a list of strings."""
    with pytest.raises(PatchError, match="list element types are not identical: "):
        apply_strategic(LIVE, {"spec": {"containers": ["c"]}}, WORK)
