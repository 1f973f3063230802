"""Schemas that follow the definitions of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator

import pytest

import envtest
from opsdk.aio.tasks import TaskOwner
from opsdk.api.apiextensions.v1 import CustomResourceDefinition
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, Unstructured
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.norman.importing.follow import DefinitionFollower, QueuedFollower, follow_definitions
from opsdk.norman.model import Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import ApiVersion
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.eventually import eventually
from tests.norman.mappers.kit import V3, types

DEFINITION = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")


class SiteSpec(Model):
    """A spec."""

    replicas: int = 1


class Site(Object[SiteSpec, None]):
    """A kind."""

    gvk = GroupVersionKind("demo.example.com", "v1", "Site")


class Other(Object[SiteSpec, None]):
    """Another kind."""

    gvk = GroupVersionKind("demo.example.com", "v1", "Other")


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[tuple[Cluster, Client]]:
    """Start a server with one definition, and a cluster."""
    async with envtest.Environment() as env, Cluster(env.config) as result, asyncio.TaskGroup() as tasks:
        await result.uncached.create(Unstructured.from_tree(copy.deepcopy(crd_for(Other))))
        running = tasks.create_task(result.start())
        yield result, result.uncached
        running.cancel()


async def test_schemas_follow_the_definitions() -> None:
    """Existing definitions are imported first; a new one appears, a changed one is replaced, a deleted one goes."""
    registry = SchemaRegistry()
    async with cluster() as (running, client):

        async def established() -> bool:
            definition = await client.get(CustomResourceDefinition, "others.demo.example.com")
            return any(each.type == "Established" for each in definition.status.conditions)

        await eventually(established)
        async with follow_definitions(registry, running, V3) as follower:
            assert registry.schema(V3, "other") is not None
            created = await client.create(Unstructured.from_tree(copy.deepcopy(crd_for(Site))))
            first = await eventually(lambda: registry.schema(V3, "sites"))
            changed = await client.get(DEFINITION, created.metadata.name)
            properties = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            properties["color"] = {"type": "string"}
            await client.update(changed)
            await eventually(lambda: registry.schema(V3, "site") is not first)
            spec = registry.schema(V3, "siteSpec")
            assert spec is not None
            assert types(spec) == {"color": "string", "replicas": "int"}
            await client.delete(changed)
            await eventually(lambda: registry.schema(V3, "site") is None)
            assert registry.schema(V3, "siteSpec") is None
            assert follower.errors == {}
        assert registry.schema(V3, "other") is not None


def definition(name: str = "sites.demo.example.com", *, established: str = "True", generation: int = 1) -> JsonObject:
    """Return a definition as a server has it."""
    tree = copy.deepcopy(crd_for(Site))
    tree["metadata"] |= {"name": name, "uid": name, "generation": generation}
    tree["status"] = {"conditions": [{"type": "Established", "status": established}]}
    return tree


def follower(registry: SchemaRegistry, version: ApiVersion | None = V3) -> DefinitionFollower:
    """Return a follower that imports everything into one version."""
    return DefinitionFollower(registry=registry, select=lambda definition: version)


def test_only_kinds_that_are_served_have_schemas() -> None:
    """Before the condition Established there is no schema, and without `select` neither."""
    registry = SchemaRegistry()
    for each in (follower(registry), follower(registry, None)):
        each.apply(definition(established="False"))
    follower(registry, None).apply(definition())
    assert registry.schemas() == []
    served = follower(registry)
    served.apply(definition())
    assert registry.schema(V3, "site") is not None
    served.apply(definition(established="False"))
    assert registry.schema(V3, "site") is None
    served.remove("unknown")


def test_a_definition_may_change_its_version() -> None:
    """If `select` returns another version, the schemas of a definition move to it."""
    registry, other = SchemaRegistry(), ApiVersion(version="v4", path="/v4")
    versions = [V3, other]
    moving = DefinitionFollower(registry=registry, select=lambda definition: versions.pop(0))
    for version in (V3, other):
        moving.apply(definition())
        assert {s.version.path for s in registry.schemas() if s.id == "site"} == {version.path}


def test_an_error_does_not_stop_the_others() -> None:
    """An error is kept by definition, until its import works or the definition is deleted."""
    registry = SchemaRegistry()
    each = follower(registry)
    each.apply(definition())
    each.apply(definition("sites.other.example.com"))
    assert "with another schema_id" in str(each.errors["sites.other.example.com"])
    each.remove("sites.demo.example.com")
    each.apply(definition("sites.other.example.com"))
    assert each.errors == {}
    assert registry.schema(V3, "site") is not None


def test_ids_may_be_chosen() -> None:
    """With `schema_id`, kinds of the same name in several groups can coexist."""
    registry = SchemaRegistry()
    each = DefinitionFollower(
        registry=registry,
        select=lambda definition: V3,
        schema_id=lambda tree: f"{tree['spec']['group']}.{tree['spec']['names']['singular']}",
    )
    each.apply(definition())
    assert registry.schema(V3, "demo.example.com.site") is not None


@pytest.mark.realtime
async def test_a_large_definition_is_read_outside_the_event_loop() -> None:
    """The loop continues during the import, which has the same result as at once."""
    properties = {f"p{n}": {"type": "string", "pattern": f"^[b-d]*-{n}$"} for n in range(3_000)}
    tree = definition()
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] |= properties
    at_once, in_parts = SchemaRegistry(), SchemaRegistry()
    follower(at_once).apply(tree)
    each = QueuedFollower(TaskOwner("test"), in_parts, lambda definition: V3)
    running = asyncio.ensure_future(each.apply_in_parts(tree))
    turns = 0
    while not running.done():
        await asyncio.sleep(0)
        turns += 1
    await running
    assert turns > 10
    assert [s.resource_fields for s in in_parts.schemas()] == [s.resource_fields for s in at_once.schemas()]


async def test_an_import_in_parts_that_fails_changes_nothing() -> None:
    """An id that another schema has restores the schemas of the definition before."""
    registry = SchemaRegistry()
    each = QueuedFollower(TaskOwner("test"), registry, lambda definition: V3)
    each.apply(definition())
    before = registry.schemas()
    registry.add(Schema(id="siteSpecNested", version=V3))
    changed = definition(generation=2)
    nested = {"nested": {"type": "object", "properties": {"a": {"type": "string"}}}}
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] |= nested
    await each.apply_in_parts(changed)
    assert "siteSpecNested" in str(each.errors["sites.demo.example.com"])
    assert [schema for schema in registry.schemas() if schema.id != "siteSpecNested"] == list(before)
