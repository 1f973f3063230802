"""Client certificate authentication: the common name is the user, each organisation is a group.

Upstream: k8s.io/apiserver/pkg/authentication/request/x509/x509.go (v1.36).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from opsdk.apiserver.auth.user import User
from opsdk.errors import UnauthorizedError
from opsdk.extras import RequiredExtra
from opsdk.http.server.request import HttpRequest

_UID = "1.3.6.1.4.1.57683.2"
"""The OID of the UID in a certificate subject."""
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


class CertificateAuthenticator:
    """Authenticates by the client certificate; the TLS layer has verified it.

    Args:
        but: a CA whose certificates are rejected, by its common name or as PEM.
    """

    def __init__(self, *, but: str | bytes = "") -> None:
        self._but = but

    async def authenticate(self, request: HttpRequest) -> User | None:
        """Authenticate by the peer's certificate."""
        raw = request.peer_certificate
        if not raw:
            return None
        if self._but and signed_by(raw, self._but):
            raise UnauthorizedError("the certificate is that of a front proxy, which authenticates no user")
        return user_of_certificate(raw)


@lru_cache(maxsize=256)
def issuer_of(der: bytes) -> str:
    """Return the common name of a certificate's issuer; empty without one."""
    with RequiredExtra("apiserver", "a client certificate"):
        from cryptography import x509  # noqa: PLC0415 - as below
        from cryptography.x509.oid import NameOID  # noqa: PLC0415

    names = x509.load_der_x509_certificate(der).issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


@lru_cache(maxsize=256)
def signed_by(der: bytes, issuer: str | bytes) -> bool:
    """Report whether a CA signed a certificate; `issuer` is its common name or its certificates (PEM)."""
    if isinstance(issuer, str):
        return issuer_of(der) == issuer
    with RequiredExtra("apiserver", "a client certificate"):
        from cryptography import x509  # noqa: PLC0415 - as below
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    certificate = x509.load_der_x509_certificate(der)
    for authority in x509.load_pem_x509_certificates(issuer):
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


@lru_cache(maxsize=256)
def user_of_certificate(der: bytes) -> User | None:
    """Return the user of a client certificate; None without a common name."""
    with RequiredExtra("apiserver", "a client certificate"):
        from cryptography import x509  # noqa: PLC0415 - optional: only servers with client certificates need it
        from cryptography.x509.oid import NameOID  # noqa: PLC0415

    subject = x509.load_der_x509_certificate(der).subject
    names = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    uids = [str(a.value) for a in subject.get_attributes_for_oid(x509.ObjectIdentifier(_UID))]
    extra = {_CREDENTIAL: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
    return User(name=names[0], uid=uids[0] if uids else "", groups=tuple(groups), extra=extra) if names else None
