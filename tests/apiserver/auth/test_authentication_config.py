"""The ConfigMap extension-apiserver-authentication, and certificates of proxies."""

from __future__ import annotations

import ssl

import pytest

from envtest.plane.certificates import Authority
from opsdk.apiserver.auth.authentication_config import ClientAuthenticationConfig
from opsdk.apiserver.auth.certificate_chains import ChainVerifier
from opsdk.apiserver.auth.certificates import CertificateAuthenticator
from opsdk.apiserver.auth.front_proxy import FrontProxyAuthenticator
from opsdk.apiserver.auth.user import User
from opsdk.errors import ConfigError, UnauthorizedError
from opsdk.http.server.request import HttpRequest, Query
from opsdk.structured_merge.value import JsonObject

DATA = {
    "client-ca-file": "C",
    "requestheader-client-ca-file": "P",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User", "X-Other-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def test_everything_is_read() -> None:
    """CAs, names, and headers in lower case are read from the ConfigMap."""
    trust = ClientAuthenticationConfig.of(DATA)
    assert (trust.clients, trust.proxies, trust.names) == (b"C", b"P", ("front-proxy-client",))
    assert trust.headers.user == ("x-remote-user", "x-other-user")
    assert trust.bundle == b"C\nP"


@pytest.mark.parametrize(
    "change", [{"requestheader-client-ca-file": ""}, {"requestheader-allowed-names": "no"},
               {"requestheader-allowed-names": "[1]"}],
)  # fmt: skip
def test_what_cannot_be_used_is_reported(change: dict[str, str]) -> None:
    """The error for an invalid ConfigMap names the key."""
    with pytest.raises(ConfigError, match=next(iter(change))):
        ClientAuthenticationConfig.of({**DATA, **change})


def request(certificate: bytes | None, **headers: str) -> HttpRequest:
    """With this client certificate."""

    async def receive() -> JsonObject:
        return {"type": "http.request", "body": b""}

    named_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest("GET", "/", Query(), named_headers, receive, peer_certificate=certificate)


async def test_only_the_proxys_own_authority_vouches() -> None:
    """A proxy needs a certificate of the proxies' own CA and an allowed name."""
    ours, other = Authority.load_or_create(None), Authority.load_or_create(None)

    def client(authority: Authority, name: str) -> bytes:
        return ssl.PEM_cert_to_DER_cert(authority.client(name).cert.decode())

    proxy = FrontProxyAuthenticator(ChainVerifier(ours.pair.cert), headers=ClientAuthenticationConfig.of(DATA).headers)
    good = client(ours, "front-proxy-client")
    user = await proxy.authenticate(request(good, x_other_user="alice", x_remote_group="devs", x_remote_extra_a="1"))
    assert user == User(name="alice", groups=("devs",), extra={"a": ("1",)})
    assert await proxy.authenticate(request(client(other, "front-proxy-client"), x_remote_user="alice")) is None
    assert await proxy.authenticate(request(None, x_remote_user="alice")) is None
    assert await proxy.authenticate(request(good)) is None
    with pytest.raises(UnauthorizedError):
        await proxy.authenticate(request(client(ours, "mallory"), x_remote_user="alice"))
    with pytest.raises(UnauthorizedError):
        await CertificateAuthenticator(ChainVerifier(other.pair.cert)).authenticate(request(good))
