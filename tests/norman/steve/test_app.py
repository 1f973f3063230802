"""The server over real sockets: credentials, the API, WebSockets, and the API of the cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from stevekit import config_map, grant, rule, running_cluster
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

import envtest
from envtest.groups.core.rest.responders import Proxied
from opsdk.api.core.v1 import Container, Pod, PodSpec
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.client.client import Client
from opsdk.errors import OpsdkError
from opsdk.http.server.request import HttpRequest, Query
from opsdk.http.server.response import HttpResponse, StreamResponse
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.norman.steve.api import SteveApi
from opsdk.norman.steve.app import SteveApp
from opsdk.norman.tokens import token_review
from opsdk.structured_merge.value import JsonObject

pytestmark = pytest.mark.realtime


@asynccontextmanager
async def served(
    proxied: Proxied | None = None, **options: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient, Client]]:
    """HTTP clients of an admin and of ann, and the admin's client of the cluster."""
    async with envtest.Environment() as env, running_cluster(env) as cluster, SteveApi(cluster) as api:
        env.responders.proxied = proxied
        app = SteveApp(api, token_review(cluster.uncached), **options)
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


async def pod(client: Client, name: str) -> None:
    """Create a Pod."""
    spec = PodSpec(containers=[Container(name="web", image="web")])
    await client.create(Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))


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
        assert (await admin.post("/v1/configmaps", content=b"x" * (4 << 20))).status_code == 422
        yaml = {"Content-Type": "application/yaml"}
        body = b"metadata: {name: e, namespace: default}\ndata:\n  x: '2'\n"
        assert (await admin.post("/v1/configmaps", content=body, headers=yaml)).json()["data"] == {"x": "2"}
        for broken in (b"- a", b"a: [", b"a: &a [*a]"):
            refused = await admin.post("/v1/configmaps", content=broken, headers=yaml)
            assert (refused.status_code, refused.json()["code"]) == (422, "InvalidBodyContent")


async def test_the_api_of_the_cluster_is_served_with_the_permissions_of_the_user() -> None:
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
            received = json.loads(await anext(lines))
            assert received["type"] == "ADDED"
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
    """The cookie of the login authenticates. Writes of a browser repeat the CSRF token."""
    async with served() as (admin, _, _client):
        token = admin.headers["authorization"].removeprefix("Bearer ")
        browser = {"User-Agent": "Mozilla/5.0", "Cookie": f"norman-token={token}"}
        async with httpx.AsyncClient(base_url=admin.base_url, headers=browser, trust_env=False) as page:
            first = await page.get("/v1/configmaps", params={"pagesize": "1"})
            assert first.status_code == 200
            csrf = first.cookies["CSRF"]
            page.cookies.clear()
            both = {"Cookie": f"{browser['Cookie']}; CSRF={csrf}"}
            body = {"metadata": {"name": "a", "namespace": "default"}}
            for headers in ({}, both, {**both, "X-API-CSRF": "wrong"}, {**both, "Authorization": "Basic eDp5"}):
                forged = await page.post("/v1/configmaps", json=body, headers=headers)
                assert (forged.status_code, forged.json()["code"]) == (422, "InvalidCSRFToken")
            created = await page.post("/v1/configmaps", json=body, headers={**both, "X-API-CSRF": csrf})
            assert created.status_code == 201
            assert "set-cookie" not in created.headers
            bearer = await admin.delete("/v1/configmaps/default/a", headers={"User-Agent": "Mozilla/5.0"})
            assert bearer.status_code == 204
        wrong = await admin.get("/v1/configmaps", headers={"Authorization": "", "Cookie": "norman-token=wrong"})
        assert wrong.status_code == 401


async def test_a_pod_that_is_opened_in_a_browser_has_no_power_over_the_api() -> None:
    """No cookie counts where Pods answer, whatever the browser repeats; what they send is a sandboxed file."""

    def hostile(_: JsonObject, path: str, request: HttpRequest) -> HttpResponse:
        headers = [("content-type", "text/html"), ("set-cookie", "norman-token=evil; Path=/"), ("refresh", "0; url=/")]
        return HttpResponse(404 if path == "missing" else 200, headers, b"<script>alert(1)</script>")

    async with served(hostile) as (admin, _, client):
        await pod(client, "shop")
        path = "/api/v1/namespaces/default/pods/shop/proxy/"
        token = admin.headers["authorization"].removeprefix("Bearer ")
        for name in ("norman-token", "__Host-norman-token"):
            cookies = {"Authorization": "", "Cookie": f"{name}={token}", "User-Agent": "Mozilla/5.0"}
            for below in (path, "/version", "/openapi/v3", "/apis"):
                refused = await admin.get(below, headers=cookies)
                assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
        for page, status in ((path, 200), (f"{path}missing", 404), (f"{path}?follow=1", 200)):
            opened = await admin.get(page)
            assert (opened.status_code, opened.text) == (status, "<script>alert(1)</script>")
            assert opened.headers["content-security-policy"] == "sandbox"
            assert opened.headers["content-disposition"] == "attachment"
            assert opened.headers["x-content-type-options"] == "nosniff"
            assert opened.headers["cache-control"] == "no-store"
            assert not {"set-cookie", "refresh"} & set(opened.headers)


