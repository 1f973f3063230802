"""Errors name the request that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from http_servers import Server, always, in_turn

from opsdk.api.core.v1 import ConfigMap, Node, Pod, Secret
from opsdk.api.policy.v1 import Eviction
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.errors import (
    ConnectError,
    ConnectionLostError,
    DeadlineError,
    DecodeError,
    InternalServerError,
    NotFoundError,
    OpsdkError,
    RequestInfo,
    TransportError,
)
from opsdk.rest.config import RestConfig
from opsdk.rest.frames import error_from_event
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
effects = pytest.importorskip("envtest.testing.effects")

KEY = ObjectKey("default", "site")
MAP = ConfigMap(metadata=ObjectMeta(name="site", namespace="default"))
GET = RestRequest("GET", "/a?token=s3cret", verb="get", resource="things", name="a")


async def _watch(client: Client) -> None:
    async with client.watch(ConfigMap, namespace="default"):
        pass


@pytest.mark.parametrize(
    ("call", "request_text"),
    [
        (lambda c: c.get(ConfigMap, KEY), "get configmaps default/site"),
        (lambda c: c.get(Node, "n"), "get nodes n"),
        (lambda c: c.list(ConfigMap), "list configmaps"),
        (lambda c: c.list(ConfigMap, namespace="default"), "list configmaps in default"),
        (lambda c: c.create(MAP), "create configmaps default/site"),
        (lambda c: c.update(MAP), "update configmaps default/site"),
        (lambda c: c.patch(MAP, merge_patch({"data": {"a": "b"}})), "patch configmaps default/site"),
        (lambda c: c.delete(MAP), "delete configmaps default/site"),
        (lambda c: c.delete_all_of(ConfigMap, namespace="default"), "deletecollection configmaps in default"),
        (_watch, "watch configmaps in default"),
    ],
)
async def test_an_error_of_the_server_names_its_request(
    call: Callable[[Client], Awaitable[object]], request_text: str
) -> None:
    """The text has verb, resource, key, status and reason; `message` is the server's text alone."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        await cluster.uncached.list(Node)  # discovery
        env.faults.add(effects.Fail(500))
        with pytest.raises(InternalServerError) as caught:
            await call(cluster.uncached)
        message = caught.value.message
        assert str(caught.value) == f"{request_text}: 500 InternalError: {message}"
        assert message == "Internal error occurred: injected"
        assert caught.value.request is not None
        assert caught.value.request.version == "v1"


async def test_a_subresource_is_part_of_the_resource() -> None:
    """The text of a failed eviction names ``pods/eviction`` and the pod."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        pod = Pod(metadata=ObjectMeta(name="p", namespace="default"))
        eviction = Eviction(metadata=ObjectMeta(name="p", namespace="default"))
        with pytest.raises(NotFoundError, match=r"^create pods/eviction default/p: 404 NotFound: "):
            await cluster.uncached.subresource("eviction").create(pod, body=eviction)


async def test_a_cached_read_says_that_the_cache_answered() -> None:
    """NotFound of a cached get has the request and its source."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        with pytest.raises(NotFoundError) as caught:
            await cluster.client.get(ConfigMap, KEY)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    text = 'get configmaps default/site (from the cache): 404 NotFound: configmaps "site" not found'
    assert str(caught.value) == text
    assert caught.value.request is not None
    assert caught.value.request.cached


async def test_no_secret_is_in_the_text() -> None:
    """An error's text, repr and fields have neither the body of a Secret nor a query."""
    secret = Secret(metadata=ObjectMeta(name="s", namespace="default"), string_data={"password": "s3cret"})
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        env.faults.add(effects.Fail(500), verb="create")
        with pytest.raises(InternalServerError) as caught:
            await cluster.uncached.create(secret)
    assert "s3cret" not in f"{caught.value} {caught.value!r} {caught.value.request!r} {vars(caught.value)}"


async def test_an_error_of_the_transport_names_its_request() -> None:
    """Refused, cut off, late and garbled responses: each text begins with the request, once."""
    cases: list[tuple[Server, type[OpsdkError]]] = [
        (Server(in_turn(None)), ConnectionLostError),
        (Server(always(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")), DeadlineError),
        (
            Server(always(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc")),
            DecodeError,
        ),
    ]
    for case, kind in cases:
        async with case as server, Transport(RestConfig(host=server.host)) as transport:
            with pytest.raises(kind) as caught:
                await transport.send(GET, timeout=5, retry=False)
        assert str(caught.value).startswith("get things a: ")
        assert str(caught.value).count("get things a") == 1
        assert "s3cret" not in str(caught.value)
    async with Transport(RestConfig(host="http://127.0.0.1:1")) as transport:
        with pytest.raises(ConnectError, match=r"^get things a: .*127\.0\.0\.1:1"):
            await transport.send(GET, retry=False)


async def test_a_broken_stream_names_its_request() -> None:
    """A connection that breaks, or stays silent, inside a stream is an error of the request that opened it."""
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"

    async def cut(_: object, writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        await writer.drain()
        writer.transport.abort()

    for handler, idle in ((cut, None), (always(begun), 3.0)):
        async with (
            Server(handler) as server,
            Transport(RestConfig(host=server.host)) as transport,
            transport.stream(GET, idle_timeout=idle, retry=False) as stream,
        ):
            assert await anext(stream) == b"abc"
            with pytest.raises(TransportError) as caught:
                await anext(stream)
        assert str(caught.value).startswith("get things a: ")


def test_an_error_event_of_a_watch_names_the_watch() -> None:
    """The Status inside an ERROR event becomes an error of the watch request."""
    info = RequestInfo(verb="watch", resource="pods")
    error = error_from_event(b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}', info)
    assert str(error) == "watch pods: 410 Expired: too old"


def test_an_error_without_a_request_keeps_its_text() -> None:
    """Errors that code raises by itself show their message."""
    assert str(NotFoundError("gone")) == "gone"
    assert str(NotFoundError()) == "NotFound"
    assert str(NotFoundError(request=RequestInfo(verb="get", path="/x"))) == "get /x: 404 NotFound"
