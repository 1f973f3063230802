"""Clients that act as the users of requests.

Upstream: github.com/rancher/steve/pkg/client/factory.go
Deviates: the UID of the user is impersonated too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.apimachinery.watch import WatchEvent
from opsdk.apiserver.auth.delegated import user_of_info
from opsdk.apiserver.auth.user import User
from opsdk.client.client import Client
from opsdk.client.direct import DirectClient
from opsdk.client.operations import Operation, Watch
from opsdk.cluster.cluster import Cluster
from opsdk.errors import UnauthorizedError
from opsdk.norman.codes import ErrorCode
from opsdk.norman.model import ApiContext
from opsdk.rest.config import Impersonate
from opsdk.rest.transport import Transport

__all__ = ["ImpersonatingClients"]


class _CachedTransport(msgspec.Struct):
    transport: Transport
    uses: int = 0


class ImpersonatingClients(Closing):
    """Creates a client for each request that impersonates the user of the request.

    Kubernetes authorizes each request as that user, and names the user in its audit log. Use it as the client of a
    `ProxyStore`, and close it at the end. The connections of a user stay open while a request or a watch uses them.

    Args:
        cluster: its address, credentials, scheme and mapper. Its user needs the permission ``impersonate`` on
            ``users``, ``groups``, and, for users that have them, ``uids`` and ``userextras``.
        max_users: unused transports that are kept. The least recently used one is closed first.
    """

    def __init__(self, cluster: Cluster, *, max_users: int = 100) -> None:
        self._cluster = cluster
        self._max_users = max_users
        self._transports: OrderedDict[Hashable, _CachedTransport] = OrderedDict()

    def __call__(self, context: ApiContext) -> Client:
        """Return the client of the user of a request. Without a user, raises `NormanError` Unauthorized."""
        if context.user is None or not context.user.username:
            raise ErrorCode.UNAUTHORIZED.error("must authenticate")
        return Client(_UserExecutor(self._cluster, self, user_of_info(context.user)))

    @asynccontextmanager
    async def transport(self, user: User) -> AsyncIterator[Transport]:
        """Yield the transport of a user. It stays open while the block runs.

        Raises:
            UnauthorizedError: the user has no name; such requests would have the permissions of the program.
        """
        if not user.name:
            raise UnauthorizedError("a user without name cannot be impersonated: authenticate the request")
        key = (user.name, user.uid, user.groups, tuple(sorted(user.extra.items())))
        used = self._transports.get(key)
        if used is None:
            impersonate = Impersonate(user=user.name, uid=user.uid, groups=user.groups, extra=user.extra)
            used = self._transports[key] = _CachedTransport(
                Transport(replace(self._cluster.config, impersonate=impersonate))
            )
        self._transports.move_to_end(key)
        used.uses += 1
        try:
            yield used.transport
        finally:
            used.uses -= 1
            await self._close_idle()

    async def _close_idle(self) -> None:
        idle = [key for key, used in self._transports.items() if not used.uses]
        surplus = idle[: max(0, len(self._transports) - self._max_users)]
        # Take all of them first: while one closes, a request may begin to use another.
        for used in [self._transports.pop(key) for key in surplus]:
            await used.transport.aclose()

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        while self._transports:
            _, used = self._transports.popitem()
            await used.transport.aclose()

    def __repr__(self) -> str:
        return f"<ImpersonatingClients of {len(self._transports)} users>"


class _UserExecutor:
    """Holds the transport of a user for each operation, so that it is not closed during the operation."""

    def __init__(self, cluster: Cluster, transports: ImpersonatingClients, user: User) -> None:
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
