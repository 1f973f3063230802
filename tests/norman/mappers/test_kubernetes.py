"""Mappers for objects of Kubernetes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.norman.mappers.kubernetes import GVK, ApiGroupMapper, MetadataMapper, ObjectMapper, SelfLink
from opsdk.norman.mappers.type_mapper import TypeMapper
from opsdk.norman.model import Schema
from opsdk.norman.rbac_access import RESOURCE
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Field, Scope
from tests.norman.mappers.kit import NO_SCHEMAS, V3, assert_declared, inward, outward, registry, round_trip, schema

METADATA = {
    "name": "string",
    "generateName": "string",
    "namespace": "string",
    "selfLink": "string",
    "uid": "string",
    "resourceVersion": "string",
    "generation": "int",
    "creationTimestamp": "date",
    "deletionTimestamp": "date",
    "deletionGracePeriodSeconds": "int",
    "labels": "map[string]",
    "annotations": "map[string]",
    "finalizers": "array[string]",
}
TEXTS = st.text(max_size=4)


def site_schemas(scope: Scope) -> tuple[SchemaRegistry, Schema]:
    """Return schemas of a kind with metadata, spec and status, with the usual mappers."""
    metadata = schema("objectMeta", **METADATA)
    metadata.internal = schema("objectMeta", **METADATA)
    metadata.mapper = TypeMapper([MetadataMapper()], root=False)
    schemas = registry(metadata, schema("spec", image="string"), schema("status", phase="string"))
    metadata.mapper.modify_schema(metadata, schemas)
    fields = {"apiVersion": "string", "kind": "string", "metadata": "objectMeta", "spec": "spec", "status": "status"}
    site = schema(scope=scope, methods=("GET",), **fields)
    site.internal = schema(**fields)
    site.attributes[GVK] = GroupVersionKind("demo.example.com", "v1", "Site")
    site.mapper = TypeMapper([ObjectMapper()], root=True)
    site.mapper.modify_schema(site, schemas)
    return schemas, site


def test_an_object_is_flat_and_says_where_it_is() -> None:
    """The bundle inlines metadata and spec, renames their fields, and adds type and id."""
    _, site = site_schemas(Scope.NAMESPACE)
    assert site.mapper is not None
    external = outward(
        site.mapper,
        {
            "apiVersion": "demo.example.com/v1",
            "kind": "Site",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "finalizers": ["f"]},
            "spec": {"image": "i"},
            "status": {"phase": "p"},
        },
    )
    assert external == {
        "type": "/v3/schemas/site",
        "id": "n:a",
        "name": "a",
        "namespace": "n",
        "uuid": "u",
        "image": "i",
        "status": {"phase": "p"},
        ".selfLink": "/apis/demo.example.com/v1/namespaces/n/sites/a",
    }
    assert not site.resource_fields["status"].update
    assert site.resource_fields["name"] == Field(type="dnsLabel", update=False)
    assert site.resource_fields["labels"].update
    assert not site.resource_fields["created"].create


def test_a_flat_body_becomes_an_object() -> None:
    """POST of a flat body: apiVersion and kind are set, metadata and spec collected."""
    _, site = site_schemas(Scope.NAMESPACE)
    assert site.mapper is not None
    assert inward(site.mapper, {"type": "site", "name": "a", "namespace": "n", "image": "i"}) == {
        "apiVersion": "demo.example.com/v1",
        "kind": "Site",
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {"image": "i"},
    }


def test_objects_of_the_cluster_have_no_namespace() -> None:
    """The field is dropped, and the id is the name, even with a colon in it."""
    schemas, site = site_schemas(Scope.CLUSTER)
    assert site.mapper is not None
    assert "namespace" not in site.resource_fields
    external = outward(site.mapper, {"metadata": {"name": "system:node"}})
    assert external["id"] == "system:node"
    assert_declared(external, site, schemas)


@given(
    metadata=st.fixed_dictionaries(
        {"name": TEXTS.filter(bool), "namespace": TEXTS.filter(bool)},
        optional={
            "uid": TEXTS,
            "creationTimestamp": TEXTS,
            "labels": st.dictionaries(TEXTS, TEXTS),
            "resourceVersion": TEXTS,
            "generateName": TEXTS,
            "finalizers": st.lists(TEXTS),
        },
    ),
    spec=st.fixed_dictionaries({"image": TEXTS}),
    status=st.none() | st.fixed_dictionaries({"phase": TEXTS}),
)
def test_an_object_loses_only_what_is_stated(
    metadata: dict[str, object], spec: dict[str, object], status: dict[str, object] | None
) -> None:
    """resourceVersion, generateName and finalizers are lost; everything else comes back, and is declared."""
    schemas, site = site_schemas(Scope.NAMESPACE)
    assert site.mapper is not None
    internal = {"apiVersion": "demo.example.com/v1", "kind": "Site", "metadata": metadata, "spec": spec}
    if status is not None:
        internal["status"] = status
    assert_declared(outward(site.mapper, internal), site, schemas)
    lost = ("resourceVersion", "generateName", "finalizers")
    expected = {name: value for name, value in metadata.items() if name not in lost}
    assert round_trip(site.mapper, internal) == {**internal, "metadata": expected}


def test_group_and_kind_of_a_schema() -> None:
    """They come from the attributes of the schema, or else from its version and id; what is there stays."""
    mapper = ApiGroupMapper()
    mapper.modify_schema(schema("networkPolicy"), NO_SCHEMAS)
    assert inward(mapper, {}) == {"apiVersion": "example.com/v3", "kind": "NetworkPolicy"}
    assert inward(mapper, {"apiVersion": "v1", "kind": "Pod"}) == {"apiVersion": "v1", "kind": "Pod"}
    pod = schema("pod")
    pod.attributes[GVK] = GroupVersionKind("", "v1", "Pod")
    mapper.modify_schema(pod, NO_SCHEMAS)
    assert inward(mapper, {}) == {"apiVersion": "v1", "kind": "Pod"}


def test_self_links() -> None:
    """The link has group, namespace, resource and name; a link that is there stays; without a name it is empty."""
    mapper = SelfLink()
    mapper.modify_schema(schema("networkPolicy"), NO_SCHEMAS)
    link = "/apis/a/v1/namespaces/n/networkpolicies/x"
    assert outward(mapper, {"apiVersion": "a/v1", "name": "x", "namespace": "n"})["selfLink"] == link
    assert outward(mapper, {"name": "x"})["selfLink"] == "/api/v1/networkpolicies/x"
    assert outward(mapper, {"selfLink": "/x"}) == {"selfLink": "/x"}
    assert outward(mapper, {}) == {"selfLink": ""}
    assert inward(mapper, {"selfLink": "/x"}) == {}
    fish = Schema(id="fish", version=V3, attributes={RESOURCE: GroupVersionResource("", "v1", "fish")})
    mapper.modify_schema(fish, NO_SCHEMAS)
    assert outward(mapper, {"name": "x"})["selfLink"] == "/api/v1/fish/x"
