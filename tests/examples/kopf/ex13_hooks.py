"""Connect before the controllers work, close at the end, show a figure, and serve each Pod meanwhile."""

from __future__ import annotations

import asyncio
import random
from typing import Protocol

from prometheus_client import Gauge

from opsdk import Context, Operator
from opsdk.api.core.v1 import Pod
from opsdk.manager.phases import Phase


class Service(Protocol):
    """Something outside of the cluster."""

    async def connect(self) -> None: ...
    async def close(self) -> None: ...


class Connection:
    """Runs from before the first reconcile until the operator ends."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.is_open = asyncio.Event()

    async def start(self) -> None:
        """Connect, hold the connection, and close it at the stop."""
        while not self.is_open.is_set():
            try:
                await self.service.connect()
                self.is_open.set()
            except ConnectionError:
                await asyncio.sleep(1)
        try:
            await asyncio.Event().wait()
        finally:
            await self.service.close()

    async def wait_ready(self) -> None:
        """Return when the controllers may start."""
        await self.is_open.wait()


def make_operator(service: Service) -> Operator:
    """Return the operator."""
    operator = Operator("hooks")
    served = Gauge("served_pods", "Pods with a task.", registry=operator.registry)

    @operator.setup
    def connect(operator: Operator) -> None:
        operator.manager.add(Connection(service), phase=Phase.CACHES)

    @operator.daemon(Pod)
    async def serve(pod: Pod, ctx: Context) -> None:
        with served.track_inprogress():
            while True:
                await asyncio.sleep(random.randint(1, 10))
                ctx.logger.info("served by the daemon")

    return operator
