"""The server over real sockets: credentials, the API, WebSockets, and the API of the cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from stevekit import config_map, grant, rule, running_cluster
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

import envtest
from opsdk.client.client import Client
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.norman.steve.api import SteveApi
from opsdk.norman.steve.app import SteveApp, token_review

pytestmark = pytest.mark.realtime


@asynccontextmanager
async def served() -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient, Client]]:
    """HTTP clients of an admin and of ann, and the admin's client of the cluster."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, SteveApi(cluster) as api:
        app = SteveApp(api, token_review(cluster))
        async with WebServer(app.app, ServeOptions(port=0)) as server:
            users = (env.add_user("root", groups=["system:masters"]), env.add_user("ann"))
            admin, ann = (
                httpx.AsyncClient(
                    base_url=server.url, headers={"Authorization": f"Bearer {user.token}"}, trust_env=False
                )
                for user in users
            )
            async with admin, ann:
                yield admin, ann, cluster.uncached


async def test_requests_need_a_token_that_the_cluster_knows() -> None:
    """Without token, with a wrong one and with another scheme, everything is a 401 of the API."""
    async with served() as (admin, _, _client):
        for headers in ({"Authorization": ""}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
            for path in ("/v1/configmaps", "/v1/subscribe", "/api/v1/pods", "/version"):
                response = await admin.get(path, headers=headers)
                assert (response.status_code, response.json()["code"]) == (401, "Unauthorized")
        assert (await admin.get("/elsewhere")).status_code == 404


async def test_the_api_is_served_with_links_of_its_host() -> None:
    """Create, list with an encoded filter, and a forged forwarded host that changes no link."""
    async with served() as (admin, ann, client):
        body = {"metadata": {"name": "a", "namespace": "default"}, "data": {"x": "1"}}
        created = await admin.post("/v1/configmaps", json=body)
        assert (created.status_code, created.json()["id"]) == (201, "default/a")
        types = (await admin.get("/v1")).headers["x-api-schemas"]
        assert {"configmap", "pod"} <= {item["id"] for item in (await admin.get(types)).json()["data"]}
        page = await admin.get(
            "/v1/configmaps",
            params={"filter": "metadata.name in (a,b)", "pagesize": "1"},
            headers={"X-Forwarded-Host": "evil.example"},
        )
        assert page.json()["data"][0]["links"]["self"] == f"{admin.base_url}/v1/configmaps/default/a".replace(
            "//v1", "/v1"
        )
        assert "evil" not in page.text
        assert (await ann.get("/v1/configmaps")).status_code == 404
        await grant(client, "ann", rule("get", names=["a"]), namespace="default")
        async with asyncio.timeout(20):
            while (await ann.get("/v1/configmaps")).status_code != 200:
                await asyncio.sleep(0.01)
        assert [item["id"] for item in (await ann.get("/v1/configmaps")).json()["data"]] == ["default/a"]
        assert (await admin.delete("/v1/configmaps/default/a")).status_code == 204
        assert (await admin.post("/v1/configmaps", content=b"x" * (4 << 20))).status_code == 413


async def test_the_api_of_the_cluster_is_served_with_the_rights_of_the_user() -> None:
    """Status, body and errors are those of the cluster; headers cannot change the user; watches are streams."""
    async with served() as (admin, ann, client):
        await config_map(client, "default", "a")
        path = "/api/v1/namespaces/default/configmaps"
        assert (await admin.get(f"{path}/a")).json()["metadata"]["name"] == "a"
        forged = await ann.get(f"{path}/a", headers={"Impersonate-User": "root", "X-Remote-User": "root"})
        assert (forged.status_code, forged.json()["reason"]) == (403, "Forbidden")
        assert 'User "ann"' in forged.json()["message"]
        assert (await ann.get(path, params={"watch": "1"})).status_code == 403
        assert (await admin.get("/version")).json()["major"] == "1"
        async with admin.stream("GET", path, params={"watch": "true"}) as stream:
            lines = stream.aiter_lines()
            seen = json.loads(await anext(lines))
            assert seen["type"] == "ADDED"
        assert (await admin.get("/api/%2e%2e/%2e%2e/metrics")).status_code == 404
        created = await admin.post(path, json={"metadata": {"name": "b"}})
        assert created.status_code == 201


async def test_subscribe_is_a_web_socket() -> None:
    """Frames start and stop watches; a page of another origin is refused."""
    async with served() as (admin, _, client):
        url = f"{admin.base_url}/v1/subscribe".replace("http", "ws", 1)
        headers = {"Authorization": admin.headers["authorization"]}
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            await socket.send(json.dumps({"resourceType": "configmap", "namespace": "default"}))
            assert json.loads(await socket.recv())["name"] == "resource.start"
            await config_map(client, "default", "a")
            created = json.loads(await socket.recv())
            assert (created["name"], created["data"]["id"]) == ("resource.create", "default/a")
            await socket.send(json.dumps({"resourceType": "configmap", "namespace": "default", "stop": True}))
            assert json.loads(await socket.recv())["name"] == "resource.stop"
        with pytest.raises(InvalidStatus):
            async with connect(url, additional_headers={**headers, "Origin": "http://evil.example"}, proxy=None):
                pass
        assert (await admin.get("/v1/subscribe")).status_code == 422


async def test_a_browser_that_signed_in_uses_its_cookie() -> None:
    """The cookie of the login authenticates. Writes of a browser repeat the CSRF token, below every path."""
    async with served() as (admin, _, _client):
        token = admin.headers["authorization"].removeprefix("Bearer ")
        browser = {"User-Agent": "Mozilla/5.0", "Cookie": f"norman-token={token}"}
        async with httpx.AsyncClient(base_url=admin.base_url, headers=browser, trust_env=False) as page:
            first = await page.get("/v1/configmaps", params={"pagesize": "1"})
            assert first.status_code == 200
            csrf = first.cookies["CSRF"]
            page.cookies.clear()
            both = {"Cookie": f"{browser['Cookie']}; CSRF={csrf}"}
            objects = {"/v1/configmaps": "a", "/api/v1/namespaces/default/configmaps": "b"}
            for path, name in objects.items():
                body = {"metadata": {"name": name, "namespace": "default"}}
                for headers in ({}, both, {**both, "X-API-CSRF": "wrong"}, {**both, "Authorization": "Basic eDp5"}):
                    forged = await page.post(path, json=body, headers=headers)
                    assert (forged.status_code, forged.json()["code"]) == (422, "InvalidCSRFToken")
                created = await page.post(path, json=body, headers={**both, "X-API-CSRF": csrf})
                assert created.status_code == 201
                assert "set-cookie" not in created.headers
            bearer = await admin.delete("/v1/configmaps/default/a", headers={"User-Agent": "Mozilla/5.0"})
            assert bearer.status_code == 204
        wrong = await admin.get("/v1/configmaps", headers={"Authorization": "", "Cookie": "norman-token=wrong"})
        assert wrong.status_code == 401
