"""Verifies the chain of a client certificate against the CAs of one purpose.

TLS verifies against the CAs of all purposes together, so it cannot tell a user's certificate from that of a front
proxy. Each authenticator therefore builds the chain again, with its own CAs only, and checks the time at each request:
TLS checks it once for each connection.

Upstream: k8s.io/apiserver/pkg/authentication/request/x509/x509.go (v1.36), crypto/x509/verify.go (Go 1.25).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from opsdk.base.extras import RequiredExtra
from opsdk.http.server.request import HttpRequest

if TYPE_CHECKING:
    from cryptography import x509

_MOST_SIGNATURES: Final = 100
"""Signatures that one chain may check (maxChainSignatureChecks)."""
_MOST_CERTIFICATES: Final = 10
"""Intermediates of a client that are looked at."""

ReadCertificates = Callable[[], bytes]
"""Returns PEM certificates of CAs."""


class Validity(NamedTuple):
    """When every certificate of a chain is valid, in seconds since 1970."""

    begin: float
    end: float


class ChainVerifier:
    """Decides whether the client certificate of a request has a chain to one of these CAs.

    Args:
        authorities: the CAs (PEM), or a function that returns them; empty trusts no certificate.
        now: the time in seconds since 1970. The default is the machine's clock, as in TLS.
    """

    def __init__(self, authorities: bytes | ReadCertificates, *, now: Callable[[], float] = time.time) -> None:
        self._authorities = authorities
        self._now = now

    def authorities(self) -> bytes:
        """The CAs."""
        return self._authorities if isinstance(self._authorities, bytes) else self._authorities()

    def verifies(self, request: HttpRequest) -> bool:
        """Whether the certificate of `request` has a chain, and every certificate of the chain is valid now."""
        if not request.peer_certificate:
            return False
        validity = chain_validity(request.peer_certificate, tuple(request.peer_intermediates), self.authorities())
        return validity is not None and validity.begin <= self._now() <= validity.end


@lru_cache(maxsize=256)
def chain_validity(leaf: bytes, intermediates: tuple[bytes, ...], authorities: bytes) -> Validity | None:
    """Return when a chain from `leaf` (DER) to one of `authorities` (PEM) is valid; None without a chain.

    Of several chains it is the one that ends last. Certificates between need the right to sign certificates.
    """
    with RequiredExtra("apiserver", "a client certificate"):
        from cryptography import x509

    if not authorities.strip():
        return None
    try:
        certificate = x509.load_der_x509_certificate(leaf)
        between = [x509.load_der_x509_certificate(der) for der in intermediates[:_MOST_CERTIFICATES]]
        roots = x509.load_pem_x509_certificates(authorities)
        return _ChainSearch(between, roots).validity(certificate, depth=0)
    except ValueError:
        return None


class _ChainSearch:
    def __init__(self, between: Sequence[x509.Certificate], roots: Sequence[x509.Certificate]) -> None:
        self._between = between
        self._roots = roots
        self._signatures = 0

    def validity(self, certificate: x509.Certificate, depth: int) -> Validity | None:
        """Return the validity of the best chain above `certificate`, which has `depth` certificates below it."""
        chains = [_validity(root) for root in self._roots if self._signed_by(certificate, root, depth)]
        if depth < len(self._between):
            for issuer in self._between:
                if issuer != certificate and self._signed_by(certificate, issuer, depth):
                    above = self.validity(issuer, depth + 1)
                    if above is not None:
                        chains.append(_intersection(_validity(issuer), above))
        own = _validity(certificate)
        return max((_intersection(own, chain) for chain in chains), key=lambda chain: chain.end, default=None)

    def _signed_by(self, certificate: x509.Certificate, issuer: x509.Certificate, depth: int) -> bool:
        with RequiredExtra("apiserver", "a client certificate"):
            from cryptography.exceptions import InvalidSignature

        if certificate.issuer != issuer.subject or not _may_sign(issuer, depth):
            return False
        self._signatures += 1
        if self._signatures > _MOST_SIGNATURES:
            return False
        try:
            certificate.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def _may_sign(issuer: x509.Certificate, depth: int) -> bool:
    """Whether a certificate is that of a CA which may have `depth` intermediates below it."""
    with RequiredExtra("apiserver", "a client certificate"):
        from cryptography import x509

    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return False
    try:
        may_sign = issuer.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        may_sign = True
    return constraints.ca and may_sign and (constraints.path_length is None or depth <= constraints.path_length)


def _validity(certificate: x509.Certificate) -> Validity:
    return Validity(certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def _intersection(a: Validity, b: Validity) -> Validity:
    return Validity(max(a.begin, b.begin), min(a.end, b.end))
