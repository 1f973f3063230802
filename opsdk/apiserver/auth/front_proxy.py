"""Request header authentication: a trusted front proxy sends the user in headers.

Upstream: k8s.io/apiserver/pkg/authentication/request/headerrequest/requestheader.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote

import msgspec

from opsdk.apiserver.auth.certificate_chains import ChainVerifier
from opsdk.apiserver.auth.certificates import user_of_certificate
from opsdk.apiserver.auth.user import User
from opsdk.errors import UnauthorizedError
from opsdk.http.server.request import HttpRequest

EXTRA = "x-remote-extra-"
NAME = "front-proxy-client"
"""The default common name of proxy certificates."""


class HeaderNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the user's request headers, in lower case; `extra` are prefixes."""

    user: tuple[str, ...] = ("x-remote-user",)
    uid: tuple[str, ...] = ("x-remote-uid",)
    group: tuple[str, ...] = ("x-remote-group",)
    extra: tuple[str, ...] = (EXTRA,)


class FrontProxyAuthenticator:
    """Authenticates by the ``X-Remote-*`` headers of proxies with a certificate of the request header CA.

    Args:
        chains: verifies certificates against the request header CAs.
        names: allowed common names of proxies; empty allows all.
    """

    def __init__(
        self,
        chains: ChainVerifier,
        names: Collection[str] = (NAME,),
        *,
        headers: HeaderNames = HeaderNames(),  # noqa: B008 - frozen
    ) -> None:
        self._chains = chains
        self._names = frozenset(names)
        self._headers = headers

    async def authenticate(self, request: HttpRequest) -> User | None:
        """See `Authenticator`. Raises `UnauthorizedError` for a certificate of this CA with another name."""
        raw = request.peer_certificate
        if not raw or not self._chains.verifies(request):
            return None
        proxy = user_of_certificate(raw)
        if proxy is None or (self._names and proxy.name not in self._names):
            raise UnauthorizedError("the certificate has the name of no proxy")
        name = _first(request, self._headers.user)
        if not name:
            return None
        groups = tuple(text for header in self._headers.group for text in request.texts(header))
        extra = {
            unquote(header.removeprefix(prefix)): tuple(request.texts(header))
            for header in request.headers
            for prefix in self._headers.extra
            if header.startswith(prefix)
        }
        return User(name=name, uid=_first(request, self._headers.uid), groups=groups, extra=extra)


def _first(request: HttpRequest, headers: Collection[str]) -> str:
    return next((text for header in headers for text in request.texts(header) if text), "")
