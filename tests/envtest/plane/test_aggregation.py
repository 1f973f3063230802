"""Aggregated servers in this process: proxying, conditions, documents."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from server_caller import MERGE, Answer, Caller

from envtest.controllers.client import InProcessClient
from envtest.environment import Environment
from opsdk.errors import ServiceUnavailableError
from opsdk.http.server.server import ServeOptions, Tls, WebServer
from opsdk.structured_merge.value import JsonObject
from tests.envtest.aggregated_server import APISERVICES, GROUP, ROOT, FarServer, api_service, until

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@asynccontextmanager
async def joined() -> AsyncIterator[tuple[Environment, Caller, FarServer]]:
    """An environment with a server in it that has joined."""
    far = FarServer()
    async with Environment() as env:
        call = Caller(env)
        await env.expose("far/server", app=far)
        assert (await call("POST", APISERVICES, api_service())).status == 201
        await until(env, call, "Passed")
        yield env, call, far


async def test_the_aggregated_server_gets_the_user_headers() -> None:
    """The aggregated server gets the user and the proxy's certificate, and no token or forged headers."""
    async with joined() as (env, _, far):
        far.pages[f"{ROOT}/namespaces/a/things"] = {"kind": "ThingList"}
        alice = env.add_user("alice", groups=["devs", "system:masters"])
        call = Caller(env, alice.token)
        answer = await call("GET", f"{ROOT}/namespaces/a/things?limit=5", x_remote_user="mallory", x_custom="yes")
        assert (answer.status, answer.json) == (200, {"kind": "ThingList"})
        headers = far.last(f"{ROOT}/namespaces/a/things")
        assert headers["x-remote-user"] == ["alice"]
        assert headers["x-remote-group"] == ["devs", "system:masters", "system:authenticated"]
        assert headers["x-custom"] == ["yes"]
        assert "authorization" not in headers
        assert headers["audit-id"] == [answer.headers["audit-id"]]
        assert far.certificates[-1]
        [record] = env.audit.select(user="alice")
        assert (record.resource, record.code, record.uri) == ("things", 200, f"{ROOT}/namespaces/a/things?limit=5")


async def test_authorization_stays_in_front() -> None:
    """A request without permission is rejected before it is forwarded."""
    async with joined() as (env, _, far):
        call = Caller(env, env.add_user("bob").token)
        before = len(far.asked)
        assert (await call("GET", f"{ROOT}/things")).status == 403
        assert len(far.asked) == before


async def test_methods_and_bodies_are_forwarded() -> None:
    """Method, body and content type are forwarded, and the response is returned."""
    async with joined() as (_, call, far):
        far.pages[f"{ROOT}/things/x"] = {"kind": "Thing"}
        answer = await call("PATCH", f"{ROOT}/things/x", {"a": 1}, content_type=MERGE)
        assert answer.json == {"kind": "Thing"}
        method, path, headers, body = far.asked[-1]
        assert (method, path, body) == ("PATCH", f"{ROOT}/things/x", b'{"a": 1}')
        assert headers["content-type"] == [MERGE]
        assert (await call("DELETE", f"{ROOT}/things/y")).status == 404


async def test_a_server_that_fails_is_stale_and_comes_back() -> None:
    """A group whose backend fails is unavailable (503), with a stale document, until the backend responds."""
    async with joined() as (env, call, far):
        far.up = False
        message = await until(env, call, "FailedDiscoveryCheck")
        url = f"https://server.far.svc:443{ROOT}"
        assert message["message"] == f"failing or missing response from {url}: bad status from {url}: 500"
        for path in (ROOT, f"{ROOT}/things", f"/openapi/v3{ROOT}"):
            answer = await call("GET", path)
            assert (answer.status, answer.raw) == (503, b"service unavailable\n")
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        [version] = await versions(call)
        assert (version["freshness"], version["resources"][0]["resource"]) == ("Stale", "things")
        far.up = True
        await until(env, call, "Passed")
        assert [v["freshness"] for v in await versions(call)] == ["Current"]
        assert (await call("GET", ROOT)).status == 200


