"""The content of the Secret, CAs and the serving certificate, and their validation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from opsdk.errors import ConfigError
from opsdk.webhook.certificates.issuing import (
    CertificateKeyPair,
    encoded_certificate,
    is_authority,
    is_issued_by,
    key_matches,
    load_certificate,
    load_certificates,
    load_key,
    names_of,
)

SECRET_TYPE = "kubernetes.io/tls"  # noqa: S105 - a type, not a password
"""The type of the Secret: the API server then requires ``tls.crt`` and ``tls.key``, and files of a mounted volume have
the names that `WebhookServerOptions.cert_dir` expects."""
CA_CERT, CA_KEY, NEXT_CA_KEY = "ca.crt", "ca.key", "next-ca.key"
"""``ca.crt`` has all trusted CAs, oldest first; ``ca.key`` signs; ``next-ca.key`` belongs to the last one, which does
not sign yet."""
TLS_CERT, TLS_KEY = "tls.crt", "tls.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateBundle:
    """CAs and the serving certificate.

    Attributes:
        authority: the CA that signs serving certificates.
        serving: the serving certificate; it may be unusable, see `serving_fault`.
        next_authority: a CA that is already trusted, but does not sign yet.
        previous: PEM certificates of CAs that no longer sign, but are still trusted.
    """

    authority: CertificateKeyPair
    serving: CertificateKeyPair
    next_authority: CertificateKeyPair | None = None
    previous: tuple[bytes, ...] = ()

    @property
    def trusted(self) -> bytes:
        """The ``caBundle``: PEM certificates of all trusted CAs, oldest first."""
        following = () if self.next_authority is None else (self.next_authority.cert,)
        return b"".join((*self.previous, self.authority.cert, *following))

    def to_secret_data(self) -> dict[str, bytes]:
        """Return ``data`` of the Secret."""
        data = {
            CA_CERT: self.trusted,
            CA_KEY: self.authority.key,
            TLS_CERT: self.serving.cert,
            TLS_KEY: self.serving.key,
        }
        return data if self.next_authority is None else {**data, NEXT_CA_KEY: self.next_authority.key}


def bundle_from_secret(data: Mapping[str, bytes]) -> CertificateBundle:
    """Read ``data`` of the Secret. The serving certificate is not checked: `serving_fault` does that.

    Raises:
        ConfigError: the CAs or their keys are unusable; the message names the entry.
    """
    try:
        certificates = load_certificates(data.get(CA_CERT, b""))
    except ConfigError as error:
        raise ConfigError(f"{CA_CERT}: {error}") from error
    if not all(is_authority(certificate) for certificate in certificates):
        raise ConfigError(f"{CA_CERT} contains a certificate that is not a CA certificate")
    try:
        public_key = load_key(data.get(CA_KEY, b"")).public_key()
    except ConfigError as error:
        raise ConfigError(f"{CA_KEY}: {error}") from error
    signers = [number for number, certificate in enumerate(certificates) if certificate.public_key() == public_key]
    if not signers:
        raise ConfigError(f"{CA_KEY} does not match a certificate of {CA_CERT}")
    pem = [encoded_certificate(certificate) for certificate in certificates]
    following = pem[signers[-1] + 1 :]
    return CertificateBundle(
        authority=CertificateKeyPair(pem[signers[-1]], data[CA_KEY]),
        serving=CertificateKeyPair(data.get(TLS_CERT, b""), data.get(TLS_KEY, b"")),
        next_authority=next_authority_of(following, data.get(NEXT_CA_KEY, b"")),
        previous=tuple(pem[: signers[-1]]),
    )


def next_authority_of(certificates: list[bytes], key: bytes) -> CertificateKeyPair | None:
    """Return the CA after the signing one, or None. Raises `ConfigError` if its key does not match."""
    if not certificates and not key:
        return None
    if len(certificates) != 1:
        raise ConfigError(f"{CA_CERT} has {len(certificates)} certificates after that of {CA_KEY}, expected 1")
    pair = CertificateKeyPair(certificates[0], key)
    try:
        matches = key_matches(pair)
    except ConfigError as error:
        raise ConfigError(f"{NEXT_CA_KEY}: {error}") from error
    if not matches:
        raise ConfigError(f"{NEXT_CA_KEY} does not match the last certificate of {CA_CERT}")
    return pair


def serving_fault(bundle: CertificateBundle, names: tuple[str, ...], now: datetime) -> str:
    """Return why the serving certificate cannot be served at `now`, or an empty string.

    It must be valid, have its key and all of `names`, and be signed by a valid trusted CA. Additional names are
    allowed: a replica of another version of the operator may need them.
    """
    try:
        certificate, matches = load_certificate(bundle.serving.cert), key_matches(bundle.serving)
    except ConfigError as error:
        return f"{TLS_CERT} or {TLS_KEY} does not parse: {error}"
    if not matches:
        return f"{TLS_KEY} does not match {TLS_CERT}"
    if now >= certificate.not_valid_after_utc:
        return f"{TLS_CERT} has expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    if now < certificate.not_valid_before_utc:
        return f"{TLS_CERT} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC: check the clock"
    if missing := [name for name in names if name not in names_of(certificate)]:
        return f"{TLS_CERT} lacks the names {', '.join(missing)}"
    issuers = [authority for authority in load_certificates(bundle.trusted) if is_issued_by(certificate, authority)]
    if not issuers:
        return f"{TLS_CERT} is not signed by a CA of {CA_CERT}"
    if all(now >= authority.not_valid_after_utc for authority in issuers):
        return f"the CA of {TLS_CERT} has expired at {issuers[0].not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    return ""
