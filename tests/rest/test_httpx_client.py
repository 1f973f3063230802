"""httpx clients over the SDK's transport."""

from __future__ import annotations

import gzip
import subprocess
import sys

import httpx
import pytest
from http_servers import Server, always, answer

from opsdk.cluster.cluster import Cluster
from opsdk.errors import UsageError
from opsdk.rest.config import RestConfig
from opsdk.rest.httpx_client import httpx_client
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport


async def test_httpx_clients_share_the_pool() -> None:
    """An httpx client of this transport has its address, credentials and connections, and no other server."""
    async with Server(always(answer(body=gzip.compress(b"hi"), Content_Encoding="gzip"))) as server:
        async with Transport(RestConfig(host=f"{server.host}/base", token="t")) as transport:
            async with httpx_client(transport) as client:
                response = await client.post("/x", params={"q": "1"}, json={"a": 1})
                assert (response.status_code, response.text) == (200, "hi")
                with pytest.raises(UsageError, match="to that server only"):
                    await client.get("http://elsewhere/")
                with pytest.raises(UsageError, match="outside"):
                    await client.get(httpx.URL(server.host + "/other"))
            await transport.send(RestRequest("GET", "/a"))
        assert server.accepted == 1
        assert (server.seen[0].target, server.seen[0].body) == ("/base/x?q=1", b'{"a":1}')
        assert server.seen[0].header("authorization") == "Bearer t"


async def test_a_cluster_has_an_http_client_of_its_own() -> None:
    """The HTTP client of a cluster sends its credentials, and closes with it."""
    async with Server(always(answer(body=b"hi"))) as server:
        async with Cluster(RestConfig(host=server.host, token="t")) as cluster:
            client = cluster.http
            assert (await client.get("/x")).text == "hi"
        assert client.is_closed
        assert server.seen[0].header("authorization") == "Bearer t"


def test_httpx_is_imported_on_first_use() -> None:
    """Clients and clusters do not import httpx."""
    code = "import sys; from opsdk import Client, Cluster, Operator; print('httpx' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
