"""Access by RBAC: lists, watches, reads and writes of users, on the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import pytest
from normankit import V3, NormanKit, api_context

from envtest import Environment
from opsdk import Cluster
from opsdk.api.authentication.v1 import UserInfo
from opsdk.api.core.v1 import ConfigMap, Namespace
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apiserver.auth.rbac import PolicyRule as Rule
from opsdk.norman.collections.access_set_store import AccessSetStore
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.model import ApiContext, Schema, SchemaLookup
from opsdk.norman.rbac_access import RESOURCE, RbacAccess
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Field, Scope
from opsdk.norman.server.server import NormanOptions, NormanServer
from opsdk.norman.stores.cached import CachedStore
from opsdk.norman.stores.proxy import ProxyStore
from opsdk.norman.stores.wrapper import StoreWrapper
from opsdk.norman.tokens import token_review
from opsdk.structured_merge.value import JsonObject
from tests.norman.collections.kit import config_map, grant, revoke, rule, running_cluster


class FlatMapper:
    """Name, namespace and data at the top."""

    def from_internal(self, data: JsonObject) -> None:
        metadata = data.pop("metadata")
        data["name"], data["namespaceId"] = metadata["name"], metadata.get("namespace")

    def to_internal(self, data: JsonObject) -> None:
        data["metadata"] = {"name": data.pop("name", None), "namespace": data.pop("namespaceId", None)}

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """The schema is written by hand."""


class Served:
    """A server of ConfigMaps with RBAC, whose store has the permissions of the program."""

    def __init__(self, env: Environment, cluster: Cluster, access: RbacAccess, store: ProxyStore) -> None:
        self.env, self.access, self.store = env, access, store
        self.schemas = SchemaRegistry()
        self.schema = self.schemas.add(
            Schema(
                id="configMap",
                version=V3,
                scope=Scope.NAMESPACE,
                resource_methods=("GET", "PUT", "DELETE"),
                collection_methods=("GET", "POST"),
                resource_fields={
                    "name": Field(type="dnsLabel", update=False, nullable=True),
                    "namespaceId": Field(type="string", update=False, required=True),
                    "data": Field(type="map[string]", nullable=True),
                },
                mapper=FlatMapper(),
                store=store,
                attributes={RESOURCE: GroupVersionResource("", "v1", "configmaps")},
            )
        )
        options = NormanOptions(authenticate=token_review(cluster.uncached))
        self.server = NormanServer(self.schemas, access=access, options=options)

    def kit(self, user: str) -> NormanKit:
        """Return the requests of a user."""
        return NormanKit(self.server, headers={"authorization": f"Bearer {self.env.add_user(user).token}"})

    def context(self, user: str) -> ApiContext:
        """Return the context of a user."""
        return api_context(access=self.access, schemas=self.schemas, user=UserInfo(username=user))


@asynccontextmanager
async def served(env: Environment, *, cached: bool = False) -> AsyncIterator[tuple[Served, Cluster]]:
    """Yield a server over a running cluster."""
    async with running_cluster(env) as cluster, AccessSetStore(cluster.cache) as access:
        store = CachedStore(cluster, ConfigMap) if cached else ProxyStore(cluster.uncached, ConfigMap)
        yield Served(env, cluster, RbacAccess(access), store), cluster
        if isinstance(store, CachedStore):
            await store.aclose()


@pytest.mark.parametrize("cached", [False, True])
async def test_rbac_decides_what_a_user_sees(k8s_env: Environment, cached: bool) -> None:
    """Tokens name users; lists, links and schemas have what RBAC grants; a permission that is taken away ends."""
    async with served(k8s_env, cached=cached) as (api, cluster):
        client = cluster.uncached
        await grant(client, "ada", rule("get", "list", "update"), namespace="default")
        for namespace in ("default", "kube-system"):
            await config_map(client, namespace, "a")
        await asyncio.sleep(1)
        ada = api.kit("ada")
        assert (await NormanKit(api.server).get("/v3/configmaps")).status == 401
        assert (await ada.get("/v3/configmaps", authorization="Bearer wrong")).status == 401
        for query in ("", "?namespaceId=default"):
            listed = await ada.get(f"/v3/configmaps{query}")
            assert {item["namespaceId"] for item in listed.data} == {"default"}
        denied = await ada.get("/v3/configmaps?namespaceId=kube-system")
        assert (denied.error, denied.body["message"]) == ((403, "PermissionDenied", None), "can not list configMap")
        links = (await ada.get("/v3/configmaps/default:a")).body["links"]
        assert ("update" in links, "remove" in links) == (True, False)
        assert (await ada.get("/v3/configmaps/kube-system:a")).status == 403
        assert (await ada.call("DELETE", "/v3/configmaps/default:a")).status == 403
        described = (await ada.get("/v3/schemas/configMap?namespaceId=default")).body
        assert (described["resourceMethods"], described["collectionMethods"]) == (["GET", "PUT"], ["GET"])
        await revoke(client, "ada", namespace="default")
        await asyncio.sleep(1)
        assert (await ada.get("/v3/configmaps")).status == 403
        assert (await ada.get("/v3/configmaps/default:a")).status == 403
        assert (await ada.get("/v3/schemas/configMap")).error == (404, "NotFound", None)


async def test_a_create_needs_the_permission_in_the_namespace_of_the_object(k8s_env: Environment) -> None:
    """The object's namespace decides about the permission, not the query."""
    async with served(k8s_env) as (api, cluster):
        client = cluster.uncached
        await grant(client, "ada", rule("create", "get"), namespace="default")
        await asyncio.sleep(1)
        ada = api.kit("ada")
        own, other = {"name": "a", "namespaceId": "default"}, {"name": "a", "namespaceId": "kube-system"}
        for query in ("", "?namespaceId=default", "?namespace=default"):
            for body in (other, {**other, "namespace": "default"}):
                assert (await ada.post(f"/v3/configmaps{query}", body)).status == 403
            created = await ada.post(f"/v3/configmaps{query}", own)
            assert created.status == 201
            await client.delete(ConfigMap, "default/a")
        missing = await ada.post("/v3/configmaps?namespaceId=default", {"name": "a"})
        assert missing.error == (422, "MissingRequired", "namespaceId")


