"""What each informer lists: options by kind, by namespace, and for the whole cache."""

from __future__ import annotations

import pytest
from cache_world import CLUSTER_THING, THING, mapping

from opsdk.api.core.v1 import Node, Pod
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.object import Unstructured
from opsdk.apimachinery.selectors import FieldSelector, LabelRequirements
from opsdk.cache.options import (
    ALL_NAMESPACES,
    ByObject,
    CacheOptions,
    CacheScope,
    NamespaceOptions,
    scopes,
    strip_managed_fields,
)
from opsdk.cluster.cluster import Cluster, ClusterOptions
from opsdk.errors import UsageError
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject


def mark(tree: JsonObject) -> JsonObject:
    """Change nothing."""
    return tree


def scoped(options: CacheOptions) -> dict[str, CacheScope]:
    """The scopes of things."""
    return scopes(options, mapping(THING.gvk))


def labels(options: CacheOptions) -> dict[str, str]:
    """The label selector for each namespace."""
    return {namespace: str(scope.label_selector) for namespace, scope in scoped(options).items()}


@pytest.mark.behaviour(36)
def test_the_closest_option_wins() -> None:
    """A kind's options win over those of a namespace, these over the cache's, a kind's namespace over all."""
    a, b, c, d = (LabelRequirements.parse(name) for name in "abcd")
    by_namespace = {"x": NamespaceOptions(label_selector=b), "y": NamespaceOptions()}
    assert labels(CacheOptions(namespaces=by_namespace, label_selector=a)) == {"x": "b", "y": "a"}
    of_kind = {THING.gvk: ByObject(label_selector=c)}
    assert labels(CacheOptions(namespaces=by_namespace, label_selector=a, by_kind=of_kind)) == {"x": "c", "y": "c"}
    of_kind = {
        THING.gvk: ByObject(
            label_selector=c, namespaces={"z": NamespaceOptions(label_selector=d), "x": NamespaceOptions()}
        )
    }
    assert labels(CacheOptions(namespaces=by_namespace, label_selector=a, by_kind=of_kind)) == {"z": "d", "x": "c"}


@pytest.mark.behaviour(36)
def test_all_namespaces_leaves_out_the_named_ones() -> None:
    """No object is in two informers."""
    result = scoped(CacheOptions(namespaces={"x": NamespaceOptions(), ALL_NAMESPACES: NamespaceOptions()}))
    assert result["x"].field_selector == FieldSelector()
    assert str(result[ALL_NAMESPACES].field_selector) == "metadata.namespace!=x"


def test_cluster_scoped_kinds_have_no_namespaces() -> None:
    """The cache's namespaces do not concern them, and namespaces of their own are an error."""
    zones = mapping(CLUSTER_THING.gvk, namespaced=False)
    assert list(scopes(CacheOptions(namespaces=["x", "y"]), zones)) == [ALL_NAMESPACES]
    with pytest.raises(UsageError, match="is cluster-scoped"):
        scopes(CacheOptions(by_kind={CLUSTER_THING.gvk: ByObject(namespaces=["x"])}), zones)


def test_options_of_a_kind_are_named_by_its_class_or_its_gvk() -> None:
    """A class and its GVK name the same kind in options; a class without a kind is refused."""
    options = ByObject(namespaces=["x"])
    expected = {kind_of(Pod).gvk: options, THING.gvk: options}
    assert CacheOptions(by_kind={Pod: options, THING.gvk: options}).by_gvk() == expected
    assert list(scopes(CacheOptions(by_kind={Pod: options}), mapping(kind_of(Pod).gvk))) == ["x"]
    with pytest.raises(UsageError, match="Unstructured has no kind"):
        CacheOptions(by_kind={Unstructured: options}).by_gvk()


@pytest.mark.behaviour(37)
async def test_namespaces_of_a_cluster_scoped_class_are_refused_at_construction() -> None:
    """A class says its scope, so no server is needed; a cache of the other kinds is made."""
    config = RestConfig(host="http://127.0.0.1:1")
    options = CacheOptions(by_kind={kind_of(Node).gvk: ByObject(namespaces=["x"])})
    with pytest.raises(UsageError, match="Kind=Node is cluster-scoped: its cache options cannot name namespaces"):
        Cluster(config, ClusterOptions(cache=options))
    options = CacheOptions(by_kind={kind_of(Pod).gvk: ByObject(namespaces=["x"])})
    await Cluster(config, ClusterOptions(cache=options)).aclose()


@pytest.mark.behaviour(38)
def test_a_transform_of_a_kind_replaces_the_default() -> None:
    """Stripping managedFields accepts trees without them, or without metadata, and changes nothing else."""
    options = CacheOptions(transform=strip_managed_fields, by_kind={THING.gvk: ByObject(transform=mark)})
    assert scoped(options)[ALL_NAMESPACES].transform is mark
    assert scoped(CacheOptions(transform=strip_managed_fields))[ALL_NAMESPACES].transform is strip_managed_fields
    for tree in ({}, {"metadata": None}, {"metadata": {"name": "a"}}):
        assert strip_managed_fields(tree) == tree
    full: JsonObject = {"kind": "X", "metadata": {"name": "a", "managedFields": [{}]}}
    assert strip_managed_fields(full) == {"kind": "X", "metadata": {"name": "a"}}
    assert "managedFields" in full["metadata"]
