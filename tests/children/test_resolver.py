"""Where the type of a desired object comes from."""

from __future__ import annotations

from typing import Any

import msgspec

from opsdk.api.apps.v1 import Deployment
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, Unstructured
from opsdk.apimachinery.scheme import Scheme
from opsdk.children.ownership import STATUS
from opsdk.children.resolver import TypeResolver
from opsdk.structured_merge.fieldpath import EMPTY


class ThingSpec(Model, kw_only=True):
    """A typed spec."""

    size: int = 1


class Thing(Object[ThingSpec, None]):
    """A kind without status, of the whole cluster."""

    gvk = GroupVersionKind("demo.example.com", "v1", "Thing")
    namespaced = False


class TreeSpec(Model, kw_only=True):
    """A spec that contains itself."""

    children: "list[TreeSpec]" = msgspec.field(default_factory=list)  # noqa: UP037 - it is not defined yet


class Tree(Object[TreeSpec, None]):
    """A kind that has no structural schema."""

    gvk = GroupVersionKind("demo.example.com", "v1", "Tree")


def test_built_in_kinds_come_from_the_table() -> None:
    """Typed, unstructured and metadata forms of a built-in kind have its table."""
    for representation in (Deployment, Unstructured):
        resolved = TypeResolver().resolve(Deployment.gvk, representation)
        assert resolved is not None
        assert (resolved.namespaced, resolved.has_status, resolved.ignored) == (True, True, STATUS)


def test_classes_are_types_also_of_unstructured_objects() -> None:
    """The scheme has the class of the kind."""
    scheme = Scheme().add(Thing)
    for resolver, kind in ((TypeResolver(), Thing), (TypeResolver(scheme), Unstructured)):
        resolved = resolver.resolve(Thing.gvk, kind)
        assert resolved is not None
        assert (resolved.namespaced, resolved.has_status, resolved.ignored) == (False, False, EMPTY)
        assert resolved.field_type.field("spec").declares("size")


def test_a_definition_wins_over_the_class() -> None:
    """A definition wins over the class, because the server uses it."""
    crd: Any = crd_for(Thing)
    crd["spec"]["scope"] = "Namespaced"
    crd["spec"]["versions"][0]["subresources"] = {"status": {}}
    resolved = TypeResolver(Scheme().add(Thing), [crd]).resolve(Thing.gvk, Thing)
    assert resolved is not None
    assert (resolved.namespaced, resolved.has_status) == (True, True)


def test_nothing_is_known_of_other_kinds() -> None:
    """Kinds without class and classes without structural schema have no known fields."""
    assert TypeResolver(Scheme()).resolve(Thing.gvk, Unstructured) is None
    assert TypeResolver().resolve(Thing.gvk, Unstructured) is None
    assert TypeResolver().resolve(Tree.gvk, Tree) is None
