"""The certificates of a TLS client."""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

_DER: Final = 2
"""``_ssl.ENCODING_DER``."""


class PeerCertificates(NamedTuple):
    """What a client has shown.

    Attributes:
        certificate: its certificate, in DER.
        intermediates: the other certificates that it sent, in DER. TLS has verified those that it needed.
        certificate_end: when the certificate expires, in seconds since 1970.
        resumed: the session was resumed, so that the certificate was verified at an earlier time only.
    """

    certificate: bytes
    intermediates: tuple[bytes, ...]
    certificate_end: float
    resumed: bool


def peer_of(connection: ssl.SSLObject) -> PeerCertificates | None:
    """Return the certificates of a connected client; None without one, or where the server requests none."""
    certificate = connection.getpeercert(binary_form=True)
    if not certificate:
        return None
    verified = connection.getpeercert() or {}
    end = verified.get("notAfter")
    return PeerCertificates(
        certificate,
        tuple(der for der in _sent_chain(connection) if der != certificate),
        ssl.cert_time_to_seconds(end) if isinstance(end, str) else 0.0,
        bool(connection.session_reused),
    )


def _sent_chain(connection: ssl.SSLObject) -> list[bytes]:
    public = getattr(connection, "get_unverified_chain", None)
    if public is not None:
        return list(public())
    # Before Python 3.13 only the inner object has the method.
    inner = getattr(connection, "_sslobj", None)
    return [part.public_bytes(_DER) for part in inner.get_unverified_chain() or ()] if inner is not None else []


def without_resumption(context: ssl.SSLContext) -> None:
    """Issue no session tickets: a resumed session would keep a certificate that has expired, or whose CA is removed."""
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
