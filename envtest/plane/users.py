"""Users of an environment, and their client configurations."""

from __future__ import annotations

from collections.abc import Callable

from envtest.plane.kubeconfig import user_kubeconfig
from envtest.plane.pki import CertificateAuthority
from opsdk.apiserver.auth.user import User
from opsdk.http.server.server import WebServer
from opsdk.rest.config import RestConfig


class AuthenticatedUser:
    """A user that the server can authenticate.

    Attributes:
        user: name, uid, groups.
        config: the configuration of a client in this process.
    """

    def __init__(self, user: User, config: RestConfig, authority: Callable[[], CertificateAuthority]) -> None:
        self.user = user
        self.config = config
        self._authority = authority

    def __repr__(self) -> str:
        return f"<AuthenticatedUser {self.user.name}>"

    @property
    def token(self) -> str:
        """The bearer token of the user."""
        return self.config.token

    def served(self, web: WebServer) -> RestConfig:
        """Return the configuration for a served environment: a client certificate, or a token without TLS."""
        if web.options.tls is None:
            return RestConfig(host=web.url, token=self.token)
        authority = self._authority()
        pair = authority.client(self.user.name, self.user.groups)
        return RestConfig(
            host=web.url, ca_data=authority.pair.cert, client_cert_data=pair.cert, client_key_data=pair.key
        )

    def kubeconfig(self, web: WebServer) -> str:
        """Return a kubeconfig file of the user, for kubectl and other clients."""
        if web.options.tls is None:
            return user_kubeconfig(web.url, token=self.token)
        authority = self._authority()
        pair = authority.client(self.user.name, self.user.groups)
        return user_kubeconfig(web.url, ca=authority.pair.cert, client=pair)
