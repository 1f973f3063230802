"""The API on the embedded server, with real RBAC objects and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from msgspec.structs import replace
from stevekit import WIDGETS, config_map, grant, revoke, rule, running_cluster

import envtest
from opsdk.api.core.v1 import Namespace
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.apiserver.auth.user import User
from opsdk.client.client import Client
from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import HttpResponse
from opsdk.norman.steve.api import SteveApi, SteveOptions
from opsdk.norman.steve.parameters import parse_parameters
from opsdk.norman.steve.resources import SteveUrls
from opsdk.norman.steve.store import Target
from opsdk.norman.steve.template import SchemaTemplate

ADMIN = User(name="admin", groups=("system:masters",))
ANN = User(name="ann", groups=("system:authenticated",))
HOST = "http://steve"


class Caller:
    """Sends requests to an API as one user."""

    def __init__(self, api: SteveApi, user: User) -> None:
        self.api = api
        self.user = user

    async def __call__(self, method: str, url: str, body: object = None, kind: str = "") -> tuple[int, Any]:
        data = b"" if body is None else msgspec.json.encode(body)
        response = await self.send(method, url, data, kind)
        return response.status, msgspec.json.decode(response.body) if response.body else None

    async def send(self, method: str, url: str, body: bytes, kind: str = "") -> HttpResponse:
        """Return the response to a request with a body."""

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        path, _, query = url.partition("?")
        request = HttpRequest(method, path, Query(query), {"content-type": kind}, receive)
        return await self.api.handle(request, self.user, SteveUrls(HOST, "/v1", f"{HOST}{url}"))

    async def ids(self, url: str) -> list[str]:
        """The ids of a list."""
        status, body = await self("GET", url)
        assert status == 200, body
        return [item["id"] for item in body["data"]]


@asynccontextmanager
async def steve(**options: Any) -> AsyncIterator[tuple[Caller, Caller, Client]]:
    """Callers of the admin and of ann, and the admin's client; ConfigMaps a, b in namespaces n and m."""
    async with envtest.Environment() as env, running_cluster(env) as cluster:
        client = cluster.uncached
        for namespace in ("n", "m"):
            labels = {"field.cattle.io/projectId": f"p-{namespace}"}
            await client.create(Namespace(metadata=ObjectMeta(name=namespace, labels=labels)))
            for name in "ab":
                await config_map(client, namespace, name, size=name)
        async with SteveApi(cluster, SteveOptions(**options)) as api:
            yield Caller(api, ADMIN), Caller(api, ANN), client


OWN = "filter=metadata.namespace in (n,m)"


# ------------------------------------------------------------------ resources
async def test_every_verb_works_with_the_permissions_of_the_user() -> None:
    """Create, get, update, patch and delete; ann may only read one name."""
    async with steve() as (admin, ann, client):
        status, created = await admin("POST", "/v1/configmaps", {"metadata": {"namespace": "n", "name": "new"}})
        assert (status, created["id"], created["type"]) == (201, "n/new", "configmap")
        assert created["links"]["self"] == f"{HOST}/v1/configmaps/n/new"
        assert created["links"]["view"] == f"{HOST}/api/v1/namespaces/n/configmaps/new"
        created["data"] = {"size": "1"}
        status, updated = await admin("PUT", "/v1/configmap/n/new", created)
        assert (status, updated["data"]) == (200, {"size": "1"})
        assert (await admin("PUT", "/v1/configmap/n/new", created))[1]["code"] == "Conflict"
        status, patched = await admin("PATCH", "/v1/configmaps/n/new", {"data": {"size": "2"}})
        assert (status, patched["data"]["size"], patched["metadata"]["state"]["name"]) == (200, "2", "active")
        await grant(client, "ann", rule("get", names=["new"]), namespace="n")
        await asyncio.sleep(1)
        status, received = await ann("GET", "/v1/configmaps/n/new")
        assert (status, sorted(received["links"])) == (200, ["self", "view"])
        for method in ("PUT", "PATCH", "DELETE"):
            assert (await ann(method, "/v1/configmaps/n/new", received))[0] == 405
        assert (await ann("GET", "/v1/configmaps/n/a"))[1]["code"] == "PermissionDenied"
        assert (await admin("DELETE", "/v1/configmaps/n/new"))[0] == 204
        assert (await admin("GET", "/v1/configmaps/n/new"))[1]["code"] == "NotFound"


