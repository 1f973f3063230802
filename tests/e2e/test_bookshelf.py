"""The sample extension server as a process of its own, behind the API server, over real TLS, with the real kubectl."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from envtest.plane.certificates import Authority

ROOT = Path(__file__).resolve().parents[2]
NAME = "v1.shelf.opsdk.dev"
pytestmark = [pytest.mark.e2e, pytest.mark.realtime]


class Library:
    """The server of books, which can be killed and started again on the same port and data."""

    def __init__(self, stage: Any) -> None:
        self._stage = stage
        self.authority = Authority.load_or_create(None)
        self._cert, self._key = self.authority.serving("bookshelf.default.svc").write(stage.folder, "books")
        self.port = 0

    async def start(self) -> Any:
        files = ["--tls-cert-file", str(self._cert), "--tls-private-key-file", str(self._key)]
        where = ["--port", str(self.port), "--data-dir", str(self._stage.folder / "books")]
        kubeconfig = ["--kubeconfig", str(self._stage.kubeconfig)]
        program = await self._stage.start("bookshelf", "bookshelf", *kubeconfig, *where, *files)
        line = (await asyncio.wait_for(program.process.stdout.readline(), 60)).decode()
        assert line.startswith("ready https://"), line + program.said()
        self.port = int(line.strip().rpartition(":")[2])
        return program

    def manifest(self) -> str:
        """The sample's own, with the certificates checked."""
        text = (ROOT / "samples/bookshelf/manifests/apiservice.yaml").read_text()
        bundle = base64.b64encode(self.authority.pair.cert).decode()
        text = text.replace("insecureSkipTLSVerify: true", f"caBundle: {bundle}")
        return text.replace("port: 4443", f"port: {self.port}")


def book(name: str, title: str) -> str:
    """A manifest."""
    spec = {"metadata": {"name": name}, "spec": {"title": title}}
    return json.dumps({"apiVersion": "shelf.opsdk.dev/v1", "kind": "Book", **spec})


async def until_available(stage: Any, status: str) -> None:
    """Wait for the condition of the APIService."""
    await stage.kubectl("wait", f"--for=condition=Available={status}", f"apiservice/{NAME}", "--timeout=60s")


@pytest.mark.slow
async def test_kubectl_works_with_a_server_behind_the_server(stage: Any) -> None:
    """Every verb, tables, discovery and documentation go through; users are known behind by name."""
    try:
        await stage.server()
        library = Library(stage)
        await library.start()
        await stage.kubectl("apply", "-f", "-", stdin=library.manifest())
        await until_available(stage, "True")
        row = (await stage.kubectl("get", "apiservice", NAME)).splitlines()[1].split()
        assert row[:3] == [NAME, "default/bookshelf", "True"]

        await stage.kubectl("create", "-f", "-", stdin=book("walden", "Walden"))
        await stage.kubectl("apply", "--server-side", "-f", "-", stdin=book("emma", "Emma"))
        watching = await stage.follow("get", "books", "--watch", "-o", "name")
        await stage.kubectl("patch", "bk", "walden", "--type=merge", "-p", '{"spec":{"pages":352}}')
        lines = (await stage.kubectl("get", "books")).splitlines()
        assert lines[0].split() == ["NAME", "TITLE", "AUTHOR", "PAGES", "CREATED", "AT"]
        assert [line.split()[:4] for line in lines[1:]] == [
            ["emma", "Emma", "unknown", "1"],
            ["walden", "Walden", "unknown", "352"],
        ]
        resources = await stage.kubectl("api-resources", "--api-group=shelf.opsdk.dev")
        assert resources.splitlines()[1].split() == ["books", "bk", "shelf.opsdk.dev/v1", "true", "Book"]
        assert "The title on the cover." in await stage.kubectl("explain", "book.spec.title")

        await stage.kubectl("create", "clusterrole", "reader", "--verb=create,get", "--resource=books.shelf.opsdk.dev")
        await stage.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=alice")
        await stage.kubectl("create", "--as=alice", "-f", "-", stdin=book("hers", "Persuasion"))
        assert "shelf.opsdk.dev/added-by: alice" in await stage.kubectl("get", "book", "hers", "-o", "yaml")
        refused = await stage.kubectl("delete", "book", "hers", "--as=alice", check=False)
        assert 'User "alice" cannot delete resource "books" in API group "shelf.opsdk.dev"' in refused
        wrong = await stage.kubectl("create", "-f", "-", stdin=book("none", ""), check=False)
        assert "spec.title in body should be at least 1 chars long" in wrong
        assert "deleted" in await stage.kubectl("delete", "book", "emma")
        await until_said(watching, "book.shelf.opsdk.dev/hers")
    finally:
        await stage.close()


async def until_said(program: Any, text: str) -> None:
    """Wait until a program has printed something."""
    async with asyncio.timeout(30):
        while text not in program.said():
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_server_that_dies_is_missed_and_comes_back(stage: Any) -> None:
    """Killed, it is unavailable and requests get 503; started again, its books are there."""
    try:
        await stage.server()
        library = Library(stage)
        program = await library.start()
        await stage.kubectl("apply", "-f", "-", stdin=library.manifest())
        await until_available(stage, "True")
        await stage.kubectl("create", "-f", "-", stdin=book("walden", "Walden"))
        await program.kill()
        raw = "/apis/shelf.opsdk.dev/v1/namespaces/default/books"
        unable = "(ServiceUnavailable): the server is currently unable to handle the request"
        assert unable in await stage.kubectl("get", "--raw", raw, check=False)
        await until_available(stage, "False")
        assert "False (FailedDiscoveryCheck)" in await stage.kubectl("get", "apiservice", NAME)
        assert unable in await stage.kubectl("get", "--raw", raw, check=False)
        assert "configmap/" in await stage.kubectl("get", "configmaps", "-A", "-o", "name")
        await library.start()
        await until_available(stage, "True")
        assert await stage.kubectl("get", "books", "-o", "name") == "book.shelf.opsdk.dev/walden\n"
    finally:
        await stage.close()
