"""Users of an environment, and how clients become them."""

from __future__ import annotations

from typing import Protocol

from envtest.plane.kubeconfig import user_kubeconfig
from envtest.plane.pki import CertificateAuthority
from opsdk.apiserver.auth.user import User
from opsdk.http.server.server import WebServer
from opsdk.rest.config import Config


class UserHost(Protocol):
    """What is needed of an environment."""

    @property
    def authority(self) -> CertificateAuthority:
        """What signs certificates of clients."""
        ...

    def config_for(self, token: str) -> Config:
        """How clients in this process reach it with a token."""
        ...


class AuthenticatedUser:
    """Somebody whom a server knows.

    Attributes:
        user: name, uid, groups.
        token: a bearer token of theirs.
    """

    def __init__(self, env: UserHost, user: User, token: str) -> None:
        self._env = env
        self.user = user
        self.token = token

    def __repr__(self) -> str:
        return f"<AuthenticatedUser {self.user.name}>"

    @property
    def config(self) -> Config:
        """How clients in this process reach the server as this user."""
        return self._env.config_for(self.token)

    def served(self, web: WebServer) -> Config:
        """How clients reach a served environment as this user: by certificate, or by token without TLS."""
        if web.options.tls is None:
            return Config(host=web.url, token=self.token)
        authority = self._env.authority
        pair = authority.client(self.user.name, self.user.groups)
        return Config(host=web.url, ca_data=authority.pair.cert, client_cert_data=pair.cert, client_key_data=pair.key)

    def kubeconfig(self, web: WebServer) -> str:
        """The same as the text of a kubeconfig file, for kubectl and clients in other languages."""
        if web.options.tls is None:
            return user_kubeconfig(web.url, token=self.token)
        authority = self._env.authority
        pair = authority.client(self.user.name, self.user.groups)
        return user_kubeconfig(web.url, ca=authority.pair.cert, client=pair)
