"""Checks of desired objects; `test_applier` has the messages of each mistake."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.object import Unstructured
from opsdk.children.desired import check_desired
from opsdk.children.resolver import TypeResolver
from opsdk.errors import UsageError
from tests.children.childkit import gvk_of_tree, samples

SAMPLES = list(samples())


def check(tree: Any) -> None:
    """Check an object with the type that the table has."""
    gvk, meta = gvk_of_tree(tree), tree["metadata"]
    resolved = TypeResolver().resolve(gvk, Unstructured)
    check_desired(tree, gvk, ObjectKey(meta.get("namespace", ""), meta.get("name", "")), resolved)


@pytest.mark.parametrize("tree", SAMPLES, ids=lambda tree: f"{tree['apiVersion']}/{tree['kind']}")
def test_valid_objects_pass(tree: Any) -> None:
    """The samples of all kinds have no mistake."""
    check(tree)


@given(st.sampled_from(SAMPLES), st.sampled_from((7, "text", True, [1], {"a": 1})))
def test_a_field_that_is_not_declared_is_named(tree: Any, value: Any) -> None:
    """An unknown field is named, with any value."""
    with pytest.raises(UsageError, match=f"^{tree['kind']} .*unheardOf: field not declared in schema"):
        check({**tree, "unheardOf": value})


def test_items_are_named_by_their_keys() -> None:
    """The value of the first fault is shown, and no other one."""
    items = [{"name": "X", "value": "secret"}, {"name": "Y", "value": 7}]
    spec = {"containers": [{"name": "c", "env": items}]}
    with pytest.raises(UsageError) as caught:
        check({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}, "spec": spec})
    assert str(caught.value) == (
        'Pod b/a: spec.containers[name="c"].env[name="Y"].value: expected string; the value is 7'
    )


def test_an_unknown_type_is_not_checked() -> None:
    """The server checks a child whose type is not known here."""
    tree = {"apiVersion": "demo.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "status": {"x": 1}}
    check(tree)