async def test_own_fields_with_names_of_the_api_get_an_underscore() -> None:
    """The type of a Secret is not the type of the resource, in both directions."""
    async with steve() as (admin, _, _client):
        body = {"_type": "example.org/x", "type": "secret", "metadata": {"name": "s", "namespace": "n"}}
        status, created = await admin("POST", "/v1/secrets", body)
        assert (status, created["type"], created["_type"]) == (201, "secret", "example.org/x")


async def test_an_own_type_is_filtered_and_sorted_by() -> None:
    """A field named type is filtered and sorted by its name in the API."""
    async with steve() as (admin, _, _client):
        for name, kind in (("s1", "example.org/x"), ("s2", "example.org/y")):
            await admin("POST", "/v1/secrets", {"_type": kind, "metadata": {"name": name, "namespace": "n"}})
        await asyncio.sleep(1)
        assert await admin.ids("/v1/secrets?filter=_type=example.org/y") == ["n/s2"]
        assert (await admin.ids("/v1/secrets?sort=-_type&filter=metadata.namespace=n"))[:2] == ["n/s2", "n/s1"]


async def test_fields_are_left_out_as_the_request_says() -> None:
    """``exclude``, ``excludeValues`` and ``include`` apply to lists and single objects."""
    async with steve() as (admin, _, _client):
        _, page = await admin("GET", f"/v1/configmaps/n?{OWN}&exclude=data&exclude=metadata.managedFields")
        assert [item["id"] for item in page["data"]] == ["n/a", "n/b"]
        assert not any("data" in item or "managedFields" in item["metadata"] for item in page["data"])
        _, one = await admin("GET", "/v1/configmaps/n/a?excludeValues=data")
        assert (one["data"], one["metadata"]["name"]) == ({"size": ""}, "a")
        _, page = await admin("GET", f"/v1/configmaps/n?{OWN}&include=metadata.name&include=spec.absent&include=data.x")
        assert [item["metadata"] for item in page["data"]] == [{"name": "a"}, {"name": "b"}]
        assert page["data"][0]["links"]["self"] == f"{HOST}/v1/configmaps/n/a"
        assert page["data"][0].keys() == {"id", "type", "links", "actions", "metadata"}


async def test_the_fields_of_columns_are_paths_of_queries() -> None:
    """Column fields have the prefix ``$.``, which queries accept."""
    async with steve() as (admin, _, _client):
        _, schema = await admin("GET", "/v1/schemas/configmap")
        name = schema["attributes"]["columns"][0]
        assert (name["name"], name["field"]) == ("Name", "$.metadata.fields[0]")
        for field in (name["field"], name["field"].removeprefix("$.")):
            assert await admin.ids(f"/v1/configmaps/n?{OWN}&sort=-{field}") == ["n/b", "n/a"]


async def test_an_object_without_name_gets_one_from_its_kind() -> None:
    """An object without a name gets a prefix from the capitals of its kind, as in norman."""
    async with steve() as (admin, _, _client):
        _, created = await admin("POST", "/v1/configmaps/n", {"metadata": {}})
        assert created["metadata"]["name"].startswith("cm-")


