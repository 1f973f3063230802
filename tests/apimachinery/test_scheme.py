"""Which type is which kind."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Pod
from opsdk.apimachinery.gvk import GroupKind, GroupVersion, GroupVersionKind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, TypedObject, Unstructured
from opsdk.apimachinery.scheme import Scheme
from opsdk.client.scheme import default_scheme
from opsdk.errors import SchemeError

GVK = GroupVersionKind("demo.opsdk.dev", "v1", "Thing")


class Spec(Model):
    """A spec."""

    size: int = 0


class Thing(Object[Spec, None]):
    """A kind."""

    gvk = GVK


class OtherThing(Object[Spec, None]):
    """The same kind once more."""

    gvk = GVK


class ThingV2(Object[Spec, None]):
    """Another version."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v2", "Thing")


def test_one_type_for_a_kind() -> None:
    """Registering the same class twice is fine, another one for its kind is refused, lazily or not."""
    scheme = Scheme().add(Thing).add(Thing)
    with pytest.raises(SchemeError, match=r"already registered as .*:Thing"):
        scheme.add(OtherThing)
    with pytest.raises(SchemeError, match="registered as"):
        scheme.add_lazily({GVK: "somewhere:Else"})
    lazy = Scheme().add_lazily({GVK: "somewhere:Else"})
    with pytest.raises(SchemeError, match="somewhere:Else"):
        lazy.add(Thing)
    where = {Pod.gvk: "opsdk.api.core.v1:Pod"}
    assert Scheme().add_lazily(where).add_lazily(where).add(Pod).add_lazily(where).type_for(Pod.gvk) is Pod


def test_a_class_without_a_kind_is_refused() -> None:
    """Adding a class without GroupVersionKind is an error."""

    class Nameless(TypedObject):
        pass

    with pytest.raises(SchemeError, match="has no `gvk`"):
        Scheme().add(Nameless)


@pytest.mark.behaviour(25)
def test_types_and_kinds_find_each_other() -> None:
    """Types and kinds map both ways; an unregistered one is an error that says what to do."""
    scheme = Scheme().add(Thing, ThingV2)
    assert scheme.type_for(GVK) is Thing
    assert scheme.gvk_for(Thing) == scheme.gvk_for(Thing(spec=Spec())) == GVK
    assert scheme.gvk_for(Unstructured("v1", "Whatever")).kind == "Whatever"
    assert scheme.versions(GroupKind("demo.opsdk.dev", "Thing")) == [
        GroupVersion("demo.opsdk.dev", "v1"),
        GroupVersion("demo.opsdk.dev", "v2"),
    ]
    with pytest.raises(SchemeError, match=r"scheme\.add"):
        scheme.type_for(Pod.gvk)
    with pytest.raises(SchemeError, match="OtherThing is not registered"):
        scheme.gvk_for(OtherThing)
    with pytest.raises(SchemeError, match="any kind"):
        scheme.gvk_for(Unstructured)


@pytest.mark.parametrize("where", ["no.such.module:X", "opsdk.api.core.v1:NoSuchClass", "opsdk.api.core.v1:Pod"])
def test_a_wrong_place_is_named(where: str) -> None:
    """A lazy kind whose module, class or kind is not what was registered is a SchemeError."""
    with pytest.raises(SchemeError, match="Kind=Thing is registered as"):
        Scheme().add_lazily({GVK: where}).type_for(GVK)


def test_kinds_are_imported_when_they_are_asked_for() -> None:
    """The default scheme knows every built-in kind and has imported none."""
    code = (
        "import sys; from opsdk.client.scheme import default_scheme; s = default_scheme();"
        "assert len(list(s.kinds())) > 60; before = 'opsdk.api.apps.v1' in sys.modules;"
        "from opsdk.apimachinery.gvk import GroupVersionKind as G;"
        "print(before, s.type_for(G('apps', 'v1', 'Deployment')).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "Deployment"]


def test_a_new_object() -> None:
    """Typed where that is possible without arguments, else unstructured; both know their kind."""
    scheme = default_scheme().add(Thing)
    assert isinstance(scheme.new(Deployment.gvk), Deployment)
    for gvk in (GVK, GroupVersionKind("x.dev", "v1", "Unknown")):
        created = scheme.new(gvk)
        assert isinstance(created, Unstructured)
        assert (created.api_version, created.kind) == (gvk.api_version, gvk.kind)


def test_defaults_and_conversions() -> None:
    """Run in order of registration; a conversion is there once, and must answer what it says."""
    scheme = Scheme().add(Thing, ThingV2)
    scheme.add_defaulting(Thing, lambda t: setattr(t.spec, "size", t.spec.size or 3))
    scheme.add_defaulting(Thing, lambda t: setattr(t.spec, "size", t.spec.size + 1))
    thing = Thing(metadata=ObjectMeta(name="a"), spec=Spec())
    scheme.default(thing)
    assert thing.spec.size == 4
    scheme.add_conversion(Thing, ThingV2, lambda t: ThingV2(metadata=t.metadata, spec=t.spec))
    assert isinstance(scheme.convert(thing, ThingV2), ThingV2)
    assert scheme.convert(thing, Thing) is thing
    with pytest.raises(SchemeError, match="already registered"):
        scheme.add_conversion(Thing, ThingV2, lambda t: ThingV2(spec=t.spec))
    with pytest.raises(SchemeError, match="no conversion"):
        scheme.convert(ThingV2(spec=Spec()), Thing)
    wrong: Any = lambda _: 5  # noqa: E731
    scheme.add_conversion(ThingV2, Thing, wrong)
    with pytest.raises(SchemeError, match="returned a int"):
        scheme.convert(ThingV2(spec=Spec()), Thing)


def test_a_copy_is_independent() -> None:
    """Additions to a copy do not change the original."""
    one = Scheme().add(Thing)
    two = one.copy().add(Pod)
    two.add_defaulting(Thing, lambda t: setattr(t.spec, "size", 9))
    assert two.recognizes(Pod.gvk)
    assert not one.recognizes(Pod.gvk)
    thing = Thing(spec=Spec())
    one.default(thing)
    assert thing.spec.size == 0


def test_a_kind_without_a_version_is_refused() -> None:
    """Upstream panics: version is required on all types."""

    class Bare(TypedObject):
        gvk = GroupVersionKind("example.com", "", "Bare")

    for add in (lambda: Scheme().add(Bare), lambda: Scheme().add_lazily({Bare.gvk: "somewhere:Bare"})):
        with pytest.raises(SchemeError, match="has no version"):
            add()
