"""Clients that act as the users of requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.aio.tasks import TaskOwner
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.norman.codes import ErrorCode
from opsdk.norman.model import ApiContext
from opsdk.rest.config import Config, Impersonate
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

MAX_CLIENTS = 100
"""Users whose connections are kept open; the one that was idle longest is closed first."""


class ImpersonatingClients(Closing):
    """Makes a client for each user, which impersonates that user.

    Kubernetes then decides what a request may do, and its audit log names the user. The config's own user needs the
    verb ``impersonate`` on users and groups. Use it as the client of a `ProxyStore`, and close it at the end.

    Args:
        config: address and credentials.
        connect: makes the cluster of a configuration.
    """

    def __init__(self, config: Config, connect: Callable[[Config], Cluster] = Cluster) -> None:
        self._config = config
        self._connect = connect
        self._clusters: OrderedDict[bytes, Cluster] = OrderedDict()
        self._tasks = TaskOwner("impersonating clients", on_error=lambda name, error: log.error("%s: %s", name, error))

    def __call__(self, context: ApiContext) -> Client:
        """Return the client of the user of a request. Raises `NormanError` Unauthorized if it has none."""
        user = context.user
        if user is None or not user.username:
            raise ErrorCode.UNAUTHORIZED.error("must authenticate")
        key = msgspec.json.encode(user)
        cluster = self._clusters.get(key)
        if cluster is None:
            impersonate = Impersonate(
                user=user.username, uid=user.uid or "", groups=tuple(user.groups), extra=dict(user.extra)
            )
            cluster = self._clusters[key] = self._connect(replace(self._config, impersonate=impersonate))
            while len(self._clusters) > MAX_CLIENTS:
                _, oldest = self._clusters.popitem(last=False)
                self._tasks.start(oldest.aclose(), name="close the connections of a user")
        self._clusters.move_to_end(key)
        return cluster.uncached

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        while self._clusters:
            _, cluster = self._clusters.popitem()
            await cluster.aclose()
        await self._tasks.aclose()

    def __repr__(self) -> str:
        return f"<ImpersonatingClients of {len(self._clusters)} users>"