@pytest.mark.parametrize(
    ("method", "url", "body", "status", "code"),
    [
        ("GET", "/v1/nothing", None, 404, "NotFound"),
        ("GET", "/v1/configmaps/n/a/x", None, 404, "NotFound"),
        ("GET", "/v1/configmaps?filter=a=", None, 400, "InvalidFormat"),
        ("PUT", "/v1/configmaps/n", {}, 405, "MethodNotAllow"),
        ("POST", "/v1/schemas", {}, 405, "MethodNotAllow"),
        ("POST", "/v1/configmaps", [], 422, "InvalidBodyContent"),
        ("POST", "/v1/configmaps", {"metadata": {"name": "a"}}, 422, "MissingRequired"),
        ("PUT", "/v1/configmaps/n/a", {"metadata": {}}, 422, "MissingRequired"),
        ("POST", "/v1/configmaps", {"metadata": {"name": "A!", "namespace": "n"}}, 422, "Invalid"),
        ("POST", "/v1/configmaps/n/a?action=x", None, 404, "NotFound"),
    ],
)
async def test_bad_requests_have_a_code(method: str, url: str, body: object, status: int, code: str) -> None:
    """Errors are bodies of type error; those of the cluster have its reason."""
    async with steve() as (admin, _, _client):
        answered, response = await admin(method, url, body)
        if "action" in url:
            status, code = 422, "InvalidAction"
        assert (answered, response["type"], response["code"]) == (status, "error", code)


async def test_a_body_of_another_media_type_is_refused() -> None:
    """A patch of an unknown type is a 415; bytes that are not JSON, and forms, are a 422."""
    async with steve() as (admin, _, _client):
        assert (await admin("PATCH", "/v1/configmaps/n/a", {}, "text/plain"))[0] == 415
        assert (await admin.send("POST", "/v1/configmaps", b"\xff{")).status == 422
        form = await admin.send("POST", "/v1/configmaps/n", b"data=x", "application/x-www-form-urlencoded")
        assert (form.status, msgspec.json.decode(form.body)["code"]) == (422, "InvalidBodyContent")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_body_that_is_empty_or_too_large_is_refused_as_by_norman(method: str) -> None:
    """Both are a 422 with the code InvalidBodyContent; an empty patch is the cluster's to refuse."""
    async with steve() as (admin, _, _client):
        url = "/v1/namespaces" if method == "POST" else "/v1/namespaces/n"
        for body in (b"{" + b" " * (3 << 20), b"" if method != "PATCH" else b"["):
            response = await admin.send(method, url, body)
            code = "InvalidBodyContent" if body != b"[" else "BadRequest"
            assert msgspec.json.decode(response.body)["code"] == code
            assert response.status == (422 if body != b"[" else 400)


# ------------------------------------------------------------------ collections
async def test_lists_are_filtered_sorted_and_paged() -> None:
    """filter, sort, page, pagesize, summary, limit and continue, with count, revision and pages."""
    async with steve() as (admin, _, _client):
        _, page = await admin("GET", f"/v1/configmaps?{OWN}&sort=-metadata.name,metadata.namespace&pagesize=3")
        assert [item["id"] for item in page["data"]] == ["m/b", "n/b", "m/a"]
        assert (page["type"], page["resourceType"], page["count"], page["pages"]) == ("collection", "configmap", 4, 2)
        assert int(page["revision"]) > 0
        assert page["createTypes"] == {"configmap": f"{HOST}/v1/configmaps"}
        assert await admin.ids(f"/v1/configmaps/n?{OWN}") == ["n/a", "n/b"]
        _, first = await admin("GET", f"/v1/configmaps?{OWN}&limit=3&summary=data.size")
        assert first["summary"] == [{"property": "data.size", "counts": {"a": {"total": 2}, "b": {"total": 2}}}]
        assert first["pagination"]["next"].endswith(f"continue={first['continue']}")
        assert await admin.ids(first["pagination"]["next"].removeprefix(HOST)) == ["n/b"]


async def test_a_walk_by_next_keeps_its_parameters_and_one_token() -> None:
    """Each next link has the parameters and one token; the link to the first part has none."""
    async with steve() as (admin, _, _client):
        start = f"/v1/configmaps?{OWN}&limit=1"
        url, walked = start, []
        while url:
            _, part = await admin("GET", url)
            walked += [item["id"] for item in part["data"]]
            pagination = part["pagination"]
            assert parse_qsl(urlsplit(pagination["first"]).query) == parse_qsl(urlsplit(start).query)
            url = pagination.get("next", "").removeprefix(HOST)
            assert url.count("continue=") <= 1
        assert walked == ["m/a", "m/b", "n/a", "n/b"]


