"""Client certificates: the common name is the user, the organisations are its groups."""

from __future__ import annotations

from functools import lru_cache

from opsdk.apiserver.auth.user import User
from opsdk.web.request import Request


class CertificateAuthenticator:
    """Believes the certificate that the TLS layer has verified already.

    Args:
        but: the common name of an authority that is trusted for something else.
    """

    def __init__(self, *, but: str = "") -> None:
        self._but = but

    async def authenticate(self, request: Request) -> User | None:
        """By the peer's certificate."""
        raw = request.peer_certificate
        if not raw or (self._but and issuer_of(raw) == self._but):
            return None
        return user_of_certificate(raw)


@lru_cache(maxsize=256)
def issuer_of(der: bytes) -> str:
    """The common name of the authority that signed a certificate."""
    from cryptography import x509  # noqa: PLC0415 - as below
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    found = x509.load_der_x509_certificate(der).issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


@lru_cache(maxsize=256)
def user_of_certificate(der: bytes) -> User | None:
    """The user that a certificate names; None without a common name."""
    from cryptography import x509  # noqa: PLC0415 - optional: only servers with client certificates need it
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    subject = x509.load_der_x509_certificate(der).subject
    names = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return User(name=names[0], groups=tuple(groups)) if names else None
