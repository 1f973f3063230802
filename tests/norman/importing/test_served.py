"""Imported schemas behind a server: requests and responses."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

import msgspec
from normankit import NormanKit

import envtest
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, Unstructured
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.norman.importing.field_options import FieldOptions
from opsdk.norman.importing.follow import follow_definitions
from opsdk.norman.mappers.computed import FromCel
from opsdk.norman.mappers.embeds import SliceToMap
from opsdk.norman.mappers.kubernetes import GVK
from opsdk.norman.mappers.moves import Move
from opsdk.norman.model import Schema
from opsdk.norman.schema_parts import ApiVersion
from opsdk.norman.schemas import NormanSchemas
from opsdk.norman.server.server import NormanServer
from opsdk.norman.stores.memory import MemoryStore
from opsdk.norman.stores.proxy import ProxyStore
from opsdk.testing.eventually import eventually
from tests.norman.mappers.kit import V3


class Port(Model):
    """A port."""

    name: str
    number: int


class SiteSpec(Model):
    """A spec."""

    replicas: int = 1
    ports: list[Port] = msgspec.field(default_factory=list)
    cluster_name: Annotated[str, FieldOptions(type="reference[cluster]")] = ""


class Site(Object[SiteSpec, None]):
    """A kind."""

    gvk = GroupVersionKind("example.com", "v3", "Site")


class ClusterSpec(Model):
    """A spec."""

    size: int = 1


class ManagedCluster(Object[ClusterSpec, None]):
    """What a site refers to."""

    gvk = GroupVersionKind("example.com", "v3", "Cluster")
    namespaced = False


@dataclass
class Limited:
    """A class with a limit."""

    name: str
    size: Annotated[int, FieldOptions(min=1)]


def proxied(client: Client, schema: Schema) -> None:
    """Give a schema a store on the API server."""
    gvk = schema.attributes[GVK]
    assert isinstance(gvk, GroupVersionKind)
    schema.store = ProxyStore(client, unstructured_kind(gvk.api_version, gvk.kind))


@asynccontextmanager
async def environment() -> AsyncIterator[tuple[Cluster, Client]]:
    """Start a server, and a cluster whose cache runs."""
    async with envtest.Environment() as env, Cluster(env.config) as cluster, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.start())
        yield cluster, cluster.uncached
        running.cancel()


async def test_a_limit_is_checked() -> None:
    """A dataclass field with min=1 rejects 0."""

    def in_memory(schema: Schema) -> None:
        schema.store = MemoryStore()

    schemas = NormanSchemas().import_class(V3, Limited, in_memory, root=True)
    kit = NormanKit(NormanServer(schemas))
    assert (await kit.post("/v3/limiteds", {"name": "a", "size": 0})).error == (422, "MinLimitExceeded", "size")
    assert (await kit.post("/v3/limiteds", {"name": "a"})).error == (422, "MissingRequired", "size")
    assert (await kit.post("/v3/limiteds", {"name": "a", "size": 1})).status == 201
    schema = (await kit.get("/v3/schemas/limited")).body
    assert schema["resourceFields"]["size"]["min"] == 1
    assert schema["resourceMethods"] == ["GET", "PUT", "DELETE"]


async def test_a_flat_body_is_stored_nested() -> None:
    """POST, GET, PUT and back-references of imported classes on the API server; what was read can be sent back."""
    async with environment() as (_, client):
        for cls in (Site, ManagedCluster):
            await client.create(Unstructured.from_tree(copy.deepcopy(crd_for(cls))))
        schemas = NormanSchemas.for_kubernetes(V3).type_name(ManagedCluster, "cluster")
        schemas.add_mapper_for(V3, SiteSpec, SliceToMap(field="ports", key="name"))
        schemas.add_mapper_for(
            V3, Site, Move(source="replicas", to="scale"), FromCel(field="big", expression="scale > 2")
        )
        for cls in (Site, ManagedCluster):
            schemas.import_class(V3, cls, lambda schema: proxied(client, schema))
        kit = NormanKit(NormanServer(schemas))

        async def post(path: str, body: object) -> bool:
            return (await kit.post(path, body)).status == 201

        await eventually(lambda: post("/v3/clusters", {"name": "c-1"}))
        body = {"name": "a", "namespace": "default", "scale": 3, "ports": {"web": {"number": 80}}, "clusterId": "c-1"}
        await eventually(lambda: post("/v3/sites", body))
        stored = await client.get(unstructured_kind("example.com/v3", "Site"), "default/a")
        assert stored["spec"] == {"replicas": 3, "ports": [{"name": "web", "number": 80}], "clusterName": "c-1"}
        body_read = (await kit.get("/v3/sites/default:a")).body
        assert {name: body_read[name] for name in ("id", "type", "name", "scale", "big", "clusterId", "namespace")} == {
            "id": "default:a",
            "type": "site",
            "name": "a",
            "scale": 3,
            "big": True,
            "clusterId": "c-1",
            "namespace": "default",
        }
        assert body_read["ports"]["web"]["number"] == 80
        assert "metadata" not in body_read
        assert body_read["uuid"]
        links = (await kit.get("/v3/clusters/c-1")).body["links"]
        assert links["sites"].endswith("/v3/sites?clusterId=c-1")
        unset = await kit.post("/v3/sites", {"name": "b", "namespace": "default"})
        assert unset.body["clusterId"] is None
        assert (await kit.call("PUT", "/v3/sites/default:b", unset.body)).status == 200
        changed = await kit.call("PUT", "/v3/sites/default:a", {"scale": 1})
        assert (changed.body["scale"], changed.body["big"]) == (1, False)
        stored = await client.get(unstructured_kind("example.com/v3", "Site"), "default/a")
        assert stored["spec"]["replicas"] == 1
        assert stored["spec"]["ports"] == [{"name": "web", "number": 80}]


async def test_a_new_definition_is_served() -> None:
    """A new definition appears in ``/v3/schemas``, and its objects can be created; a deleted one goes."""
    async with environment() as (cluster, client):
        version = ApiVersion(group="example.com", version="v3", path="/v3")
        schemas = NormanSchemas.for_kubernetes(version)
        kit = NormanKit(NormanServer(schemas))
        async with follow_definitions(schemas, cluster, version, lambda schema: proxied(client, schema)):
            definition = await client.create(Unstructured.from_tree(copy.deepcopy(crd_for(Site))))

            async def is_served() -> bool:
                return (await kit.get("/v3/schemas/site")).status == 200

            await eventually(is_served)
            created = await kit.post("/v3/sites", {"name": "a", "namespace": "default", "replicas": 2})
            assert (created.status, created.body["id"], created.body["replicas"]) == (201, "default:a", 2)
            await client.delete(definition)
            await eventually(lambda: schemas.schema(version, "site") is None)
            assert (await kit.get("/v3/sites")).status == 404


class Crew(Model):
    """A spec with names that every object of the API has."""

    name: str
    type: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class Ship(Object[Crew, None]):
    """A kind whose spec has fields of the metadata."""

    gvk = GroupVersionKind("example.com", "v3", "Ship")


async def test_a_spec_with_names_that_are_taken_is_served_nested() -> None:
    """Both names are kept, whether a class or its definition is imported."""
    async with environment() as (_, client):
        definition = crd_for(Ship)
        await client.create(Unstructured.from_tree(copy.deepcopy(definition)))
        imports = (
            NormanSchemas.for_kubernetes(V3).import_class(V3, Ship, lambda schema: proxied(client, schema)),
            NormanSchemas.for_kubernetes(V3).import_definition(V3, definition, lambda each: proxied(client, each)),
        )
        for name, schemas in zip(("a", "b"), imports, strict=True):
            kit = NormanKit(NormanServer(schemas))
            spec = {"name": "inner", "type": "crew", "labels": {"x": "y"}}
            body = {"name": name, "namespace": "default", "labels": {"l": "m"}, "spec": spec}

            async def post(kit: NormanKit = kit, body: object = body) -> bool:
                return (await kit.post("/v3/ships", body)).status == 201

            await eventually(post)
            body_read = (await kit.get(f"/v3/ships/default:{name}")).body
            assert (body_read["name"], body_read["labels"]["l"], body_read["spec"]) == (name, "m", spec)
            changed = await kit.call("PUT", f"/v3/ships/default:{name}", {"spec": {"name": "other"}})
            assert changed.body["spec"] == {**spec, "name": "other"}
            stored = await client.get(unstructured_kind("example.com/v3", "Ship"), f"default/{name}")
            assert (stored["spec"]["name"], stored.metadata.name) == ("other", name)
