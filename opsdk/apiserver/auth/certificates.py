"""Client certificate authentication: the common name is the user, each organisation is a group.

Upstream: k8s.io/apiserver/pkg/authentication/request/x509/x509.go (v1.36).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from opsdk.apiserver.auth.certificate_chains import ChainVerifier
from opsdk.apiserver.auth.user import User
from opsdk.base.extras import RequiredExtra
from opsdk.errors import UnauthorizedError
from opsdk.http.server.request import HttpRequest

_UID = "1.3.6.1.4.1.57683.2"
"""The OID of the UID in a certificate subject."""
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


class CertificateAuthenticator:
    """Authenticates by the client certificate.

    Args:
        chains: verifies certificates against the CAs of users.
    """

    def __init__(self, chains: ChainVerifier) -> None:
        self._chains = chains

    async def authenticate(self, request: HttpRequest) -> User | None:
        """See `Authenticator`. Raises `UnauthorizedError` for a certificate of other CAs, or one that has expired."""
        raw = request.peer_certificate
        if not raw or not self._chains.authorities().strip():
            return None
        if not self._chains.verifies(request):
            raise UnauthorizedError("the certificate has expired, or another authority has signed it")
        return user_of_certificate(raw)


@lru_cache(maxsize=256)
def user_of_certificate(der: bytes) -> User | None:
    """Return the user of a client certificate; None without a common name."""
    with RequiredExtra("apiserver", "a client certificate"):
        from cryptography import x509
        from cryptography.x509.oid import NameOID

    subject = x509.load_der_x509_certificate(der).subject
    names = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    uids = [str(a.value) for a in subject.get_attributes_for_oid(x509.ObjectIdentifier(_UID))]
    extra = {_CREDENTIAL: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
    return User(name=names[0], uid=uids[0] if uids else "", groups=tuple(groups), extra=extra) if names else None
