"""Read PEM certificates and certificate signing requests.

Upstream: pkg/apis/certificates/helpers.go (v1.36)
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from opsdk.http.pem import PemBlock, pem_blocks

_REQUEST = "CERTIFICATE REQUEST"
_CERTIFICATE = "CERTIFICATE"


def _blocks(text: str) -> list[PemBlock]:
    return list(pem_blocks(base64.b64decode(text or "")))


def request_organizations(text: str) -> Sequence[str]:
    """Return the organizations of a certificate request. Raises `ValueError` with the reason if it does not parse."""
    blocks = _blocks(text)
    if not blocks or blocks[0][0] != _REQUEST:
        raise ValueError(f"PEM block type must be {_REQUEST}")
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        subject = x509.load_pem_x509_csr(blocks[0][2]).subject
    except ValueError:
        raise ValueError("asn1: structure error: malformed certificate request") from None
    return [str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def certificate_problem(text: str) -> str:
    """Return why PEM certificates in base64 are invalid; empty if they are valid."""
    return _problem(_blocks(text))


def trust_bundle_problem(text: str) -> str:
    """Return why the PEM certificates of a trust bundle are invalid; empty if they are valid."""
    blocks = list(pem_blocks(text.encode()))
    problem = _problem(blocks)
    if problem:
        return problem
    if len({content for _, content, _ in blocks}) < len(blocks):
        return "trust bundle contains duplicate certificates"
    return "" if all(map(_is_authority, blocks)) else "CA bit must be set in basic constraints"


def _is_authority(block: PemBlock) -> bool:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(block[2])
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _problem(blocks: Sequence[PemBlock]) -> str:
    for kind, content, whole in blocks:
        if kind != _CERTIFICATE:
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind}"'
        if b":" in content:
            return "no PEM block headers are permitted"
        from cryptography import x509

        try:
            x509.load_pem_x509_certificate(whole)
        except ValueError:
            return "x509: malformed certificate"
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"
