"""Field sets: an algebra, and a wire form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import DecodeError
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet, format_path, key_element
from opsdk.structured_merge.value import JsonObject

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'k:{"name":"y"}', 'v:"s"', "v:1", "i:0"])
PATHS = st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple)
SETS = st.lists(PATHS, max_size=6).map(lambda paths: FieldSet.of(*paths))


@given(SETS)
def test_the_wire_form_comes_back(fields: FieldSet) -> None:
    """Decoding undoes encoding, also through JSON."""
    assert FieldSet.from_fields_v1(json.loads(json.dumps(fields.to_fields_v1()))) == fields


@given(st.lists(PATHS, max_size=6))
def test_equal_sets_share_one_wire_form(paths: list[tuple[str, ...]]) -> None:
    """Objects that are alike keep one wire form, whatever the order in which their fields came."""
    one, other = FieldSet.of(*paths), FieldSet.of(*reversed(paths))
    assert one.to_fields_v1() is other.to_fields_v1()


@given(SETS)
def test_a_set_is_its_paths(fields: FieldSet) -> None:
    """Iterating gives each path once, and each is contained."""
    paths = list(fields)
    assert len(paths) == len(set(paths)) == len(fields)
    assert all(path in fields for path in paths)
    assert FieldSet.of(*paths) == fields


@given(SETS, SETS)
def test_union_intersection_and_difference_are_those_of_paths(a: FieldSet, b: FieldSet) -> None:
    """The operations are those of sets of paths."""
    assert set(a | b) == set(a) | set(b)
    assert set(a & b) == set(a) & set(b)
    assert set(a - b) == set(a) - set(b)


@given(SETS, SETS)
def test_recursive_difference_also_takes_what_is_below(a: FieldSet, b: FieldSet) -> None:
    """No path is left that is in the other set or below one of its paths."""
    gone = set(b)
    expected = {path for path in a if not any(path[:length] in gone for length in range(1, len(path) + 1))}
    assert set(a.recursive_difference(b)) == expected


@given(SETS, SETS)
def test_field_sets_obey_the_laws_of_sets(a: FieldSet, b: FieldSet) -> None:
    """Union and intersection are commutative, idempotent and absorbing, and the empty set is neutral."""
    assert a | b == b | a
    assert a & b == b & a
    assert a | a == a == a & a
    assert a & (a | b) == a
    assert (a - b) | (a & b) == a
    assert a | EMPTY == a == a - EMPTY
    assert (a - a).is_empty


@given(SETS)
def test_leaves_have_nothing_below(a: FieldSet) -> None:
    """Leaves are the paths that start no other path."""
    paths = set(a)
    assert set(a.leaves()) == {
        path for path in paths if not any(other != path and other[: len(path)] == path for other in paths)
    }


def test_the_wire_form_is_ordered_as_the_server_orders_it() -> None:
    """Fields before keys before values before indices; numbers by size."""
    fields = FieldSet.of(
        ("i:1",), ('v:"b"',), ("v:2",), ("v:10",), ('k:{"p":443}',), ('k:{"p":80}',), ("f:z",), ("f:B",)
    )
    assert list(fields.to_fields_v1()) == [
        "f:B", "f:z", 'k:{"p":80}', 'k:{"p":443}', "v:2", "v:10", 'v:"b"', "i:1",
    ]  # fmt: skip


def test_a_member_with_something_below_has_a_dot() -> None:
    """The dot says that the path itself is owned too."""
    fields = FieldSet.of(("f:a",), ("f:a", "f:b"), ("f:c", "f:d"))
    assert fields.to_fields_v1() == {"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}}}


def test_spelling_does_not_matter() -> None:
    """Keys are the same in any order and with any spaces."""
    spelt = FieldSet.from_fields_v1({'k:{"protocol": "TCP", "containerPort": 80}': {}})
    assert spelt.contains([key_element({"containerPort": 80, "protocol": "TCP"})])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (["f:spec", "f:containers", 'k:{"name":"a"}', "f:image"], '.spec.containers[name="a"].image'),
        (["f:ports", 'k:{"port":80,"protocol":"TCP"}'], '.ports[port=80,protocol="TCP"]'),
        (["f:tags", 'v:"x"'], '.tags[="x"]'),
        (["f:l", "v:true"], ".l[=true]"),
        (["f:l", "i:3"], ".l[3]"),
    ],
)
def test_paths_read_as_in_conflicts(path: list[str], text: str) -> None:
    """The text form is that of conflict messages."""
    assert format_path(path) == text


@pytest.mark.parametrize("fields", [{"x:a": {}}, {"k:{": {}}, {"k:[1]": {}}, {"f:a": 1}, {"i:x": {}}])
def test_malformed_sets_are_refused(fields: JsonObject) -> None:
    """A malformed path element in fieldsV1 raises DecodeError."""
    with pytest.raises(DecodeError):
        FieldSet.from_fields_v1(fields)
