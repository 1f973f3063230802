"""Raw aiohttp: no model, no checks; the floor for requests, and the watch that shows the server's own delivery."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from benchmarks.clients.loop import Follower
from benchmarks.clients.peer import run_requests
from benchmarks.objects import GROUP, PLURAL, VERSION, config_map
from benchmarks.protocol import Meter, Options, Sample, run_client, send

_MERGE = {"content-type": "application/merge-patch+json"}
_JSON = {"content-type": "application/json"}


def read_kubeconfig(path: str) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Return the server of the current context, its TLS settings and headers with a token if there is one."""
    tree = yaml.safe_load(Path(path).read_text())
    context = next(c["context"] for c in tree["contexts"] if c["name"] == tree["current-context"])
    cluster = next(c["cluster"] for c in tree["clusters"] if c["name"] == context["cluster"])
    user = next(u["user"] for u in tree["users"] if u["name"] == context["user"])
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    if "client-certificate-data" in user:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / "certificate", Path(folder) / "key"]
            for file, name in zip(files, ("client-certificate-data", "client-key-data"), strict=True):
                file.write_bytes(base64.b64decode(user[name]))
            tls.load_cert_chain(files[0], files[1])
    headers = {"authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return cluster["server"], tls, headers


class Aiohttp:
    """Requests with dicts."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._namespace = options["namespace"]

    async def connect(self) -> None:
        """Open a session."""
        server, tls, headers = read_kubeconfig(self._options["kubeconfig"])
        self.session = aiohttp.ClientSession(
            server, connector=aiohttp.TCPConnector(ssl=tls, limit=0), headers=headers, raise_for_status=True
        )
        self._path = f"/api/v1/namespaces/{self._namespace}/configmaps"

    async def close(self) -> None:
        """Close the session."""
        await self.session.close()

    async def create(self, number: int) -> None:
        """Post a ConfigMap."""
        body = json.dumps(config_map(self._namespace, number))
        async with self.session.post(self._path, data=body, headers=_JSON) as response:
            await response.json()

    async def get(self, name: str) -> None:
        """Read a ConfigMap."""
        async with self.session.get(f"{self._path}/{name}") as response:
            await response.json()

    async def patch(self, name: str, value: str) -> None:
        """Merge-patch a ConfigMap."""
        body = json.dumps({"data": {"value": value}})
        async with self.session.patch(f"{self._path}/{name}", data=body, headers=_MERGE) as response:
            await response.json()


async def requests_workload(options: Options) -> Sample:
    """Send requests of one verb."""
    return await run_requests(Aiohttp(options), options)


async def follow_workload(options: Options) -> Sample:
    """Watch widgets, and note when the bytes of each value arrive."""
    done = asyncio.Event()
    follower = Follower(options, done.set)
    raw = Aiohttp(options)
    await raw.connect()
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{options['namespace']}/{PLURAL}"
    async with raw.session.get(path) as response:
        revision = (await response.json())["metadata"]["resourceVersion"]
    parameters = {"watch": "true", "resourceVersion": revision}
    timeout = aiohttp.ClientTimeout(total=None)
    async with raw.session.get(path, params=parameters, timeout=timeout) as response:
        send(ready=True)
        meter = Meter()
        rest = b""
        async for data in response.content.iter_any():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                widget: dict[str, Any] = json.loads(line)["object"]
                follower.see(widget["metadata"]["name"], widget["spec"]["value"])
            if done.is_set():
                break
    sample = meter.stop(options["events"])
    sample.values.update(follower.stamps)
    await raw.close()
    return sample


if __name__ == "__main__":
    run_client({"requests": requests_workload, "follow": follow_workload})