@pytest.mark.parametrize("cached", [False, True])
async def test_a_list_and_a_watch_have_what_the_user_may_see(k8s_env: Environment, cached: bool) -> None:
    """A list and a watch have only permitted namespaces; a revoked permission ends in both."""
    async with served(k8s_env, cached=cached) as (api, cluster):
        client = cluster.uncached
        for namespace in ("red", "blue", "green"):
            await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
            await config_map(client, namespace, "a")
        for namespace in ("red", "blue"):
            await grant(client, "ada", rule("get", "list", "watch", "create"), namespace=namespace)
        await asyncio.sleep(1)
        ada = api.kit("ada")

        async def seen() -> set[str]:
            return {item["id"] for item in (await ada.get("/v3/configmaps")).data if item["name"] == "a"}

        assert await seen() == {"red:a", "blue:a"}
        assert "configMap" in (await ada.get("/v3/configmaps")).body["createTypes"]
        assert {"configMap"} == {item["id"] for item in (await ada.get("/v3/schemas")).data}
        assert (await api.kit("bob").get("/v3/configmaps")).status == 403
        async with aclosing(StoreWrapper(api.store).watch(api.context("ada"), api.schema, ObjectQuery())) as events:
            following = asyncio.create_task(anext(events))
            await asyncio.sleep(1)
            for namespace in ("green", "blue"):
                await config_map(client, namespace, "b")
            async with asyncio.timeout(20):
                assert (await following).data["id"] == "blue:b"
            await revoke(client, "ada", namespace="blue")
            await asyncio.sleep(1)
            for namespace in ("blue", "red"):
                await config_map(client, namespace, "c")
            async with asyncio.timeout(20):
                assert (await anext(events)).data["id"] == "red:c"
        assert await seen() == {"red:a"}
        await revoke(client, "ada", namespace="red")
        await asyncio.sleep(1)
        assert (await ada.get("/v3/configmaps")).status == 403


