"""CustomResourceDefinitions from schemas, and their stores."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import msgspec
import pytest
from normankit import V3, NormanKit

from opsdk import Client, GroupVersionKind, Model, Object
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.client.decorators.intercept import intercept
from opsdk.client.operations import Get, Operation
from opsdk.errors import ApiError, DeadlineError, InvalidError, NoMatchError, UsageError
from opsdk.norman.mappers.kubernetes import GVK
from opsdk.norman.model import Schema
from opsdk.norman.rbac_access import RESOURCE
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion, Field, Scope
from opsdk.norman.schemas import NormanSchemas
from opsdk.norman.server.server import NormanServer
from opsdk.norman.stores.definitions import FIELD_OWNER, assign_stores, create_definitions, definition_for

DEFINITION = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")


class Spec(Model):
    """What is wanted of a site."""

    size: int = 1
    tags: list[str] = msgspec.field(default_factory=list)


class Site(Object[Spec, None]):
    """A kind."""

    gvk = GroupVersionKind("example.com", "v3", "Site")


class Page(Object[Spec, None]):
    """Another one."""

    gvk = GroupVersionKind("example.com", "v3", "Page")


def imported() -> tuple[SchemaRegistry, list[Schema]]:
    """Return the schemas of the classes."""
    registry = NormanSchemas.for_kubernetes(V3).import_class(V3, Site).import_class(V3, Page)
    schemas = [registry.schema(V3, name) for name in ("site", "page")]
    return registry, [schema for schema in schemas if schema is not None]


async def test_importing_schemas_creates_definitions(k8s_client: Client) -> None:
    """When the call returns, definitions are served, schemas have stores, and every verb works."""
    registry, schemas = imported()
    created = await assign_stores(k8s_client, registry, schemas)
    assert [each.metadata.name for each in created] == ["sites.example.com", "pages.example.com"]
    assert [schema.attributes[RESOURCE] for schema in schemas] == [
        GroupVersionResource("example.com", "v3", plural) for plural in ("sites", "pages")
    ]
    kit = NormanKit(NormanServer(registry))
    created_site = await kit.post("/v3/sites", {"name": "a", "namespace": "default", "size": 3, "tags": ["x"]})
    assert (created_site.status, created_site.body["size"], created_site.body["tags"]) == (201, 3, ["x"])
    assert (await kit.get("/v3/sites/default:a")).body["size"] == 3
    assert (await kit.call("PUT", "/v3/sites/default:a", {"size": 4})).body["size"] == 4
    assert [item["id"] for item in (await kit.get("/v3/sites?name=a")).data] == ["default:a"]
    assert (await kit.call("DELETE", "/v3/sites/default:a")).status == 204


async def test_repeated_calls_change_nothing(k8s_client: Client) -> None:
    """A second call leaves existing definitions unchanged."""
    registry, schemas = imported()
    first = await create_definitions(k8s_client, registry, schemas)
    again = await create_definitions(k8s_client, registry, schemas)
    assert [each.metadata.resource_version for each in again] == [each.metadata.resource_version for each in first]


async def test_own_definitions_follow_the_schema_and_those_of_others_stay(k8s_client: Client) -> None:
    """A definition that another program made keeps its schema; it gets a store if it serves the version."""
    registry, schemas = imported()
    await create_definitions(k8s_client, registry, schemas[:1])
    foreign = definition_for(schemas[1], registry, structural=True)
    await k8s_client.create(Unstructured.from_tree(foreign))
    own, other = await assign_stores(k8s_client, registry, schemas, structural=True)
    assert "spec" in node_of(own)["properties"]
    assert FIELD_OWNER in {entry.manager for entry in own.metadata.managed_fields}
    assert FIELD_OWNER not in {entry.manager for entry in other.metadata.managed_fields}
    assert schemas[1].store is not None


async def test_a_definition_of_another_program_without_the_version(k8s_client: Client) -> None:
    """The error names the definition and the version; no schema gets a store."""
    registry, schemas = imported()
    foreign = definition_for(schemas[1], registry)
    foreign["spec"]["versions"][0]["name"] = "v1"
    await k8s_client.create(Unstructured.from_tree(foreign))
    with pytest.raises(NoMatchError, match=r"pages\.example\.com does not serve the version v3"):
        await assign_stores(k8s_client, registry, schemas)
    assert [schema.store for schema in schemas] == [None, None]


def node_of(definition: Unstructured) -> dict[str, Any]:
    """Return the schema of the only version."""
    node: dict[str, Any] = to_dict(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return node


LIMITED = Schema(
    id="limited",
    version=V3,
    scope=Scope.CLUSTER,
    status=True,
    resource_fields={
        "metadata": Field(type="json"),
        "id": Field(type="string"),
        "size": Field(type="int", min=1, max=5),
        "mode": Field(type="enum", options=("on", "off"), nullable=True),
        "title": Field(type="string", min_length=2, max_length=4, required=True),
        "labels": Field(type="map[array[string]]"),
        "ownerId": Field(type="reference[limited]"),
        "port": Field(type="intOrString"),
        "anything": Field(type="json"),
        "when": Field(type="date"),
        "self": Field(type="limited"),
        "unknown": Field(type="array[missing]"),
    },
)


async def test_structural_schemas_check_and_prune(k8s_client: Client) -> None:
    """The API server refuses what the fields do not allow, and drops what they do not declare."""
    registry = SchemaRegistry()
    limited = registry.add(dataclasses.replace(LIMITED, resource_fields=dict(LIMITED.resource_fields)))
    (created,) = await assign_stores(k8s_client, registry, [limited], structural=True)
    assert "id" not in node_of(created)["properties"]
    kind = unstructured_kind("example.com/v3", "Limited")
    good = {
        "size": 5, "mode": None, "title": "abc", "labels": {"a": ["b"]}, "ownerId": "x", "port": 80,
        "anything": {"a": [1]}, "when": "2026-01-02T03:04:05Z", "self": {"title": 1}, "unknown": [{"a": 1}],
    }  # fmt: skip
    head = {"apiVersion": "example.com/v3", "kind": "Limited"}
    tree = {**head, "metadata": {"name": "good"}, **good, "undeclared": 1}
    await k8s_client.create(Unstructured.from_tree(tree))
    stored = to_dict(await k8s_client.get(kind, "good", uncached=True))
    assert {name: stored.get(name) for name in (*good, "undeclared")} == {**good, "undeclared": None}
    for wrong in (
        {"size": 6},
        {"mode": "other"},
        {"title": "a"},
        {"title": None},
        {"labels": {"a": "b"}},
        {"port": []},
    ):
        with pytest.raises(InvalidError):
            await k8s_client.create(Unstructured.from_tree({**tree, "metadata": {"name": "bad"}, **wrong}))


def test_names_of_definitions() -> None:
    """Group, plural and kind come from the schema; a version without a group is an error that says what to set."""
    schema = Schema(id="globalRole", version=V3, scope=Scope.NAMESPACE)
    tree = definition_for(schema, SchemaRegistry())
    assert (tree["metadata"]["name"], tree["spec"]["scope"]) == ("globalroles.example.com", "Namespaced")
    assert tree["spec"]["names"] == {
        "kind": "GlobalRole", "listKind": "GlobalRoleList", "plural": "globalroles", "singular": "globalrole",
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"set ApiVersion\.group"):
        definition_for(Schema(id="site", version=ApiVersion(version="v3", path="/v3")), SchemaRegistry())


def with_status(client: Client, **condition: Any) -> Client:
    """A client that reads one condition of the definition of pages."""

    async def change(operation: Operation, proceed: Any) -> Any:
        result = await proceed(operation)
        if isinstance(operation, Get) and operation.key.name == "pages.example.com":
            result["status"] = {"conditions": [condition]}
        return result

    return intercept(client, change)


async def test_a_definition_that_is_not_established_is_named(k8s_client: Client) -> None:
    """After 60 s the error names the definition; no schema gets a store."""
    registry, schemas = imported()
    slow = with_status(k8s_client, type="Established", status="False", reason="Installing")
    start = asyncio.get_running_loop().time()
    with pytest.raises(DeadlineError, match=r"pages\.example\.com is not established before the deadline"):
        await assign_stores(slow, registry, schemas)
    assert 60 <= asyncio.get_running_loop().time() - start < 61
    assert [schema.store for schema in schemas] == [None, None]
    assert await k8s_client.get(DEFINITION, "sites.example.com", uncached=True)


async def test_names_that_are_taken_are_an_error_at_once(k8s_client: Client) -> None:
    """The error has the name of the definition."""
    registry, schemas = imported()
    refused = with_status(k8s_client, type="NamesAccepted", status="False", message="Page is taken")
    with pytest.raises(NoMatchError, match=r"rejects pages\.example\.com: .*Page is taken"):
        await assign_stores(refused, registry, schemas)


async def test_a_definition_that_the_server_rejects_is_named(k8s_client: Client) -> None:
    """Such as one whose version is not a DNS label."""
    registry = SchemaRegistry()
    wrong = Schema(id="site", version=ApiVersion(group="example.com", version="V_3", path="/v3"))
    with pytest.raises(ApiError, match=r"sites\.example\.com"):
        await assign_stores(k8s_client, registry, [wrong])
    assert GVK not in wrong.attributes
