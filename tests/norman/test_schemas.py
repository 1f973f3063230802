"""The registry with imports."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object
from opsdk.errors import UsageError
from opsdk.norman.importing.field_options import FieldOptions
from opsdk.norman.mappers.embeds import Embed
from opsdk.norman.mappers.moves import Drop, Move
from opsdk.norman.model import ApiContext, RequestResult, Schema
from opsdk.norman.schema_parts import Action, ApiVersion, Field
from opsdk.norman.schemas import NormanSchemas
from opsdk.structured_merge.value import JsonObject
from tests.norman.mappers.kit import inward, outward

V3 = ApiVersion(group="management.example.com", version="v3", path="/v3")


class CatalogSource(Model):
    """Where a catalog comes from."""

    url: Annotated[str, FieldOptions(required=True)] = ""
    branch: str = "main"


class CatalogSpec(Model):
    """A spec."""

    source: CatalogSource
    catalog_kind: Literal["helm", "oci"] = "helm"
    revision: Annotated[int, FieldOptions(min=1)] = 1
    credential: Annotated[str, FieldOptions(type="password")] = ""
    cluster_name: Annotated[str, FieldOptions(type="reference[cluster]")] = ""


class CatalogStatus(Model):
    """A status."""

    commit: str = ""
    internal_state: str = ""


class Catalog(Object[CatalogSpec, CatalogStatus]):
    """The classic example of norman."""

    gvk = GroupVersionKind("management.example.com", "v3", "Catalog")
    namespaced = False


class ClusterSpec(Model):
    """A spec."""

    size: int = 1


class Cluster(Object[ClusterSpec, None]):
    """What a catalog refers to."""

    gvk = GroupVersionKind("management.example.com", "v3", "Cluster")
    namespaced = False


class RefreshInput(Model):
    """The input of the action."""

    force: bool = False


async def refresh(context: ApiContext, action: str, body: JsonObject) -> RequestResult:
    """Return the input."""
    return body


def customize(schema: Schema) -> None:
    """Add the action."""
    schema.resource_actions["refresh"] = Action(input="refreshInput", output="catalog")
    schema.action_handler = refresh


def catalog_schemas() -> NormanSchemas:
    """Return the schemas of the example."""
    return (
        NormanSchemas.for_kubernetes(V3)
        .add_mapper_for(V3, CatalogStatus, Drop(field="internalState"))
        .add_mapper_for(V3, Catalog, Embed(field="source"), Move(source="catalogKind", to="kind"))
        .import_class(V3, RefreshInput)
        .import_class(V3, Cluster)
        .import_class(V3, Catalog, customize)
    )


def test_the_catalog_example() -> None:
    """Move, Embed and Drop shape the fields, the action has its input, and the reference is renamed."""
    schemas = catalog_schemas()
    schemas.raise_errors()
    catalog, cluster = schemas.schema(V3, "catalogs"), schemas.schema(V3, "cluster")
    assert catalog is not None
    assert cluster is not None
    fields = catalog.resource_fields
    assert set(fields) == {
        "annotations",
        "branch",
        "clusterId",
        "created",
        "credential",
        "kind",
        "labels",
        "name",
        "ownerReferences",
        "removed",
        "revision",
        "status",
        "url",
        "uuid",
    }
    assert fields["kind"] == Field(type="enum", default="helm", options=("helm", "oci"), code_name="Kind")
    assert fields["url"].required
    assert fields["revision"].min == 1
    assert fields["credential"].type == "password"
    assert catalog.resource_actions["refresh"].input == "refreshInput"
    assert catalog.action_handler is refresh
    assert "kind" in catalog.collection_filters
    assert ("clusterId", "catalog") in [(each.field_name, each.schema.id) for each in schemas.references(cluster)]
    status = schemas.schema(V3, "catalogStatus")
    assert status is not None
    assert set(status.resource_fields) == {"commit"}
    assert not status.resource_fields["commit"].update


def test_objects_of_the_catalog_example() -> None:
    """A flat body is stored nested, and shown flat again."""
    catalog = catalog_schemas().schema(V3, "catalog")
    assert catalog is not None
    assert catalog.mapper is not None
    body = {"name": "shop", "url": "https://example.com", "kind": "oci", "clusterId": "c-1"}
    stored = inward(catalog.mapper, body)
    assert stored == {
        "apiVersion": "management.example.com/v3",
        "kind": "Catalog",
        "metadata": {"name": "shop"},
        "spec": {"source": {"url": "https://example.com"}, "catalogKind": "oci", "clusterName": "c-1"},
    }
    external = outward(catalog.mapper, {**stored, "status": {"commit": "a", "internalState": "b"}})
    assert {name: external[name] for name in (*body, "id", "status")} == {
        **body,
        "id": "shop",
        "status": {"commit": "a", "type": "/v3/schemas/catalogStatus"},
    }


def test_a_mapper_after_the_import_is_an_error() -> None:
    """Adding a mapper after the import is an error, for nested classes too."""
    schemas = catalog_schemas()
    for cls in (Catalog, CatalogSpec):
        with pytest.raises(UsageError, match="already exists: add its mappers before the import"):
            schemas.add_mapper_for(V3, cls, Drop(field="status"))


def test_names_and_parts() -> None:
    """`type_name` sets the id of a class, `init` calls the parts of a program, and all calls return the schemas."""
    schemas = NormanSchemas()
    parts: list[NormanSchemas] = []
    result = schemas.type_name(Cluster, "managed").init(parts.append).import_class(V3, Cluster)
    assert result is schemas
    assert parts == [schemas]
    assert schemas.schema(V3, "managed") is not None
    assert schemas.schema(V3, "cluster") is None
