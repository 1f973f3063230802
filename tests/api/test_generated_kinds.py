"""Generated kinds: each can be made, sent and read, and is found by its name."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec
import pytest

from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Container, Pod, PodSpec
from opsdk.api.generated_kinds import BUILT_IN
from opsdk.api.scheduling.v1alpha2 import PodGroupSchedulingPolicy
from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.gvk import (
    GroupKind,
    GroupResource,
    GroupVersion,
    GroupVersionKind,
    GroupVersionResource,
    ObjectKey,
)
from opsdk.apimachinery.kinds import Kind, kind_of, kind_of_object, metadata_only, unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.object import (
    Object,
    ObjectList,
    PartialObjectMetadata,
    TypedObject,
    Unstructured,
    assign,
    deep_copy,
    gvk_of,
    key_of,
    origin_of,
    to_dict,
)
from opsdk.errors import UsageError


def load(where: str) -> type[TypedObject]:
    """The class behind ``module:Class``."""
    module, _, name = where.partition(":")
    result: type[TypedObject] = getattr(importlib.import_module(module), name)
    return result


@pytest.mark.parametrize(("gvk", "where"), BUILT_IN.items(), ids=lambda v: v.kind if isinstance(v, tuple) else "")
def test_each_built_in_kind(gvk: GroupVersionKind, where: str) -> None:
    """Made without arguments, it is of its kind, sends nothing it was not given, and reads back as itself."""
    cls = load(where)
    assert cls.gvk == gvk
    obj = cls(metadata=ObjectMeta(name="a"))
    assert to_dict(obj) == {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": {"name": "a"}}
    assert decode(encode(obj), kind_of(cls)) == obj
    assert deep_copy(obj) == obj
    assert kind_of_object(obj) == kind_of(cls)


@pytest.mark.parametrize("word", ["alpha", "beta"])
def test_unstable_kinds_say_what_they_are(word: str) -> None:
    """Behind the same import as stable ones, and only they."""
    sentence = f"{word.capitalize()}: API servers do not serve it by default."
    marked = {gvk for gvk, where in BUILT_IN.items() if sentence in (load(where).__doc__ or "")}
    assert marked == {gvk for gvk in BUILT_IN if word in gvk.version}
    assert marked


@pytest.mark.parametrize(("gvk", "where"), BUILT_IN.items(), ids=lambda v: v.kind if isinstance(v, tuple) else "")
def test_each_keeps_what_it_does_not_know(gvk: GroupVersionKind, where: str) -> None:
    """A field of a later version survives a typed read and write of every kind."""
    tree = {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "metadata": {"name": "a", "newMeta": {"x": 1}},
        "brandNew": [{"y": None}],
    }
    obj = decode(msgspec.json.encode(tree), kind_of(load(where)))
    obj.metadata.labels["a"] = "b"
    assert msgspec.json.decode(encode(obj)) == {**tree, "metadata": {**tree["metadata"], "labels": {"a": "b"}}}  # type: ignore[dict-item]


def test_attributes_are_sent_in_the_wires_names() -> None:
    """snake_case here, camelCase there, acronyms as Kubernetes writes them."""
    pod = Pod(
        metadata=ObjectMeta(name="a", generate_name="g"),
        spec=PodSpec(containers=[Container(name="c", image_pull_policy="Always")], host_ipc=True, host_pid=True),
    )
    spec = to_dict(pod)["spec"]
    assert spec == {
        "containers": [{"name": "c", "imagePullPolicy": "Always"}],
        "hostIPC": True,
        "hostPID": True,
    }


def test_zero_of_an_optional_number_is_sent() -> None:
    """A Deployment that is scaled to zero is sent with ``replicas: 0``."""
    deployment = Deployment(metadata=ObjectMeta(name="a"))
    deployment.spec.replicas = 0
    assert to_dict(deployment)["spec"]["replicas"] == 0


def test_kinds_are_equal_if_gvk_and_form_are_equal() -> None:
    """Two kinds are equal if their GroupVersionKind and their form (typed, unstructured, metadata) are equal."""
    assert kind_of(Pod) == Kind(GroupVersionKind("", "v1", "Pod"), Pod)
    assert kind_of(kind_of(Pod)) == kind_of(Pod)
    assert unstructured_kind("v1", "Pod") == unstructured_kind("v1", "Pod") != kind_of(Pod)
    assert metadata_only(Pod) == metadata_only(unstructured_kind("v1", "Pod")) == metadata_only(Pod.gvk)
    assert len({kind_of(Pod), unstructured_kind("v1", "Pod"), metadata_only(Pod)}) == 3
    wrong: list[Any] = [TypedObject, Object, Unstructured, PartialObjectMetadata, int, "Pod"]
    for cls in wrong:
        with pytest.raises(UsageError, match="has no kind"):
            kind_of(cls)


def test_names_read_and_print() -> None:
    """Each name in the form that people and messages know."""
    assert str(GroupVersion.parse("apps/v1")) == "apps/v1"
    assert GroupVersion.parse("v1") == GroupVersion("", "v1")
    assert GroupVersion("apps", "v1").kind("Deployment") == Deployment.gvk
    for wrong in ("", "/", "a/b/c", "/v1", "apps/"):
        with pytest.raises(UsageError, match="not an apiVersion"):
            GroupVersion.parse(wrong)
    assert str(GroupKind("apps", "Deployment")) == "Deployment.apps"
    assert str(GroupKind("", "Pod")) == "Pod"
    assert str(GroupResource("apps", "deployments")) == "deployments.apps"
    assert str(Deployment.gvk) == "apps/v1, Kind=Deployment"
    assert str(GroupVersionResource("", "v1", "pods")) == "v1, Resource=pods"
    assert str(ObjectKey("ns", "a")) == "ns/a"
    assert ObjectKey.parse("a") == ObjectKey("", "a")


def test_who_does_not_say_what_it_is() -> None:
    """An object without apiVersion or kind is refused where its kind matters."""
    for nameless in (Unstructured(), Unstructured("v1"), PartialObjectMetadata(kind="Pod")):
        with pytest.raises(UsageError, match="no api_version or kind"):
            gvk_of(nameless)
    assert key_of(Unstructured(metadata=ObjectMeta(name="a", namespace="b"))) == ObjectKey("b", "a")


def test_unstructured_objects_are_trees() -> None:
    """Content by subscription and by path, with a default where a step is missing; trees share nothing."""
    source = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "spec": {"items": [{"n": 1}]}}
    obj = Unstructured.from_tree(source)
    assert obj.get("spec", "items", 0, "n") == 1
    for missing in (
        ("spec", "no"),
        ("spec", "items", 5),
        ("spec", "items", "x"),
        ("no", 1),
        ("spec", "items", 0, "n", 2),
    ):
        assert obj.get(*missing, default="d") == "d"
    assert "spec" in obj
    assert "metadata" not in obj
    tree = to_dict(obj)
    tree["spec"]["items"][0]["n"] = 2
    assert obj.get("spec", "items", 0, "n") == 1


def test_assigning_makes_equal_in_place() -> None:
    """All fields and the origin are taken over; the kind stays where the source has none."""
    target = Unstructured("v1", "Pod", ObjectMeta(name="old"), {"gone": 1})
    source = Unstructured.from_tree({"metadata": {"name": "new", "odd": 1}, "spec": {}})
    assign(target, source)
    assert (target.kind, target.metadata.name, target.content) == ("Pod", "new", {"spec": {}})
    assert to_dict(target)["metadata"] == {"name": "new", "odd": 1}
    assign(target, Unstructured("v1", "Pod"))
    assert origin_of(target) is None


def test_lists_are_sequences() -> None:
    """Length, iteration, index; the representation says what was set aside."""
    result = ObjectList([Pod(metadata=ObjectMeta(name=n)) for n in "abc"])
    assert len(result) == 3
    assert [o.metadata.name for o in result] == ["a", "b", "c"]
    assert result[1].metadata.name == "b"
    assert "3" in repr(result)


def test_a_type_without_fields_is_sent_when_it_is_set() -> None:
    """The presence of ``basic`` is all that it says."""
    assert to_builtins(PodGroupSchedulingPolicy(basic={})) == {"basic": {}}
    assert to_builtins(PodGroupSchedulingPolicy()) == {}
