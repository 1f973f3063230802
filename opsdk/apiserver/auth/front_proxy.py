"""Users that a trusted proxy vouches for: aggregated servers and API servers know them by headers."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote

from opsdk.apiserver.auth.certificates import issuer_of, user_of_certificate
from opsdk.apiserver.auth.user import User
from opsdk.errors import UnauthorizedError
from opsdk.web.request import Request

EXTRA = "x-remote-extra-"
NAME = "front-proxy-client"
"""The common name of proxies' certificates."""


class FrontProxyAuthenticator:
    """Believes ``X-Remote-User`` and its like of whoever has a certificate of the proxies' own authority.

    Args:
        issuer: the common name of that authority.
        names: the common names of its proxies; empty allows every one.
    """

    def __init__(self, issuer: str, names: Collection[str] = (NAME,)) -> None:
        self._issuer = issuer
        self._names = frozenset(names)

    async def authenticate(self, request: Request) -> User | None:
        """See `Authenticator`; a certificate of their authority with another name is wrong."""
        raw = request.peer_certificate
        if not raw or issuer_of(raw) != self._issuer:
            return None
        proxy = user_of_certificate(raw)
        if proxy is None or (self._names and proxy.name not in self._names):
            raise UnauthorizedError("the certificate has the name of no proxy")
        name = "".join(request.texts("x-remote-user")[:1])
        if not name:
            return None
        extra = {
            unquote(header.removeprefix(EXTRA)): tuple(request.texts(header))
            for header in request.headers
            if header.startswith(EXTRA)
        }
        groups, uid = tuple(request.texts("x-remote-group")), "".join(request.texts("x-remote-uid")[:1])
        return User(name=name, uid=uid, groups=groups, extra=extra)