async def test_a_long_response_of_the_cluster_is_sent_as_it_arrives() -> None:
    """The proxy holds a piece of it, not the whole; the source waits for the client."""
    sent, total, piece = 0, 1000, b"x" * (1 << 20)

    def endless(_: JsonObject, path: str, request: HttpRequest) -> HttpResponse:
        async def chunks() -> AsyncGenerator[bytes, None]:
            nonlocal sent
            for _ in range(total):
                sent += 1
                yield piece

        return StreamResponse(200, [("content-type", "text/plain")], chunks=chunks())

    async with served(endless) as (admin, _, client):
        await pod(client, "big")
        async with admin.stream("GET", "/api/v1/namespaces/default/pods/big/proxy/") as stream:
            assert len(await anext(stream.aiter_raw())) > 0
            assert sent < total


async def test_a_user_has_a_limit_of_open_watches() -> None:
    """Subscriptions, watches and followed logs are counted together; one that ends makes room."""
    async with served(max_subscriptions=2) as (admin, _, _client):
        url = f"{admin.base_url}/v1/subscribe".replace("http", "ws", 1)
        headers = {"Authorization": admin.headers["authorization"]}
        watch = "/api/v1/namespaces/default/configmaps"
        async with connect(url, additional_headers=headers, proxy=None):
            async with admin.stream("GET", watch, params={"watch": "1"}) as stream:
                assert stream.status_code == 200
                with pytest.raises(InvalidStatus) as refused:
                    await connect(url, additional_headers=headers, proxy=None)
                assert refused.value.response.status_code == 429
                assert (await admin.get(watch, params={"watch": "1"})).status_code == 429
                assert (await admin.get(watch)).status_code == 200
            async with asyncio.timeout(20):
                while True:
                    async with admin.stream("GET", watch, params={"watch": "1"}) as stream:
                        if stream.status_code == 200:
                            break


async def test_an_unexpected_error_tells_the_client_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error is in the log, but not in the response."""

    async def authenticate(request: HttpRequest) -> None:
        raise KeyError("secret")

    async with envtest.Environment() as env, running_cluster(env) as cluster, SteveApi(cluster) as api:
        request = HttpRequest("GET", "/v1/pods", Query(), {"host": "x"}, receive=asyncio.Event().wait)  # type: ignore[arg-type]
        response = await SteveApp(api, authenticate).handle(request)
    assert (response.status, b"secret" in response.body, b"KeyError" in response.body) == (500, False, False)
    assert "secret" in caplog.text


async def test_subscriptions_work_behind_any_asgi_server() -> None:
    """Subscriptions work behind servers that pass WebSocket messages, such as uvicorn."""
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def send(message: Any) -> None:
        sent.put_nowait(dict(message))

    async with envtest.Environment() as env, running_cluster(env) as cluster, SteveApi(cluster) as api:
        app = SteveApp(api, token_review(cluster.uncached)).app
        token = env.add_user("root", groups=["system:masters"]).token
        headers = [(b"host", b"steve"), (b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "websocket", "path": "/v1/subscribe", "scheme": "ws", "headers": headers, "query_string": b""}
        incoming.put_nowait({"type": "websocket.connect"})
        incoming.put_nowait({"type": "websocket.receive", "text": '{"resourceType": "configmap"}'})
        running = asyncio.create_task(app(scope, incoming.get, send))
        assert (await sent.get())["type"] == "websocket.accept"
        assert json.loads((await sent.get())["text"]) == {"name": "resource.start", "resourceType": "configmap"}
        await config_map(cluster.uncached, "default", "a")
        created = json.loads((await sent.get())["text"])
        assert (created["name"], created["data"]["id"]) == ("resource.create", "default/a")
        incoming.put_nowait({"type": "websocket.disconnect", "code": 1001})
        await running


async def test_a_body_to_the_cluster_is_sent_as_it_arrives() -> None:
    """A slow upload reaches the cluster piece by piece; a client that leaves ends the cluster's request."""
    received, ended = asyncio.Queue[bytes](), asyncio.Event()

    async def read(request: HttpRequest) -> HttpResponse:
        try:
            async for chunk in request.chunks():
                if chunk:
                    received.put_nowait(chunk)
        except OpsdkError:
            ended.set()
            raise
        return HttpResponse(200)

    def proxied(_: JsonObject, path: str, request: HttpRequest) -> Awaitable[HttpResponse]:
        return read(request)

    async def chunks() -> AsyncGenerator[bytes, None]:
        for number in range(10):
            yield b"%d" % number
            assert await received.get() == b"%d" % number
        if leaves:
            raise ConnectionError("the test's client has left")

    async with served(proxied) as (admin, _, client):
        await pod(client, "store")
        path = "/api/v1/namespaces/default/pods/store/proxy/"
        async with asyncio.timeout(30):
            leaves = False
            assert (await admin.put(path, content=chunks())).status_code == 200
            leaves = True
            with pytest.raises(ConnectionError):
                await admin.put(path, content=chunks())
            await ended.wait()
            large = b"x" * (5 << 20)
            assert (await admin.put(path, content=large)).status_code == 200
            refused = await admin.post("/api/v1/namespaces/default/configmaps", content=large)
            assert (refused.status_code, refused.json()["reason"]) == (413, "RequestEntityTooLarge")
