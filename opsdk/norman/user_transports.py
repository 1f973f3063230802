"""Connections to the cluster that impersonate the users of the API.

Upstream: github.com/rancher/steve/pkg/client/factory.go
Deviates: the UID of the user is impersonated too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import msgspec
from msgspec.structs import replace

from opsdk.aio.closing import Closing
from opsdk.apiserver.auth.user import User
from opsdk.errors import UnauthorizedError
from opsdk.rest.config import Config, Impersonate
from opsdk.rest.transport import Transport


class _CachedTransport(msgspec.Struct):
    transport: Transport
    uses: int = 0


class UserTransports(Closing):
    """One transport for each user, which impersonates the user.

    Args:
        config: of the program, whose user needs the permission ``impersonate`` on ``users``, ``groups``, and, for users
            that have them, ``uids`` and ``userextras``.
        max_users: unused transports that are kept. The least recently used one is closed first.
    """

    def __init__(self, config: Config, *, max_users: int = 100) -> None:
        self._config = config
        self._max_users = max_users
        self._transports: OrderedDict[Hashable, _CachedTransport] = OrderedDict()

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
            used = self._transports[key] = _CachedTransport(Transport(replace(self._config, impersonate=impersonate)))
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
        return f"<{type(self).__name__} of {len(self._transports)} users>"
