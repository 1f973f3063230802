"""Two replicas of the bookshelf server on one etcd, behind one API server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from etcd_cluster import EtcdCluster, free_port
from server_caller import Caller

from bookshelf.__main__ import argument_parser, open_storage
from bookshelf.api import GROUP
from bookshelf.server import make_server
from envtest.environment import Environment
from opsdk.api.apiregistration.v1 import APIService
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.object import Unstructured
from opsdk.apiserver.auth.authentication_config import NAME, NAMESPACE, ClientAuthenticationConfig
from opsdk.apiserver.storage.etcd.options import EtcdOptions
from opsdk.apiserver.storage.etcd.storage import EtcdStorage
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConnectError
from opsdk.http.server.request import HttpRequest, Query

pytestmark = pytest.mark.realtime
BOOKS = f"/apis/{GROUP}/v1/namespaces/default/books"
FLAGS = ["--tls-cert-file=a", "--tls-private-key-file=b"]
_NUMBERS = itertools.count()
_PATIENCE = 20.0


class Library:
    """The server in front, which sends requests to the replica with the index `turn`."""

    def __init__(self, env: Environment) -> None:
        self.call = Caller(env)
        self.turn = 0
        self.replicas: list[Any] = []

    async def forward(self, scope: Any, receive: Any, send: Any) -> None:
        """To the replica in turn."""
        await self.replicas[self.turn].app(scope, receive, send)

    async def watch(self, query: str, count: int) -> list[tuple[str, str]]:
        """The first events of a watch: type and name."""
        async with asyncio.timeout(_PATIENCE), self.call.watch(f"{BOOKS}?watch=1&{query}") as events:
            events_read = [await events.get() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events_read]


def api_service() -> Unstructured:
    """The registration of the group."""
    spec = {
        "group": GROUP,
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "default", "name": "bookshelf"},
    }
    kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    return Unstructured.from_tree({**kind, "metadata": {"name": f"v1.{GROUP}"}, "spec": spec})


@asynccontextmanager
async def library(etcd: EtcdCluster) -> AsyncIterator[Library]:
    """Two replicas with connections of their own."""
    options = EtcdOptions(endpoints=etcd.urls, prefix=f"/shelf-{next(_NUMBERS)}/", compaction_interval=0, page_limit=2)
    async with AsyncExitStack() as stack:
        env = await stack.enter_async_context(Environment())
        front = await stack.enter_async_context(Cluster(env.config))
        shelf = Library(env)
        await env.expose("default/bookshelf", app=shelf.forward)
        trust = ClientAuthenticationConfig.of((await front.uncached.get(ConfigMap, f"{NAMESPACE}/{NAME}")).data)
        for _ in range(2):
            storage = await stack.enter_async_context(EtcdStorage(options))
            shelf.replicas.append(make_server(storage, trust, front.uncached))
        await front.uncached.create(api_service())

        async def available() -> None:
            service = await front.uncached.get(APIService, f"v1.{GROUP}")
            assert [condition.reason for condition in service.status.conditions] == ["Passed"]

        await env.eventually(available)
        yield shelf


def book(name: str, title: str = "Walden") -> dict[str, object]:
    """A book."""
    return {"metadata": {"name": name}, "spec": {"title": title}}


async def test_replicas_share_their_state(etcd: EtcdCluster) -> None:
    """A write to one replica is at once read, listed and watched through the other."""
    async with library(etcd) as shelf:
        created = (await shelf.call("POST", BOOKS, book("walden"))).json
        shelf.turn = 1
        assert (await shelf.call("GET", f"{BOOKS}/walden")).json == created
        start = created["metadata"]["resourceVersion"]
        watching = asyncio.ensure_future(shelf.watch(f"resourceVersion={start}&timeoutSeconds=30", 4))
        await asyncio.sleep(0)
        shelf.turn = 0
        for name in ("emma", "ivanhoe"):
            assert (await shelf.call("POST", BOOKS, book(name))).status == 201
        again = await shelf.call("POST", BOOKS, book("walden"))
        assert (again.status, again.json["reason"]) == (409, "AlreadyExists")
        stale = {**created, "spec": {"title": "Old"}}
        assert (await shelf.call("PUT", f"{BOOKS}/walden", {**created, "spec": {"title": "New"}})).status == 200
        shelf.turn = 1
        assert (await shelf.call("PUT", f"{BOOKS}/walden", stale)).status == 409
        page = (await shelf.call("GET", f"{BOOKS}?limit=2")).json
        assert page["metadata"]["remainingItemCount"] == 1
        shelf.turn = 0
        assert (await shelf.call("DELETE", f"{BOOKS}/emma")).status == 200
        rest = (await shelf.call("GET", f"{BOOKS}?limit=2&continue={page['metadata']['continue']}")).json
        names = [item["metadata"]["name"] for item in (*page["items"], *rest["items"])]
        assert names == ["emma", "ivanhoe", "walden"]
        assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
        assert await watching == [
            ("ADDED", "emma"),
            ("ADDED", "ivanhoe"),
            ("MODIFIED", "walden"),
            ("DELETED", "emma"),
        ]


@pytest.mark.slow
async def test_a_revision_of_another_replica_is_known(etcd: EtcdCluster) -> None:
    """A read not older than another replica's write is served; future revisions time out, old ones expire."""
    async with library(etcd) as shelf:
        revision = int((await shelf.call("POST", BOOKS, book("walden"))).json["metadata"]["resourceVersion"])
        shelf.turn = 1
        fresh = await shelf.call("GET", f"{BOOKS}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan")
        assert len(fresh.json["items"]) == 1
        late = await shelf.call("GET", f"{BOOKS}?resourceVersion={revision + 10**6}")
        assert (late.status, late.json["reason"], late.json["details"]["retryAfterSeconds"]) == (504, "Timeout", 1)
        initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=30"
        assert await shelf.watch(initial, 2) == [("ADDED", "walden"), ("BOOKMARK", "")]