async def versions(call: Caller) -> list[JsonObject]:
    """The versions of the group in aggregated discovery."""
    items = (await call("GET", "/apis", accept=AGGREGATED)).json["items"]
    return next((item["versions"] for item in items if item["metadata"]["name"] == GROUP), [])


async def test_discovery_knows_the_other_server() -> None:
    """The group of the backend is in all discovery documents, with its resources."""
    async with joined() as (_, call, _):
        group = (await call("GET", f"/apis/{GROUP}")).json
        assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
        assert GROUP in [g["name"] for g in (await call("GET", "/apis")).json["groups"]]
        [version] = await versions(call)
        [things] = version["resources"]
        assert (things["resource"], things["scope"], things["singularResource"]) == ("things", "Namespaced", "thing")
        assert [s["subresource"] for s in things["subresources"]] == ["status"]
        assert ROOT in (await call("GET", "/")).json["paths"]


async def test_openapi_knows_the_other_server() -> None:
    """OpenAPI v3 of the backend is indexed and proxied; v2 includes only its API paths."""
    async with joined() as (_, call, _):
        index = (await call("GET", "/openapi/v3")).json["paths"]
        assert index[ROOT[1:]] == {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=ABC"}
        assert (await call("GET", f"/openapi/v3{ROOT}?hash=ABC")).json == {"openapi": "3.0.0", "paths": {}}
        swagger = (await call("GET", "/openapi/v2")).json
        assert f"{ROOT}/things" in swagger["paths"]
        assert "Thing" in swagger["definitions"]
        assert "Unused" not in swagger["definitions"]


async def test_a_deleted_api_service_removes_its_group() -> None:
    """After the APIService is deleted, its group version is 404 and absent from discovery."""
    async with joined() as (_, call, far):
        await call("DELETE", f"{APISERVICES}/v1.{GROUP}")
        before = len(far.asked)
        assert (await call("GET", ROOT)).status == 404
        assert (await call("GET", f"{ROOT}/things")).raw == b"404 page not found\n"
        assert await versions(call) == []
        assert len(far.asked) == before


async def test_nothing_runs_without_other_servers() -> None:
    """Only remote APIServices have a task, which ends with them."""
    async with joined() as (env, call, _):
        assert "v1.far.example.com" in repr(env.plane.aggregator)
        await call("DELETE", f"{APISERVICES}/v1.{GROUP}")
        await asyncio.sleep(1)
        assert "nothing" in repr(env.plane.aggregator)


SERVICE = {"metadata": {"name": "server"}, "spec": {"ports": [{"port": 443, "name": "https"}]}}


async def test_availability_reasons_follow_the_checks() -> None:
    """Availability reports the first failing check: Service, port, slices, addresses, discovery."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", APISERVICES, api_service())
        assert (await until(env, call, "ServiceNotFound"))["message"] == 'service/server in "far" is not present'
        await call("POST", "/api/v1/namespaces", {"metadata": {"name": "far"}})
        services = "/api/v1/namespaces/far/services"
        await call("POST", services, {**SERVICE, "spec": {"ports": [{"port": 80, "name": "https"}]}})
        message = await until(env, call, "ServicePortError")
        assert message["message"] == 'service/server in "far" is not listening on port 443'
        change = {"spec": {"ports": [{"port": 443, "name": "https"}]}}
        await call("PATCH", f"{services}/server", change, content_type=MERGE)
        message = await until(env, call, "EndpointsNotFound")
        assert message["message"] == 'cannot find endpointslices for service/server in "far"'
        part = {
            "metadata": {"name": "server-1", "labels": {"kubernetes.io/service-name": "server"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.1.1"], "conditions": {"ready": False}}],
            "ports": [{"name": "https", "port": 1}],
        }
        slices = "/apis/discovery.k8s.io/v1/namespaces/far/endpointslices"
        assert (await call("POST", slices, part)).status == 201
        message = await until(env, call, "MissingEndpoints")
        assert (
            message["message"] == 'endpointslices for service/server in "far" have no addresses with port name "https"'
        )
        owners = (await call("GET", f"{APISERVICES}/v1.{GROUP}")).json["metadata"]["managedFields"]
        assert ("kube-apiserver", "status") in [(o["manager"], o.get("subresource")) for o in owners]


@pytest.mark.parametrize("spec", [{"caBundle": "AAAA", "insecureSkipTLSVerify": None}])
async def test_a_bad_bundle_is_reported(spec: JsonObject) -> None:
    """Unreadable certificates of an APIService are a failed check."""
    async with Environment() as env:
        call = Caller(env)
        await env.expose("far/server", port=1)
        await call("POST", APISERVICES, api_service(**spec))
        message = await until(env, call, "FailedDiscoveryCheck")
        assert "unable to load root certificates: unable to parse bytes as PEM block" in message["message"]


async def test_a_fork_forwards_to_the_same_server() -> None:
    """A forked environment forwards to the same aggregated server."""
    async with joined() as (env, _, far):
        far.pages[f"{ROOT}/things"] = {"kind": "ThingList"}
        async with env.fork() as other:
            result: Answer = await Caller(other)("GET", f"{ROOT}/things")
            assert result.json == {"kind": "ThingList"}


@pytest.mark.realtime
async def test_a_missing_server_is_reported_in_plain_text(tmp_path: Path) -> None:
    """The first request reports the failure; the condition follows at once, and later requests are not tried."""
    far = FarServer()
    async with Environment() as env, WebServer(far, ServeOptions(tls=serving(env, tmp_path))) as web:
        call = Caller(env)
        await env.expose("far/server", port=web.port)
        bundle = base64.b64encode(env.authority.pair.cert).decode()
        await call("POST", APISERVICES, api_service(caBundle=bundle, insecureSkipTLSVerify=None))
        await until(env, call, "Passed")
        assert (await call("GET", ROOT)).status == 200
        where = f"127.0.0.1:{web.port}"
        await web.aclose()
        answer = await call("GET", f"{ROOT}/things")
        reason = f"error trying to reach service: dial tcp {where}: connect: connection refused\n"
        assert (answer.status, answer.raw.decode()) == (503, reason)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        message = await until(env, call, "FailedDiscoveryCheck")
        refused = f"dial tcp {where}: connect: connection refused"
        url = f"https://{where}{ROOT}"
        assert message["message"] == f'failing or missing response from {url}: Get "{url}": {refused}'


@pytest.mark.realtime
async def test_an_untrusted_serving_certificate_is_refused(tmp_path: Path) -> None:
    """The caBundle and the server's name are verified unless insecureSkipTLSVerify is set."""
    far = FarServer()
    async with Environment() as env, WebServer(far, ServeOptions(tls=serving(env, tmp_path))) as web:
        call = Caller(env)
        await env.expose("far/server", port=web.port)
        other = base64.b64encode(env.proxies.pair.cert).decode()
        await call("POST", APISERVICES, api_service(caBundle=other, insecureSkipTLSVerify=None))
        message = await until(env, call, "FailedDiscoveryCheck")
        assert "tls: failed to verify certificate: x509: certificate signed by unknown authority" in message["message"]
        change = {"spec": {"caBundle": None, "insecureSkipTLSVerify": True}}
        await call("PATCH", f"{APISERVICES}/v1.{GROUP}", change, content_type=MERGE)
        await until(env, call, "Passed")


def serving(env: Environment, folder: Path) -> Tls:
    """Certificates for the Service."""
    cert, key = env.authority.serving("server.far.svc").write(folder, "tls")
    return Tls(cert_file=cert, key_file=key)


async def test_in_process_clients_reach_aggregated_servers() -> None:
    """An in-process client gets objects of an aggregated server, and an error if it is unreachable."""
    async with joined() as (env, _, far):
        far.pages[f"{ROOT}/things"] = {"kind": "ThingList", "items": []}
        api = InProcessClient(env.server, token=env.config.token or "", manager="tests", version="v1")
        assert (await api.send("GET", f"{ROOT}/things"))["kind"] == "ThingList"
        env.plane.webhook_client.apps.clear()
        with pytest.raises(ServiceUnavailableError, match="error trying to reach service"):
            await api.send("GET", f"{ROOT}/things")
