"""Objects beside each other: what collides, what is disturbed, and what is left over."""

from __future__ import annotations

from opsdk.engine.world.rest_state import RestState
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.life.neighbours import Alone, disturbed_neighbours, left_over, neighbours_of

FIRST: JsonObject = {"metadata": {"name": "example", "namespace": "default"}, "spec": {"text": "one"}}
SECOND: JsonObject = {"metadata": {"name": "example", "namespace": "default"}, "spec": {"text": "two"}}


def alone(name: str, **objects: str) -> Alone:
    """What one object leads to: ConfigMaps with a text each."""
    states = {f"core/configmaps/default/{key}": [{"data": {"text": text}}] for key, text in objects.items()}
    return Alone(name, f"demo/sites/{name}", RestState(objects=states))


def union(*ones: Alone) -> RestState:
    """The state with the objects of all."""
    return RestState(objects={key: value for one in ones for key, value in one.state.objects.items()})


def test_neighbours_have_the_names_that_lead_astray() -> None:
    """One name in two namespaces, names that are equal when joined, and long names that differ in the end only."""
    objects = list(neighbours_of(FIRST, SECOND, namespaced=True))
    names = [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(names)
    assert [name for _, name in names].count("example") == 2
    joined = ["-".join(pair) for pair in names]
    assert len(set(joined)) == len(joined) - 1
    for length in (63, 253):
        one, other = (name for _, name in names if len(name) == length)
        assert one[:-1] == other[:-1]
    assert {each["spec"]["text"] for each in objects} == {"one", "two"}


def test_objects_of_a_cluster_have_no_namespace() -> None:
    """Their names differ."""
    first: JsonObject = {"metadata": {"name": "example"}}
    objects = list(neighbours_of(first, first, namespaced=False))
    assert all("namespace" not in each["metadata"] for each in objects)
    assert len({each["metadata"]["name"] for each in objects}) == len(objects) == 5


def test_neighbours_that_keep_apart_are_not_reported() -> None:
    """Also if both lead to an equal object, which belongs to none of them."""
    one, other = alone("a", child="1", common="x"), alone("b", other="2", common="x")
    assert disturbed_neighbours([one, other], union(one, other)) == []
    assert left_over([one, other], [], RestState(objects={"core/configmaps/default/common": []}), RestState()) == []


def test_a_common_child_of_different_content_is_a_collision() -> None:
    """Whoever writes last wins."""
    one, other = alone("a", child="1"), alone("b", child="2")
    (difference,) = disturbed_neighbours([one, other], union(one, other))
    assert difference.text == "configmaps default/child is a child of a and of b: give it another name for each"


def generated(name: str, count: int = 1) -> Alone:
    """What one object leads to: ConfigMaps whose names the server completes."""
    states: list[JsonObject] = [{"data": {"text": name}}] * count
    return Alone(name, f"demo/sites/{name}", RestState(objects={"core/configmaps/default/run-*": states}))


def test_generated_names_are_counted() -> None:
    """Each object has others, so they neither collide nor belong to all; one too many or too few is reported."""
    one, other, both = generated("a"), generated("b"), generated("both", 2).state
    assert disturbed_neighbours([one, other], both) == []
    (missing,) = {each.text for each in disturbed_neighbours([one, other], one.state)}
    assert missing == "configmaps default/run-* exists 1 times beside other objects, alone 2 times in all"
    assert left_over([one], [other], other.state, RestState()) == []
    (stays,) = left_over([one], [other], both, RestState())
    assert stays.text.startswith("configmaps default/run-* exists 2 times after a deletion")
    assert left_over([one, other], [], both, RestState()) != []
    assert left_over([one, other], [], RestState(), RestState()) == []


def test_a_value_of_another_object_is_a_mistake_and_an_allocated_one_is_not() -> None:
    """A port that is free differs beside others, too."""
    one, other = alone("a", child="1"), alone("b", other="2")
    mixed = {**union(one, other).objects, "core/configmaps/default/other": [{"data": {"text": "1"}}]}
    (difference,) = disturbed_neighbours([one, other], RestState(objects=mixed))
    assert "of b has a value of another object: data.text: '2' -> '1'" in difference.text
    allocated = {**mixed, "core/configmaps/default/other": [{"data": {"text": "3"}}]}
    assert disturbed_neighbours([one, other], RestState(objects=allocated)) == []


def test_what_is_left_over_and_what_is_missing_is_named() -> None:
    """What was there before any object belongs to the operator."""
    one, other = alone("a", child="1", early="x"), alone("b", other="2")
    begin = RestState(objects={"core/configmaps/default/early": []})
    state = RestState(objects={**begin.objects, "core/configmaps/default/child": []})
    texts = [each.text for each in left_over([one], [other], state, begin)]
    assert texts == [
        "configmaps default/child is left over after the deletion of a",
        "configmaps default/other of b is gone after the deletion of a",
    ]


def test_a_claim_stays_with_its_data_unless_the_operator_deletes_claims() -> None:
    """The claims of a StatefulSet outlive it, too; an operator that deletes some must delete all of them."""
    key = "core/persistentvolumeclaims/default/data"
    one = Alone("a", "demo/sites/a", RestState(objects={key: [{}]}))
    assert left_over([one], [], RestState(objects={key: [{}]}), RestState()) == []
    state = RestState(objects={key: [{}]}, deleted={"core/persistentvolumeclaims/default/other": 1})
    texts = [each.text for each in left_over([one], [], state, RestState())]
    assert texts == ["persistentvolumeclaims default/data is left over after the deletion of a"]
