"""Patches made from two states of an object."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from client_fakes import Site, site, tree
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.kinds import kind_of, metadata_only, unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import PartialObjectMetadata, Unstructured, deep_copy, to_dict
from opsdk.apimachinery.patch.merge_patch import apply_merge_patch
from opsdk.client.patch import MergeFrom
from opsdk.errors import EncodeError, UsageError
from opsdk.structured_merge.value import JsonObject

WIDGET = unstructured_kind("demo.opsdk.dev/v1", "Site")


def read(**rest: Any) -> Site:
    """A site as it was read."""
    return decode(msgspec.json.encode(tree(**rest)), kind_of(Site))


def patch_of(base: Any, obj: Any, **options: Any) -> Any:
    """The patch from one to the other, as a tree."""
    return msgspec.json.decode(MergeFrom(base, **options).data(obj))


@pytest.mark.behaviour(8)
def test_only_changed_fields_are_sent() -> None:
    """Fields that did not change are left out, also beside ones that did."""
    base = read()
    changed = deep_copy(base)
    changed.spec.replicas = 5
    changed.metadata.labels["a"] = "b"
    assert patch_of(base, changed) == {"spec": {"replicas": 5}, "metadata": {"labels": {"a": "b"}}}


@pytest.mark.behaviour(10)
def test_no_change_is_an_empty_patch() -> None:
    """An unchanged object gives an empty patch, even with a newer resource version."""
    partial = PartialObjectMetadata("v1", "Pod", ObjectMeta(name="a", resource_version="1"))
    for base in (read(), site(), Unstructured.from_tree(tree()), partial, Unstructured("v1", "Pod")):
        obj = deep_copy(base)
        assert patch_of(base, obj) == {}
        obj.metadata.resource_version = "99"
        assert patch_of(base, obj) == {}


@pytest.mark.behaviour(10)
def test_removed_fields_become_null() -> None:
    """A map's key, a whole map, an optional part."""
    base = read(status={"ready": 1}, spec={"image": "nginx", "labels": {"x": "1", "y": "2"}})
    changed = deep_copy(base)
    del changed.spec.labels["x"]
    changed.status = None
    assert patch_of(base, changed) == {"spec": {"labels": {"x": None}}, "status": None}


@pytest.mark.behaviour(9)
def test_large_integers_are_exact() -> None:
    """Beyond 2**53 a number does not pass through a float."""
    big = 2**53 + 1
    base = Unstructured.from_tree(tree(spec={"n": big, "m": 1}))
    changed = deep_copy(base)
    changed["spec"]["m"] = 2**63 - 1
    assert MergeFrom(base).data(changed) == b'{"spec":{"m":9223372036854775807}}'
    assert MergeFrom(base).data(base) == b"{}"


def test_the_base_is_a_copy() -> None:
    """The object itself may be the base, and be changed afterwards."""
    for obj in (read(), Unstructured.from_tree(tree())):
        patch = MergeFrom(obj)
        obj.metadata.annotations["a"] = "b"
        if isinstance(obj, Unstructured):
            obj["spec"]["image"] = "x"
        else:
            obj.spec.image = "x"
        assert msgspec.json.decode(patch.data(obj)) == {
            "metadata": {"annotations": {"a": "b"}},
            "spec": {"image": "x"},
        }


@pytest.mark.behaviour(8)
def test_an_optimistic_lock_sends_the_revision_of_the_base() -> None:
    """An optimistic lock sends the base's resource version, and is an error without one."""
    base = read()
    changed = deep_copy(base)
    changed.metadata.resource_version = "100"
    assert patch_of(base, changed, optimistic_lock=True) == {"metadata": {"resourceVersion": "7"}}
    with pytest.raises(UsageError, match="needs a resource version"):
        MergeFrom(site(), optimistic_lock=True)


def test_unknown_fields_are_not_touched() -> None:
    """A patch neither sends nor removes fields that the type does not know."""
    base = read(spec={"image": "nginx", "future": {"x": 1}}, extra=[1, 2])
    changed = deep_copy(base)
    changed.spec.image = "apache"
    assert patch_of(base, changed) == {"spec": {"image": "apache"}}


def test_a_value_without_json_form_raises_encode_error() -> None:
    """An EncodeError with the object's name."""
    base = Unstructured.from_tree(tree())
    changed = deep_copy(base)
    changed["spec"]["x"] = object()
    with pytest.raises(EncodeError, match="ns/a"):
        MergeFrom(base).data(changed)


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5)
keys = st.sampled_from(["a", "b", "c", "d"])
trees = st.recursive(scalars, lambda t: st.lists(t, max_size=3) | st.dictionaries(keys, t, max_size=3), max_leaves=12)


def _without_nulls(found: Any) -> Any:
    """A merge patch cannot say null; objects have none where it matters."""
    return {k: _without_nulls(v) for k, v in found.items() if v is not None} if isinstance(found, dict) else found


@given(st.dictionaries(keys, trees, max_size=4), st.dictionaries(keys, trees, max_size=4))
def test_a_patch_applied_to_its_base_gives_the_object(before: JsonObject, after: JsonObject) -> None:
    """Applied to the base as the server does it, the patch gives the object."""
    before, after = _without_nulls(before), _without_nulls(after)
    base, expected = Unstructured.from_tree(tree(spec=before)), Unstructured.from_tree(tree(spec=after))
    sent = patch_of(base, expected)
    assert _without_nulls(apply_merge_patch(to_dict(base), sent)) == _without_nulls(to_dict(expected))


@given(st.dictionaries(keys, trees, max_size=4), st.dictionaries(keys, trees, max_size=4), st.booleans())
def test_without_a_base_the_patch_starts_from_the_object_as_read(
    before: JsonObject, after: JsonObject, locked: bool
) -> None:
    """A patch without base equals the patch from a copy of the object as read, every time."""
    stored = msgspec.json.encode(tree(spec={"image": "nginx", **before}, future=before))
    for kind in (kind_of(Site), WIDGET, metadata_only(Site)):
        obj = decode(stored, kind)
        base = deep_copy(obj)
        obj.metadata.labels["changed"] = "yes"
        if isinstance(obj, Site):
            obj.spec.image = "apache"
        elif isinstance(obj, Unstructured):
            obj["spec"].update(after)
            obj["spec"].pop("a", None)
        patch = MergeFrom(optimistic_lock=locked)
        assert patch.data(obj) == MergeFrom(base, optimistic_lock=locked).data(obj) == patch.data(obj)


@pytest.mark.parametrize("obj", [site(), Unstructured.from_tree(tree())])
def test_an_object_that_was_not_read_needs_a_base(obj: Any) -> None:
    """A tree that the caller made follows the changes, so the difference would be empty."""
    with pytest.raises(UsageError, match=r"pass the object before the change, MergeFrom\(before\)"):
        MergeFrom().data(obj)
