"""Schemas from CustomResourceDefinitions."""

from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, Unstructured, convert
from opsdk.errors import UsageError
from opsdk.norman.importing.definitions import import_definition, remove_definition
from opsdk.norman.mappers.embeds import Embed
from opsdk.norman.mappers.moves import Move
from opsdk.norman.model import Schema
from opsdk.norman.rbac_access import RESOURCE
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion, Field, Scope
from opsdk.norman.schemas import NormanSchemas
from opsdk.structured_merge.value import JsonObject
from tests.norman.mappers.kit import V3, assert_declared, inward, outward, schema, types


class Port(Model):
    """A port."""

    number: int
    protocol: str = "TCP"


class SiteSpec(Model):
    """A spec."""

    replicas: int = 1
    ports: list[Port] = msgspec.field(default_factory=list)


class SiteStatus(Model):
    """A status."""

    phase: str = ""


class Site(Object[SiteSpec, SiteStatus]):
    """A kind."""

    gvk = GroupVersionKind("demo.example.com", "v1", "Site")


def definition(generation: int = 1) -> JsonObject:
    """Return a definition as a server has it."""
    tree = copy.deepcopy(crd_for(Site))
    tree["metadata"] |= {"uid": "u", "generation": generation}
    return tree


def spec_of(tree: JsonObject) -> JsonObject:
    """Return the schema of the spec."""
    properties: JsonObject = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"
    ]
    return properties


def ids(registry: SchemaRegistry) -> set[str]:
    """Return the ids of all schemas but those of the metadata."""
    return {each.id for each in registry.schemas()} - {"objectMeta", "ownerReference"}


def test_a_kind_is_imported_with_everything_in_it() -> None:
    """Methods, scope, kind and status come from the definition; objects in it are schemas."""
    registry = SchemaRegistry()
    site = import_definition(registry, V3, definition())
    assert types(site) == {
        "apiVersion": "string",
        "kind": "string",
        "metadata": "objectMeta",
        "spec": "siteSpec",
        "status": "siteStatus",
    }
    assert (site.scope, site.status, site.plural_name) == (Scope.NAMESPACE, True, "sites")
    assert site.attributes["gvk"] == Site.gvk
    assert site.attributes[RESOURCE] == GroupVersionResource("demo.example.com", "v1", "sites")
    assert site.collection_methods == ("GET", "POST")
    assert ids(registry) == {"site", "siteSpec", "siteSpecPorts", "siteStatus"}
    registry.raise_errors()


def test_the_usual_mappers_make_it_flat() -> None:
    """POST of a flat body is a nested spec for Kubernetes."""
    schemas = NormanSchemas.for_kubernetes(V3).import_definition(V3, definition())
    site = schemas.schema(V3, "sites")
    assert site is not None
    assert site.mapper is not None
    assert {"name", "namespace", "replicas", "ports", "status"} <= set(site.resource_fields)
    body = {"name": "a", "namespace": "n", "replicas": 2, "ports": [{"number": 80}]}
    stored = inward(site.mapper, body)
    assert stored == {
        "apiVersion": "demo.example.com/v1",
        "kind": "Site",
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {"replicas": 2, "ports": [{"number": 80}]},
    }
    external = outward(site.mapper, stored)
    assert (external["id"], external["type"], external["replicas"]) == ("n:a", "/v3/schemas/site", 2)


TAKEN = ("name", "namespace", "labels", "uuid", "created", "kind", "apiVersion", "status", "type", "id", "links")


@given(
    names=st.sets(st.sampled_from([*TAKEN, "metadata", "spec", "color"]), min_size=1),
    value=st.text(max_size=5) | st.none(),
)
def test_no_name_of_a_field_of_the_spec_is_lost(names: set[str], value: str | None) -> None:
    """The spec stays nested if a field name is taken, so that each object survives a round trip."""
    tree = definition()
    spec_of(tree).clear()
    spec_of(tree).update({name: {"type": "string", "nullable": True} for name in names})
    schemas = NormanSchemas.for_kubernetes(V3).import_definition(V3, tree)
    site = schemas.schema(V3, "site")
    assert site is not None
    assert site.mapper is not None
    is_nested = not names.isdisjoint(TAKEN)
    assert (site.resource_fields.get("spec", Field(type="json")).type == "siteSpec") == is_nested
    stored = {
        "apiVersion": "demo.example.com/v1",
        "kind": "Site",
        "metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"}, "uid": "u"},
        "spec": dict.fromkeys(names, value),
        "status": {"phase": "ready"},
    }
    external = outward(site.mapper, stored)
    assert (external["id"], external["name"], external["labels"]) == ("n:a", "a", {"x": "y"})
    assert_declared(external, site, schemas)
    assert inward(site.mapper, external) == stored