@pytest.mark.parametrize("cached", [False, True])
async def test_what_a_store_returns_beyond_the_permissions_is_hidden(k8s_env: Environment, cached: bool) -> None:
    """A user who may get one object by its name lists that one, on one page."""
    async with served(k8s_env, cached=cached) as (api, cluster):
        client = cluster.uncached
        await grant(client, "ada", rule("get", names=["b"]), namespace="default")
        await grant(client, "ada", rule("list"), namespace="default", name="late")
        for name in "abc":
            await config_map(client, "default", name)
        await revoke(client, "ada", namespace="default", name="late")
        await asyncio.sleep(1)
        store = StoreWrapper(api.store)
        result = await store.list(api.context("ada"), api.schema, ObjectQuery(limit=2))
        # Without a list permission, the API server lists nothing for the user of a proxy store.
        assert [item["id"] for item in result.items] == (["default:b"] if cached else [])
        assert (await store.by_id(api.context("ada"), api.schema, "default:b"))["name"] == "b"
        with pytest.raises(NormanError, match="failed to find default:a"):
            await store.by_id(api.context("ada"), api.schema, "default:a")


class _Grants:
    """An access set store with one user."""

    def __init__(self, *grants: tuple[str, Rule]) -> None:
        from opsdk.norman.collections.access_set import AccessSet

        self._access = AccessSet.of(grants)

    def access_for(self, user: object) -> object:
        return self._access


@pytest.mark.parametrize(("scope", "namespace", "name"), [(Scope.NAMESPACE, "a", "b:c"), (Scope.CLUSTER, "", "a:b:c")])
async def test_a_name_with_colons_is_checked_as_it_is_read(scope: Scope, namespace: str, name: str) -> None:
    """The name is the rest of an id after the namespace, or the whole id of a cluster-scoped object."""
    verbs, resources = ("get", "update"), ("roles",)
    granted = Rule(verbs=verbs, groups=("rbac.authorization.k8s.io",), resources=resources, names=(name,))
    access = RbacAccess(_Grants((namespace, granted)))  # type: ignore[arg-type]
    resource = GroupVersionResource("rbac.authorization.k8s.io", "v1", "roles")
    kind = Schema(id="role", version=V3, scope=scope, attributes={RESOURCE: resource}, resource_methods=("GET", "PUT"))
    context = api_context(user=UserInfo(username="ada"), id="a:b:c", schema=kind)
    await access.can_get(context, kind)
    await access.can_update(context, kind, {"id": "a:b:c"})
    with pytest.raises(NormanError, match="can not get role"):
        await access.can_get(replace(context, id="a:b:d"), kind)


async def test_a_namespace_is_visible_to_those_who_may_get_it() -> None:
    """A namespace is visible with a permission for its name, or with a role in the namespace."""
    resource = GroupVersionResource("", "v1", "namespaces")
    kind = Schema(id="namespace", version=V3, attributes={RESOURCE: resource}, resource_methods=("GET",))
    by_name = ("", Rule(verbs=("get",), groups=("",), resources=("namespaces",), names=("default",)))
    within = ("default", Rule(verbs=("get",), groups=("",), resources=("*",)))
    for granted in (by_name, within):
        access = RbacAccess(_Grants(granted))  # type: ignore[arg-type]
        context = api_context(user=UserInfo(username="ada"), schema=kind, id="default")
        await access.can_get(context, kind)
        visible = await access.visible(context, kind)
        assert not visible.contains("", "kube-system")
        with pytest.raises(NormanError, match="can not get namespace"):
            await access.can_get(replace(context, id="kube-system"), kind)
    assert visible.contains("", "default") is False  # a role in a namespace does not grant lists of Namespaces
