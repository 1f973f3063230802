"""Who an object belongs to."""

from __future__ import annotations

import pytest
from client_fakes import Site, SiteSpec

from opsdk.api.core.v1 import ConfigMap, Node
from opsdk.apimachinery.meta import ObjectMeta, OwnerReference
from opsdk.errors import AlreadyOwnedError, UsageError
from opsdk.recipes.finalizers import add_finalizer, contains_finalizer, is_deleting, remove_finalizer
from opsdk.recipes.owner_references import (
    controller_of,
    has_owner_reference,
    is_controlled_by,
    remove_owner_reference,
    set_controller_reference,
    set_owner_reference,
)


def owner(name: str = "a", namespace: str = "ns", uid: str = "u") -> Site:
    """A site that the server has."""
    return Site(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid), spec=SiteSpec(image="x"))


def child(namespace: str = "ns") -> ConfigMap:
    """What is owned."""
    return ConfigMap(metadata=ObjectMeta(name="c", namespace=namespace))


@pytest.mark.behaviour(136)
def test_one_controlling_owner() -> None:
    """Set once or often there is one reference; another controller is refused with both names, and nothing changes."""
    obj = child()
    for _ in range(3):
        set_controller_reference(owner(), obj)
    (reference,) = obj.metadata.owner_references
    assert reference == OwnerReference(
        api_version="demo.opsdk.dev/v1", kind="Site", name="a", uid="u", controller=True, block_owner_deletion=True
    )
    with pytest.raises(AlreadyOwnedError, match=r"ConfigMap ns/c is already controlled by Site a, so Site b"):
        set_controller_reference(owner("b", uid="v"), obj)
    assert obj.metadata.owner_references == [reference]
    assert is_controlled_by(owner(), obj)
    assert not is_controlled_by(owner(uid="other"), obj)
    assert controller_of(child()) is None


@pytest.mark.behaviour(136)
def test_an_owner_that_was_made_again_or_moved_on_is_updated() -> None:
    """An owner reference with another version or uid of the same owner is updated in place."""
    obj = child()
    obj.metadata.owner_references = [
        OwnerReference(api_version="demo.opsdk.dev/v1alpha1", kind="Site", name="a", uid="old", controller=True),
        OwnerReference(api_version="x/y/z", kind="Site", name="a", uid="odd"),
    ]
    set_controller_reference(owner(), obj, block_owner_deletion=False)
    first, second = obj.metadata.owner_references
    assert (first.api_version, first.uid, first.block_owner_deletion) == ("demo.opsdk.dev/v1", "u", False)
    assert second.uid == "odd"


def test_owners_that_do_not_control() -> None:
    """An object may have many owners without controller flag, and its controller stays."""
    obj = child()
    set_owner_reference(owner("a"), obj)
    set_owner_reference(owner("b", uid="v"), obj, block_owner_deletion=True)
    set_owner_reference(owner("a"), obj)
    assert [(r.name, r.controller, r.block_owner_deletion) for r in obj.metadata.owner_references] == [
        ("a", None, None),
        ("b", None, True),
    ]
    set_controller_reference(owner("a"), obj)
    set_owner_reference(owner("a"), obj)
    assert is_controlled_by(owner("a"), obj)


def test_an_owner_reference_is_removed_by_identity() -> None:
    """An owner reference is found and removed whatever its version or uid is."""
    obj = child()
    set_controller_reference(owner(), obj)
    gone = owner(uid="")
    assert has_owner_reference(gone, obj)
    assert remove_owner_reference(gone, obj)
    assert not remove_owner_reference(gone, obj)
    assert not has_owner_reference(owner(), obj)


@pytest.mark.behaviour(136)
def test_invalid_owners_are_errors() -> None:
    """An owner without uid, of another namespace, or with a namespace for a cluster-scoped object is an error."""
    node = Node(metadata=ObjectMeta(name="n", uid="n"))
    with pytest.raises(UsageError, match="another namespace"):
        set_controller_reference(owner(), child("other"))
    with pytest.raises(UsageError, match="cluster-scoped"):
        set_owner_reference(owner(), node)
    with pytest.raises(UsageError, match="no uid"):
        set_controller_reference(owner(uid=""), child())
    obj = child()
    set_controller_reference(node, obj)
    assert is_controlled_by(node, obj)


@pytest.mark.behaviour(138)
def test_finalizer_helpers_report_changes() -> None:
    """A finalizer is added once and removed wherever it stands; both functions report a change."""
    obj = child()
    assert add_finalizer(obj, "x.dev/a")
    assert not add_finalizer(obj, "x.dev/a")
    obj.metadata.finalizers += ["other", "x.dev/a"]
    assert contains_finalizer(obj, "x.dev/a")
    assert remove_finalizer(obj, "x.dev/a")
    assert not remove_finalizer(obj, "x.dev/a")
    assert obj.metadata.finalizers == ["other"]
    assert not is_deleting(obj)