async def test_the_sample_keeps_its_books_in_etcd(etcd: EtcdCluster) -> None:
    """With ``--etcd-servers``, a second start finds the books of the first."""
    prefix = f"--etcd-prefix=/sample-{next(_NUMBERS)}/"
    arguments = argument_parser().parse_args([*FLAGS, prefix, f"--etcd-servers={','.join(etcd.urls)}"])
    async with open_storage(arguments) as storage:
        await storage.create(f"{GROUP}/books/default/walden", book("walden"))
    async with open_storage(arguments) as storage:
        assert (await storage.get(f"{GROUP}/books/default/walden"))["spec"]["title"] == "Walden"


@pytest.mark.slow
async def test_the_sample_names_an_etcd_that_is_down() -> None:
    """The sample ends after its retries with an error that names the endpoint and what to check."""
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectError, match=f"cannot read from etcd at {url}.*check that"):
        async with open_storage(argument_parser().parse_args([*FLAGS, f"--etcd-servers={url}"])):
            pass


async def test_readiness_says_that_etcd_fails(etcd: EtcdCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is not ready while its storage is not, with the reason."""
    async with library(etcd) as shelf:
        path = f"/apis/{GROUP}/v1"
        assert (await shelf.call("GET", path)).status == 200
        ready = await shelf.replicas[0].respond(HttpRequest("GET", "/readyz", Query(), {}, receive=unread))
        assert ready.status == 200
        monkeypatch.setattr(EtcdStorage, "failure", "etcd is full")
        failing = await shelf.replicas[0].respond(HttpRequest("GET", "/readyz", Query(), {}, receive=unread))
        assert failing.status == 500
        assert b"[-]storage failed: etcd is full" in failing.body


async def unread() -> dict[str, Any]:
    """A request without a body."""
    return {"type": "http.request", "body": b"", "more_body": False}
