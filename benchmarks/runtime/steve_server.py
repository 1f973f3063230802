"""Serves the cluster of a kubeconfig in both dialects: ``python -m benchmarks.runtime.steve_server KUBECONFIG``.

It prints its URL. For each line on stdin it prints the longest time between two turns of the event loop since the line
before: seconds of CPU of its thread, because other processes use the cores too.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from benchmarks.protocol import Heartbeat
from opsdk import Cluster
from opsdk.aio.garbage import tune_garbage_collector
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.http.server.server import ServeOptions, WebServer
from opsdk.norman.cluster_api import cluster_api
from opsdk.norman.steve import SteveApi, SteveApp
from opsdk.norman.tokens import token_review
from opsdk.rest.kubeconfig import config_from_files


async def serve(kubeconfig: str) -> None:
    """Serve until stdin ends."""
    async with Cluster(config_from_files([Path(kubeconfig)])) as cluster:
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        async with SteveApi(cluster) as api, cluster_api(cluster, kinds=()) as norman:
            steve = SteveApp(api, token_review(cluster.uncached))

            async def handle(request: HttpRequest) -> HttpResponse:
                return await (norman if request.path.startswith("/v3") else steve).handle(request)

            async with WebServer(asgi(handle), ServeOptions(port=0, host="127.0.0.1")) as web:
                tune_garbage_collector()
                print(web.url, flush=True)
                await _report()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _report() -> None:
    loop = asyncio.get_running_loop()
    while True:
        with Heartbeat(enabled=True) as heartbeat:
            if not await loop.run_in_executor(None, sys.stdin.readline):
                return
        print(heartbeat.longest_cpu, flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