async def test_projects_select_namespaces_and_their_objects() -> None:
    """A label of its Namespace puts a namespace into a project."""
    async with steve() as (admin, _, _client):
        assert await admin.ids(f"/v1/configmaps?{OWN}&projectsornamespaces=p-m") == ["m/a", "m/b"]
        assert await admin.ids(f"/v1/configmaps?{OWN}&projectsornamespaces!=p-m") == ["n/a", "n/b"]
        assert await admin.ids("/v1/namespaces?projectsornamespaces=p-m,n") == ["m", "n"]
        assert set(await admin.ids("/v1/namespaces?projectsornamespaces!=p-m,n")).isdisjoint({"m", "n"})
        for path, ids in (("namespaces", ["m", "n"]), ("configmaps/m", ["m/a", "m/b"])):
            _, first = await admin("GET", f"/v1/{path}?{OWN if '/' in path else ''}&projectsornamespaces=p-m,n&limit=1")
            assert [item["id"] for item in first["data"]] == ids[:1]
            assert await admin.ids(first["pagination"]["next"].removeprefix(HOST)) == ids[1:]


async def test_a_user_of_two_names_sees_just_these_until_the_permissions_are_taken_away() -> None:
    """Lists, counts and schemas follow the role with its event."""
    async with steve() as (_, ann, client):
        assert (await ann("GET", "/v1/configmaps"))[0] == 404
        await grant(client, "ann", rule("get", "watch", names=["a"]), namespace="n")
        await grant(client, "ann", rule("get", "watch", names=["b"]), namespace="m")
        await asyncio.sleep(1)
        _, page = await ann("GET", "/v1/configmaps")
        assert ([item["id"] for item in page["data"]], page["count"]) == (["m/b", "n/a"], 2)
        assert page["createTypes"] == {}
        _, schemas = await ann("GET", "/v1/schemas")
        assert "configmap" in {schema["id"] for schema in schemas["data"]}
        assert "secret" not in {schema["id"] for schema in schemas["data"]}
        _, counts = await ann("GET", "/v1/counts")
        config_maps = counts["data"][0]["counts"]["configmap"]
        assert config_maps == {"summary": {"count": 2}, "namespaces": {"m": {"count": 1}, "n": {"count": 1}}}
        await revoke(client, "ann", namespace="m")
        await asyncio.sleep(1)
        assert await ann.ids("/v1/configmaps") == ["n/a"]
        assert await ann.ids(f"/v1/configmaps?revision={page['revision']}") == ["n/a"]


async def test_types_that_cannot_be_watched_are_listed_with_the_permissions_of_the_user() -> None:
    """Types without watch, such as component statuses, are listed as the user, without a cache."""
    async with steve() as (admin, _, _client):
        schema = admin.api.schema_for(ADMIN, "configmap")
        page, _ = await admin.api._uncached_page(
            Target(user=ADMIN, schema=replace(schema, verbs=("get", "list")), namespace="n"),
            parse_parameters("filter=metadata.name=b"),
        )
        assert [str(entry.key) for entry in page.entries] == ["n/b"]


# ------------------------------------------------------------------ schemas
async def test_a_new_definition_is_served_within_its_event_and_is_gone_with_it() -> None:
    """Its schema has columns and a description; its objects have fields; filters use them."""
    async with steve() as (admin, _, client):
        assert (await admin("GET", "/v1/schemas/demo.dev.widget"))[0] == 404
        definition = await client.create(Unstructured.from_tree(WIDGETS))
        async with asyncio.timeout(10):
            while (await admin("GET", "/v1/demo.dev.widgets"))[0] != 200:
                await asyncio.sleep(0.01)
        _, schema = await admin("GET", "/v1/schemas/demo.dev.widget")
        assert schema["description"] == "A part of a machine."
        assert [column["name"] for column in schema["attributes"]["columns"]] == ["Name", "Size"]
        for size in (10, 9):
            body = {"metadata": {"namespace": "n", "name": f"w{size}"}, "spec": {"size": size}}
            status, created = await admin("POST", "/v1/demo.dev.widgets", body)
            assert (status, created["metadata"]["fields"]) == (201, [f"w{size}", size])
        revision = created["metadata"]["resourceVersion"]
        assert await admin.ids(f"/v1/demo.dev.widget?sort=metadata.fields[1]&revision={revision}") == ["n/w9", "n/w10"]
        _, response = await admin("GET", "/v1/schemaDefinitions/demo.dev.widget")
        fields = response["definitions"][f"{response['definitionType']}.spec"]["resourceFields"]
        assert fields == {"size": {"type": "int", "required": True}, "tags": {"type": "array", "subtype": "string"}}
        await client.delete(definition)
        async with asyncio.timeout(10):
            while (await admin("GET", "/v1/demo.dev.widgets"))[0] != 404:
                await asyncio.sleep(0.01)


