"""The proxy store on the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from normankit import V3, NormanKit, api_context

from opsdk import Client, Cluster
from opsdk.api.authentication.v1 import UserInfo
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.rbac.v1 import PolicyRule, Role, RoleBinding, RoleRef, Subject
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.errors import ConflictError, DeadlineError, ForbiddenError
from opsdk.norman.collections.query import ObjectQuery
from opsdk.norman.errors import NormanError
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.query import condition
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Field, Filter, Modifier, Scope
from opsdk.norman.server.server import NormanServer
from opsdk.norman.store_results import ResourceEventType
from opsdk.norman.stores.proxy import ProxyStore
from opsdk.norman.stores.user_clients import ImpersonatingClients
from opsdk.structured_merge.value import JsonObject


class FlatMapper:
    """Name, namespace, labels, annotations and data at the top."""

    def from_internal(self, data: JsonObject) -> None:
        metadata = data.pop("metadata")
        for source, target in (("name", "name"), ("namespace", "namespaceId"), ("labels", "labels")):
            data[target] = metadata.get(source)
        data["annotations"] = metadata.get("annotations")
        data["removed"] = metadata.get("deletionTimestamp")

    def to_internal(self, data: JsonObject) -> None:
        metadata: JsonObject = {}
        for source, target in (("name", "name"), ("namespaceId", "namespace"), ("labels", "labels")):
            if source in data:
                metadata[target] = data.pop(source)
        if "annotations" in data:
            metadata["annotations"] = data.pop("annotations")
        data["metadata"] = metadata

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """The schema is written by hand."""


def schema(store: ProxyStore) -> Schema:
    """Return the schema of ConfigMaps."""
    fields = {
        "name": Field(type="dnsLabel", update=False, nullable=True),
        "namespaceId": Field(type="string", update=False, required=True),
        "labels": Field(type="map[string]", nullable=True),
        "annotations": Field(type="map[string]", nullable=True),
        "data": Field(type="map[string]", nullable=True),
        "removed": Field(type="date", create=False, update=False, nullable=True),
    }
    internal = Schema(id="configMap", version=V3, resource_fields={"data": Field(type="map[string]")})
    return Schema(
        id="configMap",
        version=V3,
        scope=Scope.NAMESPACE,
        resource_methods=("GET", "PUT", "DELETE"),
        collection_methods=("GET", "POST"),
        resource_fields=fields,
        internal=internal,
        mapper=FlatMapper(),
        store=store,
    )


@asynccontextmanager
async def kit(client: Client) -> AsyncIterator[NormanKit]:
    """A server of ConfigMaps."""
    schemas = SchemaRegistry()
    schemas.add(schema(ProxyStore(client, ConfigMap)))
    yield NormanKit(NormanServer(schemas))


async def test_every_verb_reaches_kubernetes(k8s_client: Client) -> None:
    """A flat body becomes a nested object, and back; the id is ``namespace:name``."""
    async with kit(k8s_client) as served:
        body = {"name": "a", "namespaceId": "default", "data": {"k": "v"}, "labels": {"l": "1"}}
        created = await served.post("/v3/configmaps", body)
        assert (created.status, created.body["id"], created.body["data"]) == (201, "default:a", {"k": "v"})
        stored = await k8s_client.get(ConfigMap, "default/a", uncached=True)
        assert (stored.data, stored.metadata.labels) == ({"k": "v"}, {"l": "1", "cattle.io/creator": "norman"})
        assert "default:a" in [item["id"] for item in (await served.get("/v3/configMaps")).data]
        updated = await served.call("PUT", "/v3/configmaps/default:a", {"data": {"x": "y"}})
        assert (updated.status, updated.body["data"], updated.body["labels"]["l"]) == (200, {"x": "y"}, "1")
        assert (await served.call("DELETE", "/v3/configmaps/default:a")).status == 204
        assert (await served.get("/v3/configmaps/default:a")).error == (404, "NotFound", None)


async def test_the_creator_is_recorded_and_protected(k8s_client: Client) -> None:
    """The annotation names the user, the label names norman; a client can set or change neither."""
    store, context = ProxyStore(k8s_client, ConfigMap), api_context(user=UserInfo(username="ada"))
    kind = schema(store)
    forged = {"field.cattle.io/creatorId": "eve", "field.cattle.io/x": "1", "plain": "2"}
    data = {"name": "a", "namespaceId": "default", "annotations": dict(forged), "labels": {"cattle.io/creator": "eve"}}
    created = await store.create(context, kind, data)
    assert created["labels"] == {"cattle.io/creator": "norman"}
    expected = {"field.cattle.io/creatorId": "ada", "field.cattle.io/x": "1", "plain": "2"}
    assert created["annotations"] == expected
    changes = {"labels": {"new": "1"}, "annotations": {"field.cattle.io/creatorId": "eve", "other": "3"}}
    updated = await store.update(context, kind, changes, "default:a")
    assert updated["labels"] == {"cattle.io/creator": "norman", "new": "1"}
    assert updated["annotations"] == {"field.cattle.io/creatorId": "ada", "field.cattle.io/x": "1", "other": "3"}


async def test_a_name_is_generated_from_the_type(k8s_client: Client) -> None:
    """A ConfigMap without a name starts with ``cm-``."""
    async with kit(k8s_client) as served:
        created = await served.post("/v3/configmaps", {"namespaceId": "default"})
        assert created.body["id"].startswith("default:cm-")


async def test_two_updates_of_different_fields_both_survive(k8s_client: Client) -> None:
    """After a conflict, the update is merged with the newer object."""
    store, context = ProxyStore(k8s_client, ConfigMap), api_context()
    kind = schema(store)
    await store.create(context, kind, {"name": "a", "namespaceId": "default", "data": {"k": "v"}})
    await asyncio.gather(
        store.update(context, kind, {"data": {"k": "new"}}, "default:a"),
        store.update(context, kind, {"labels": {"l": "1"}}, "default:a"),
        store.update(context, kind, {"annotations": {"a": "1"}}, "default:a"),
    )
    result = await store.by_id(context, kind, "default:a")
    assert (result["data"], result["labels"]["l"], result["annotations"]["a"]) == ({"k": "new"}, "1", "1")


async def test_replace_removes_what_the_body_lacks(k8s_client: Client) -> None:
    """``_replace=true`` keeps only the fields of the body, and what an update cannot set."""
    async with kit(k8s_client) as served:
        await served.post("/v3/configmaps", {"name": "a", "namespaceId": "default", "data": {"k": "v"}})
        url = "/v3/configmaps/default:a"
        assert (await served.call("PUT", url, {"labels": {"l": "1"}})).body["data"] == {"k": "v"}
        replaced = await served.call("PUT", f"{url}?_replace=true", {"labels": {"l": "2"}})
        assert (replaced.body.get("data"), replaced.body["labels"]["l"]) == (None, "2")


async def test_a_deleted_object_with_finalizers_is_returned(k8s_client: Client) -> None:
    """A delete returns the object while its finalizers run."""
    await k8s_client.create(
        ConfigMap(metadata=ObjectMeta(name="a", namespace="default", finalizers=["example.com/wait"]))
    )
    async with kit(k8s_client) as served:
        deleted = await served.call("DELETE", "/v3/configmaps/default:a")
        assert (deleted.status, deleted.body["id"], bool(deleted.body["removed"])) == (200, "default:a", True)


@pytest.mark.parametrize(
    "object_id",
    [
        "a",
        "default:",
        ":a",
        "default:b",
        "x:y:z",
        "",
        "default:..",
        "default:../b",
        "..:a",
        "default:a/status",
        "default:%2e",
    ],
)
async def test_ids_that_name_nothing(k8s_client: Client, object_id: str) -> None:
    """An id that cannot exist is a 404 without a request."""
    store = ProxyStore(k8s_client, ConfigMap)
    for attempt in (
        store.by_id(api_context(), schema(store), object_id),
        store.update(api_context(), schema(store), {}, object_id),
        store.delete(api_context(), schema(store), object_id),
    ):
        with pytest.raises(NormanError) as raised:
            await attempt
        assert raised.value.status == 404


async def test_a_list_reads_only_the_namespaces_of_the_query(k8s_client: Client) -> None:
    """A condition on the namespace limits a list to requests for these namespaces."""
    store, context = ProxyStore(k8s_client, ConfigMap), api_context()
    kind = schema(store)
    for namespace in ("default", "kube-system"):
        await store.create(context, kind, {"name": "a", "namespaceId": namespace})

    async def ids(query: ObjectQuery) -> set[str]:
        return {item["id"] for item in (await store.list(context, kind, query)).items if item["name"] == "a"}

    assert await ids(ObjectQuery()) == {"default:a", "kube-system:a"}
    where = condition("namespaceId", Modifier.EQ, "kube-system")
    assert await ids(ObjectQuery(filters=where)) == {"kube-system:a"}


async def test_a_watch_sees_what_kubernetes_sees(k8s_client: Client) -> None:
    """A watch yields mapped changes from its start on, including those of other clients."""
    store, context = ProxyStore(k8s_client, ConfigMap), api_context()
    kind = schema(store)
    await store.create(context, kind, {"name": "old", "namespaceId": "default"})
    async with aclosing(store.watch(context, kind, ObjectQuery())) as events:
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(1)
        config_map = await k8s_client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        event = await reading
        assert (event.type, event.data["id"]) == (ResourceEventType.CHANGE, "default:a")
        await k8s_client.delete(config_map)
        assert (await anext(events)).type is ResourceEventType.REMOVE


async def test_errors_of_kubernetes_become_norman_errors(k8s_client: Client) -> None:
    """A name that is taken, and a body that Kubernetes refuses: status and message of the API server."""
    async with kit(k8s_client) as served:
        body = {"name": "a", "namespaceId": "default"}
        await served.post("/v3/configmaps", body)
        again = await served.post("/v3/configmaps", body)
        assert again.error == (409, "AlreadyExists", None)
        invalid = await served.post("/v3/configmaps", {"name": "b", "namespaceId": "default", "data": {"a/b": "x"}})
        assert (invalid.status, invalid.body["code"]) == (422, "Invalid")
        assert "a/b" in invalid.body["message"]


class Flaky:
    """An executor that fails some calls before it passes them on."""

    def __init__(self, client: Client, errors: dict[str, list[Exception]]) -> None:
        self._executor = client.executor
        self._errors = errors
        self.scheme, self.mapper = client.scheme, client.mapper
        self.watch = client.executor.watch

    async def execute(self, operation: Any) -> Any:
        errors = self._errors.get(type(operation).__name__, [])
        if errors:
            raise errors.pop(0)
        return await self._executor.execute(operation)


@pytest.mark.parametrize(("failures", "raises"), [(2, False), (3, True)])
async def test_reads_are_tried_three_times_after_a_timeout(k8s_client: Client, failures: int, raises: bool) -> None:
    """Reads are attempted three times; the third timeout reaches the client."""
    errors: dict[str, list[Exception]] = {"List": [DeadlineError("slow") for _ in range(failures)]}
    store = ProxyStore(Client(Flaky(k8s_client, errors)), ConfigMap)
    listing = store.list(api_context(), schema(store), ObjectQuery())
    if raises:
        with pytest.raises(DeadlineError):
            await listing
    else:
        assert (await listing).items


@pytest.mark.parametrize(("conflicts", "raises"), [(4, False), (5, True)])
async def test_updates_are_tried_five_times_after_a_conflict(k8s_client: Client, conflicts: int, raises: bool) -> None:
    """Updates are attempted five times; the fifth conflict reaches the client."""
    errors: dict[str, list[Exception]] = {"Update": [ConflictError("modified") for _ in range(conflicts)]}
    store = ProxyStore(Client(Flaky(k8s_client, errors)), ConfigMap)
    kind = schema(store)
    await store.create(api_context(), kind, {"name": "a", "namespaceId": "default"})
    updating = store.update(api_context(), kind, {"data": {"k": "v"}}, "default:a")
    if raises:
        with pytest.raises(ConflictError):
            await updating
    else:
        assert (await updating)["data"] == {"k": "v"}


async def test_kubernetes_decides_what_a_user_may_do(k8s_cluster: Cluster, k8s_client: Client) -> None:
    """Requests impersonate their user: the API server refuses what RBAC does not grant."""
    await grant(k8s_client, "ada", "default", "get", "list", "create")
    async with ImpersonatingClients(k8s_cluster) as clients:
        store, context = ProxyStore(clients, ConfigMap), api_context()
        kind = schema(store)
        with pytest.raises(NormanError, match="must authenticate"):
            await store.list(context, kind, ObjectQuery())
        context = api_context(user=UserInfo(username="ada", groups=["readers"]))
        created = await store.create(context, kind, {"name": "a", "namespaceId": "default"})
        assert created["annotations"]["field.cattle.io/creatorId"] == "ada"
        with pytest.raises(ForbiddenError):
            await store.delete(context, kind, "default:a")
        with pytest.raises(ForbiddenError):
            await store.list(context, kind, ObjectQuery())
        in_default = ObjectQuery(filters=condition("namespaceId", Modifier.EQ, "default"))
        assert (await store.list(context, kind, in_default)).items
        context = api_context(user=UserInfo(username="bob"))
        with pytest.raises(ForbiddenError):
            await store.by_id(context, kind, "default:a")


async def test_an_object_of_a_namespaced_kind_needs_a_namespace(k8s_client: Client) -> None:
    """The error names the field; such an object has no place on the API server."""
    store = ProxyStore(k8s_client, ConfigMap)
    with pytest.raises(NormanError) as caught:
        await store.create(api_context(), schema(store), {"name": "a"})
    assert (caught.value.code, caught.value.field_name) == ("MissingRequired", "namespaceId")


async def test_connections_in_use_stay_open(k8s_cluster: Cluster, k8s_client: Client) -> None:
    """A watch continues even if more users come than idle connections are kept."""
    for user in ("ada", "bob"):
        await grant(k8s_client, user, "default", "list", "watch")
    async with ImpersonatingClients(k8s_cluster, max_users=1) as clients:
        ada, bob = (api_context(user=UserInfo(username=name)) for name in ("ada", "bob"))
        async with clients(ada).watch(ConfigMap, namespace="default") as events:
            await clients(bob).list(ConfigMap, namespace="default")
            await k8s_client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
            async with asyncio.timeout(5):
                while (await anext(events)).object.metadata.name != "a":
                    pass
        assert "1 users" in repr(clients)


async def grant(client: Client, user: str, namespace: str, *verbs: str) -> None:
    """Grant verbs on ConfigMaps in a namespace."""
    meta = ObjectMeta(name=f"{user}-{namespace}", namespace=namespace)
    await client.create(
        Role(metadata=meta, rules=[PolicyRule(api_groups=[""], resources=["configmaps"], verbs=list(verbs))])
    )
    await client.create(
        RoleBinding(
            metadata=ObjectMeta(name=meta.name, namespace=namespace),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name=meta.name),
            subjects=[Subject(kind="User", name=user, api_group="rbac.authorization.k8s.io")],
        )
    )


async def test_a_namespace_that_is_no_path_segment(k8s_client: Client) -> None:
    """A list in an invalid namespace is empty, and a create is an error of the field."""
    async with kit(k8s_client) as served:
        schemas = served.server.schemas
        kind = schemas.schema(V3, "configMap")
        assert kind is not None
        kind.collection_filters["namespaceId"] = Filter(modifiers=(Modifier.EQ,))
        for namespace in ("..", ".", "a/b", "%2e"):
            assert (await served.get(f"/v3/configmaps?namespaceId={quote(namespace)}")).data == []
            created = await served.post("/v3/configmaps", {"name": "a", "namespaceId": namespace})
            assert created.error == (422, "InvalidFormat", "namespaceId")