def test_all_representations_of_a_definition() -> None:
    """Trees, typed and unstructured definitions give the same schemas."""
    tree = definition()
    results = []
    for each in (tree, convert(tree, CustomResourceDefinition), Unstructured.from_tree(definition())):
        registry = SchemaRegistry()
        import_definition(registry, V3, each)
        results.append({(s.id, name): field for s in registry.schemas() for name, field in s.resource_fields.items()})
    assert results[0] == results[1] == results[2]


def test_a_changed_definition_replaces_its_schemas() -> None:
    """The same generation changes nothing; another one replaces all schemas, with the same mappers."""
    registry, calls = SchemaRegistry(), list[Schema]()
    registry.add_mapper(V3, "siteSpec", Move(source="replicas", to="scale"))
    first = import_definition(registry, V3, definition(), calls.append)
    assert import_definition(registry, V3, definition(), calls.append) is first
    changed = definition(2)
    del spec_of(changed)["ports"]
    spec_of(changed)["color"] = {"type": "string"}
    second = import_definition(registry, V3, changed, calls.append)
    assert calls == [first, second]
    assert registry.schema(V3, "site") is second
    assert ids(registry) == {"site", "siteSpec", "siteStatus"}
    spec = registry.schema(V3, "siteSpec")
    assert spec is not None
    assert types(spec) == {"scale": "int", "color": "string"}


def test_an_import_that_fails_changes_nothing() -> None:
    """A failed import keeps the previous schemas."""
    registry = SchemaRegistry()
    registry.add_mapper(V3, "site", Embed(field="spec"))
    first = import_definition(registry, V3, definition())
    before = ids(registry)
    changed = definition(2)
    spec_of(changed)["kind"] = {"type": "string"}
    with pytest.raises(UsageError, match="will overwrite the field kind"):
        import_definition(registry, V3, changed)
    assert registry.schema(V3, "site") is first
    assert ids(registry) == before
    data = {"spec": {"replicas": 1}}
    assert first.mapper is not None
    assert outward(first.mapper, data)["replicas"] == 1


def test_the_version_of_the_api_is_preferred() -> None:
    """The API's version is imported, else the stored, else the first served one; without any it is an error."""
    tree = definition()
    tree["spec"]["versions"] = [
        {**tree["spec"]["versions"][0], "name": name, "storage": storage, "served": served}
        for name, storage, served in (("v1", False, True), ("v2", True, True), ("v3", False, True))
    ]
    for version, expected in (("v3", "v3"), ("v9", "v2")):
        site = import_definition(SchemaRegistry(), ApiVersion(version=version, path="/x"), tree)
        assert site.attributes["gvk"] == GroupVersionKind("demo.example.com", expected, "Site")
    tree["spec"]["versions"][1]["served"] = False
    site = import_definition(SchemaRegistry(), ApiVersion(version="v9", path="/x"), tree)
    assert site.attributes["gvk"] == Site.gvk
    tree["spec"]["versions"] = []
    with pytest.raises(UsageError, match="serves no version"):
        import_definition(SchemaRegistry(), V3, tree)


def test_two_definitions_of_one_kind_need_two_ids() -> None:
    """The second is an error until it has another id; so is a nested id that is taken."""
    registry = SchemaRegistry()
    import_definition(registry, V3, definition())
    other = definition()
    other["metadata"]["name"] = "sites.other.example.com"
    with pytest.raises(UsageError, match=r"import sites\.other\.example\.com with another schema_id"):
        import_definition(registry, V3, other)
    assert import_definition(registry, V3, other, schema_id="otherSite").plural_name == "otherSites"
    registry = SchemaRegistry()
    registry.add(schema("siteSpec"))
    with pytest.raises(UsageError, match="needs the id siteSpec, which another schema has"):
        import_definition(registry, V3, definition())
    assert ids(registry) == {"siteSpec"}


def test_an_unusual_plural_is_kept() -> None:
    """An unusual plural of the definition is the plural in URLs."""
    tree = definition()
    tree["spec"]["names"]["plural"] = "sitez"
    assert import_definition(SchemaRegistry(), V3, tree).plural_name == "sitez"


def test_a_removed_definition_removes_its_schemas() -> None:
    """Other schemas stay; a definition that no server has seen is compared by content."""
    registry, tree = SchemaRegistry(), crd_for(Site)
    first = import_definition(registry, V3, tree)
    assert import_definition(registry, V3, crd_for(Site)) is first
    removed = remove_definition(registry, V3, "sites.demo.example.com")
    assert {each.id for each in removed} == {"site", "siteSpec", "siteSpecPorts", "siteStatus"}
    assert ids(registry) == set()
    assert remove_definition(registry, V3, "unknown") == []