async def test_schemas_have_ids_methods_and_attributes_of_steve() -> None:
    """Ids of core kinds are their names; others have their group as prefix."""
    async with steve() as (admin, _, client):
        _, schema = await admin("GET", "/v1/schemas/apps.deployment")
        assert (schema["pluralName"], schema["attributes"]["version"]) == ("apps.deployments", "v1")
        assert schema["collectionMethods"] == ["GET", "POST"]
        assert schema["resourceMethods"] == ["GET", "PUT", "PATCH", "DELETE"]
        assert schema["attributes"]["access"]["list"] == [{"namespace": "*", "resourceName": "*"}]
        _, root = await admin("GET", "/v1")
        assert root["links"]["pods"] == f"{HOST}/v1/pods"
        _, definition = await admin("GET", "/v1/schemaDefinitions/apps.deployment")
        assert definition["definitionType"] == "io.k8s.api.apps.v1.Deployment"
        assert "io.k8s.api.core.v1.Container" in definition["definitions"]
        assert client is not None


async def test_templates_change_schemas_resources_actions_and_stores() -> None:
    """Templates apply by id, by kind or to all types; the most specific store wins."""

    class Answers:
        async def get(self, target: Target) -> Any:
            return {"metadata": {"name": target.name}, "answer": 42}

        async def list(self, target: Target) -> Any:
            return [await self.get(replace(target, name=name)) for name in ("x", "y")]

        async def delete(self, target: Target) -> None:
            return None

    async def scale(target: Target, body: Any) -> Any:
        return {"name": target.name, **body}

    templates = (
        SchemaTemplate(formatter=lambda resource, target: {**resource, "by": target.user.name}),
        SchemaTemplate(id="configmap", customize=lambda s: replace(s, description="pairs"), actions={"scale": scale}),
        SchemaTemplate(group="", kind="Node", store=Answers()),  # type: ignore[arg-type]
    )
    async with steve(templates=templates) as (admin, ann, _client):
        assert (await admin("GET", "/v1/schemas/configmap"))[1]["description"] == "pairs"
        _, response = await admin("GET", "/v1/configmaps/n/a")
        assert (response["by"], response["actions"]) == (
            "admin",
            {"scale": f"{HOST}/v1/configmaps/n/a?action=scale"},
        )
        assert await admin("POST", "/v1/configmaps/n/a?action=scale", {"to": 3}) == (200, {"name": "a", "to": 3})
        assert (await ann("POST", "/v1/configmaps/n/a?action=scale", {}))[0] == 404
        assert (await admin("GET", "/v1/nodes/x"))[1]["answer"] == 42
        assert await admin.ids("/v1/nodes?sort=-id") == ["y", "x"]
        assert (await admin("DELETE", "/v1/nodes/x"))[0] == 204


async def test_a_name_that_cannot_stand_in_a_path_does_not_exist() -> None:
    """An invalid name in URL or body is a client error, and does not break the connection to the cluster."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, SteveApi(cluster) as api:
        admin = Caller(api, ADMIN)
        for path in ("default/..", "../a", "./.", "default/%2e", "default/a%2fb"):
            for method in ("GET", "DELETE"):
                assert (await admin(method, f"/v1/configmaps/{path}"))[0] == 404
        for namespace in ("..", ".", "a/b", {"a": 1}, ["default"], 7):
            status, body = await admin("POST", "/v1/configmaps", {"metadata": {"name": "a", "namespace": namespace}})
            assert (status, body["fieldName"]) == (422, "metadata.namespace")
