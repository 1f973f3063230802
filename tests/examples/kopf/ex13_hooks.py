"""Connect before the controllers work, close at the end, show a figure, and serve each Pod meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Protocol

from prometheus_client import Gauge

from opsdk import Context, Operator
from opsdk.api.core.v1 import Pod


class Service(Protocol):
    """Something outside the cluster."""

    async def connect(self) -> None: ...
    async def close(self) -> None: ...


async def connected(service: Service) -> None:
    """Return when the connection is open."""
    while True:
        try:
            return await service.connect()
        except ConnectionError:
            await asyncio.sleep(1)


def make_operator(service: Service) -> Operator:
    """Return the operator."""
    operator = Operator("hooks")
    served = Gauge("served_pods", "Pods with a task.", registry=operator.registry)

    @operator.setup
    async def connect(operator: Operator) -> AsyncIterator[None]:
        await connected(service)
        yield
        await service.close()

    @operator.daemon(Pod)
    async def serve(pod: Pod, ctx: Context) -> None:
        with served.track_inprogress():
            while True:
                await asyncio.sleep(random.randint(1, 10))
                ctx.logger.info("served by the daemon")

    return operator
