"""``Object{...}`` and ``JSONPatch{...}`` as values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.expressions.admission import admission_environment
from opsdk.apiserver.expressions.mutation import (
    ConstructedObject,
    MutationTypes,
    as_json,
    as_tree,
    check_names,
    construct,
)
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.types import DYN, INT
from opsdk.cel.values import equal
from opsdk.errors import PatchError

ENVIRONMENT = admission_environment(patches=True)
MUTATION_TYPES = MutationTypes()

TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below, max_size=3),
    max_leaves=10,
)


def value(expression: str) -> Any:
    """Return the value of an expression."""
    return ENVIRONMENT.compile(expression).evaluate({})


def objects(tree: Any, path: str) -> Any:
    """The tree with every map as an object named after its place, as a careful writer of expressions would do it."""
    if isinstance(tree, dict):
        return construct(MUTATION_TYPES[path], {key: objects(below, f"{path}.{key}") for key, below in tree.items()})
    return [objects(below, path) for below in tree] if isinstance(tree, list) else tree


@given(TREES)
def test_objects_named_after_their_places_are_the_trees_that_they_spell(tree: Any) -> None:
    """A tree survives the conversion to typed Object values and back."""
    created = objects(tree, "Object")
    check_names(created)
    assert as_tree(created) == tree
    assert equal(created, objects(tree, "Object"))


@given(TREES)
def test_objects_at_the_wrong_path_are_errors(tree: Any) -> None:
    """An Object type at another path than its name says is an error."""
    outer = construct(MUTATION_TYPES["Object"], {"field": objects(tree, "Object")})
    if "Made" not in str(_kinds(objects(tree, "Object"))):
        check_names(outer)
        return
    with pytest.raises(PatchError, match=r"^type mismatch: unexpected type name "):
        check_names(outer)


def _kinds(made: Any) -> list[str]:
    if isinstance(made, ConstructedObject):
        return ["Made"]
    return [kind for below in made for kind in _kinds(below)] if isinstance(made, list) else []


def test_every_object_type_has_every_field() -> None:
    """Every type name below Object exists and has every field, because the schema is unknown at compile time."""
    assert MUTATION_TYPES["Object.spec.x"].fields["whatever"] == DYN
    assert "Objects" not in MUTATION_TYPES
    assert "Object" in list(MUTATION_TYPES)
    assert len(MUTATION_TYPES) == 2


@pytest.mark.parametrize(
    ("expression", "tree"),
    [
        ("Object{}", {}),
        ("Object{a: 1, b: 2u, c: 1.5, d: true, e: null}", {"a": 1, "b": 2, "c": 1.5, "d": True, "e": None}),
        ("Object{a: {'k': [1, 2]}}", {"a": {"k": [1, 2]}}),
        ("Object{a: b'xy'}", {"a": "eHk="}),
        ("Object{a: timestamp('2020-01-02T03:04:05Z')}", {"a": "2020-01-02T03:04:05Z"}),
        ("Object{a: duration('90s')}", {"a": "90s"}),
        ("Object{?a: optional.of(1), ?b: optional.none()}", {"a": 1}),
        ("Object{a: optional.of('x'), b: optional.none()}", {"a": "x", "b": None}),
        ("JSONPatch{op: 'add', path: '/x', value: {'a': 1}}", {"op": "add", "path": "/x", "value": {"a": 1}}),
    ],
)
def test_values_have_the_json_that_protobuf_gives_them(expression: str, tree: Any) -> None:
    """Bytes in base64, times in RFC 3339, optional fields only where they have a value."""
    assert as_tree(value(expression)) == tree


def test_objects_can_be_read_and_compared() -> None:
    """Set fields are present; two objects are equal if types and fields are."""
    assert value("Object{a: 1}.a == 1 && has(Object{a: 1}.a) && !has(Object{a: 1}.b)") is True
    assert value("Object{a: 1} == Object{a: 1.0} && Object{a: 1} != Object{b: 1}") is True
    assert value("dyn(Object.a{}) == dyn(Object.b{}) || dyn(Object{}) == dyn(1)") is False
    assert construct(MUTATION_TYPES["Object"], {"a": 1}).size() == 1


def test_what_has_no_json_is_refused() -> None:
    """Keys that are not strings, types, and patch fields that are not strings are errors at run time."""
    for expression in ("Object{a: {1: 2}}", "Object{a: type(1)}"):
        with pytest.raises(PatchError):
            as_tree(value(expression))
    with pytest.raises(CelEvaluationError, match="'path' field"):
        value("JSONPatch{op: 'add', path: dyn(1)}")


@pytest.mark.parametrize(
    ("expression", "json"),
    [
        ("9007199254740991", 9007199254740991),
        ("9007199254740992", "9007199254740992"),
        ("-9007199254740992", "-9007199254740992"),
        ("18446744073709551615u", "18446744073709551615"),
        ("{'d': duration('1h5s')}", {"d": "3605s"}),
        ("[dyn(1.5), dyn(true), dyn(null)]", [1.5, True, None]),
    ],
)
def test_values_of_operations_are_json(expression: str, json: object) -> None:
    """Integers that a float cannot hold become strings."""
    assert as_json(value(expression)) == json


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({1: 2}, "unsupported type conversion from 'int' to string"),
        ({True: 2}, "type conversion error from bool to 'string'"),
        (INT, "type conversion not supported for 'type'"),
        (math.nan, "number_value: invalid NaN value"),
    ],
)
def test_what_has_no_json_form_is_reported(made: object, why: str) -> None:
    """A value without a JSON form has the error message of upstream's libraries."""
    with pytest.raises(PatchError, match="could not marshal to JSON") as caught:
        as_json({"deep": [made]})
    assert str(caught.value).endswith(why)
