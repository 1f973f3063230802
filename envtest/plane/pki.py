"""Certificates, keys and names that the caller supplies to a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from opsdk.apiserver.auth.authentication import Authenticator
from opsdk.apiserver.auth.certificate_chains import ChainVerifier, ReadCertificates
from opsdk.apiserver.auth.certificates import CertificateAuthenticator
from opsdk.apiserver.auth.front_proxy import NAME, FrontProxyAuthenticator
from opsdk.apiserver.auth.service_accounts import TokenSubject
from opsdk.apiserver.webhook_client.connection_pools import ClientCertificate
from opsdk.errors import ConfigError
from opsdk.http.pem import certificates_of

PROXIES = "front-proxy-ca"


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its key, both PEM."""

    cert: bytes
    key: bytes

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write ``name.crt`` and ``name.key``; only the owner can read the key."""
        cert, key = directory / f"{name}.crt", directory / f"{name}.key"
        cert.write_bytes(self.cert)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return cert, key


class CertificateAuthority(Protocol):
    """The protocol of `envtest.plane.certificates.Authority`, whose import is slow."""

    @property
    def pair(self) -> KeyPair:
        """The CA's certificate and key."""
        ...

    def serving(self, host: str) -> KeyPair:
        """Issue a serving certificate for `host`."""
        ...

    def client(self, user: str, groups: tuple[str, ...] = ()) -> KeyPair:
        """Issue a client certificate for a user with groups."""
        ...

    def certify(self, request: bytes, usages: Sequence[str], seconds: int | None = None) -> bytes:
        """Issue a certificate (PEM) for a request (PEM)."""
        ...


class PKI(msgspec.Struct, frozen=True, kw_only=True):
    """Existing keys and CAs (PEM). The environment creates those that are None; an empty CA file trusts no certificate.

    Attributes:
        serving: files with the server's certificate and its key.
        clients: the CA of client certificates of users.
        proxies: the CA of client certificates of front proxies, which send the user in headers.
        proxy_names: the allowed common names of proxies; empty allows all. Needs `proxies`.
        identity: the client certificate of the server itself as a proxy.
        signing_key: the file of the signing key for service account tokens.
        token_keys: files with further keys that verify tokens.
        names: the issuer and audiences of tokens.
    """

    serving: tuple[Path, Path] | None = None
    clients: bytes | None = None
    proxies: bytes | None = None
    proxy_names: tuple[str, ...] = (NAME,)
    identity: ClientCertificate | None = None
    signing_key: Path | None = None
    token_keys: Sequence[Path] = ()
    names: TokenSubject = TokenSubject()

    def authenticators(self, clients: ReadCertificates, proxies: ReadCertificates) -> list[Authenticator]:
        """Return the authenticators that use certificates, in order; the arguments return the CAs in use."""
        proxy = FrontProxyAuthenticator(ChainVerifier(proxies), self.proxy_names)
        return [proxy, CertificateAuthenticator(ChainVerifier(clients))]


def read_authority(path: Path) -> bytes:
    """Read and check a PEM file of CAs, without the text around them. Raises `ConfigError`."""
    from cryptography import x509

    try:
        text = certificates_of(path.read_bytes()).encode()
        x509.load_pem_x509_certificates(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read certificates from {path}: {error}") from error
    return text
