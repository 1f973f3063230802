"""Clients that act as the users of requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from opsdk.apimachinery.watch import WatchEvent
from opsdk.apiserver.auth.delegated import user_of_info
from opsdk.apiserver.auth.user import User
from opsdk.client.client import Client
from opsdk.client.direct import DirectClient
from opsdk.client.operations import Operation, Watch
from opsdk.cluster.cluster import Cluster
from opsdk.norman.codes import ErrorCode
from opsdk.norman.model import ApiContext
from opsdk.norman.user_transports import UserTransports

__all__ = ["ImpersonatingClients"]


class ImpersonatingClients(UserTransports):
    """Creates a client for each request that impersonates the user of the request.

    Kubernetes authorizes each request as that user, and names the user in its audit log. Use it as the client of a
    `ProxyStore`, and close it at the end. The connections of a user stay open while a request or a watch uses them.

    Args:
        cluster: its address, credentials, scheme and mapper. Its user needs the verb ``impersonate``; see
            `UserTransports`.
        max_users: see `UserTransports`.
    """

    def __init__(self, cluster: Cluster, *, max_users: int = 100) -> None:
        super().__init__(cluster.config, max_users=max_users)
        self._cluster = cluster

    def __call__(self, context: ApiContext) -> Client:
        """Return the client of the user of a request. Without a user, raises `NormanError` Unauthorized."""
        if context.user is None or not context.user.username:
            raise ErrorCode.UNAUTHORIZED.error("must authenticate")
        return Client(_UserExecutor(self._cluster, self, user_of_info(context.user)))


class _UserExecutor:
    """Holds the transport of a user for each operation, so that it is not closed during the operation."""

    def __init__(self, cluster: Cluster, transports: UserTransports, user: User) -> None:
        self.scheme, self.mapper = cluster.scheme, cluster.mapper
        self._transports = transports
        self._user = user

    async def execute(self, operation: Operation) -> Any:
        async with self._transports.transport(self._user) as transport:
            return await DirectClient(transport, scheme=self.scheme, mapper=self.mapper).execute(operation)

    @asynccontextmanager
    async def watch(self, operation: Watch) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        async with (
            self._transports.transport(self._user) as transport,
            DirectClient(transport, scheme=self.scheme, mapper=self.mapper).watch(operation) as events,
        ):
            yield events

    def __repr__(self) -> str:
        return f"<the requests of {self._user.name}>"
