"""Issues CAs and serving certificates, and parses them. The only module that generates keys.

Keys and serial numbers come from the operating system's random source, not from `opsdk.aio.randomness`: a seeded key
is predictable, and a predictable serial number helps to forge a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address

from opsdk.base.extras import RequiredExtra
from opsdk.errors import ConfigError

with RequiredExtra("tls", "a self-issued certificate", alternative="let cert_dir name certificate files"):
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Certificates are backdated, because the clock of an API server may be slow.
_BACKDATE = timedelta(hours=1)
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class CertificateKeyPair:
    """A certificate and its private key, both PEM. The repr omits the key."""

    cert: bytes
    key: bytes = field(repr=False)


def create_authority(now: datetime, validity: float) -> CertificateKeyPair:
    """Return a new CA that lasts for `validity` seconds from `now`."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # Two CAs are trusted at the same time. With different names, a verifier finds the issuer without trying both.
    subject = common_name(f"opsdk-webhook-ca-{identifier.digest.hex()[:12]}")
    builder = (
        certificate_builder(subject, subject, key.public_key(), now)
        .not_valid_after(now + timedelta(seconds=validity))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(sign_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return signed(builder, key, key)


def issue_serving(
    authority: CertificateKeyPair, names: tuple[str, ...], now: datetime, validity: float
) -> CertificateKeyPair:
    """Return a new serving certificate for DNS names and IP addresses, and its key.

    It lasts for `validity` seconds from `now`, but not longer than its CA.
    """
    issuer, issuer_key = load_certificate(authority.cert), load_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        certificate_builder(common_name("opsdk-webhook"), issuer.subject, key.public_key(), now)
        .not_valid_after(last_moment(authority, now, validity))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([general_name(name) for name in names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    return signed(builder, issuer_key, key)


def last_moment(authority: CertificateKeyPair, now: datetime, validity: float) -> datetime:
    """Return the expiry of a certificate that the CA issues at `now`."""
    return min(now + timedelta(seconds=validity), load_certificate(authority.cert).not_valid_after_utc)


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    """Return a builder with the common fields of CAs and serving certificates."""
    serial = x509.random_serial_number()
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    return builder.serial_number(serial).not_valid_before(now - _BACKDATE)


def signed(
    builder: x509.CertificateBuilder, issuer_key: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePrivateKey
) -> CertificateKeyPair:
    """Return the signed certificate with its own key."""
    raw = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return CertificateKeyPair(encoded_certificate(builder.sign(issuer_key, hashes.SHA256())), raw)


def common_name(text: str) -> x509.Name:
    """Return a name with one attribute."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    """Return the key usage of a CA, or of a serving certificate."""
    return x509.KeyUsage(
        digital_signature=not sign_certificates, key_cert_sign=sign_certificates, crl_sign=sign_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def general_name(name: str) -> x509.GeneralName:
    """Return an IP address or a DNS name as a subject alternative name."""
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


# ------------------------------------------------------------------ reading
def load_certificates(text: bytes) -> list[x509.Certificate]:
    """Read PEM certificates. Raises `ConfigError` if there are none, or one does not parse."""
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError as error:
        raise ConfigError(f"not PEM certificates: {error}") from error


def load_certificate(text: bytes) -> x509.Certificate:
    """Read the first PEM certificate. Raises `ConfigError` if there is none."""
    return load_certificates(text)[0]


def encoded_certificate(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(_PEM)


def load_key(text: bytes) -> ec.EllipticCurvePrivateKey:
    """Read a PEM private key. Raises `ConfigError` for anything but an unencrypted elliptic-curve key."""
    try:
        key = serialization.load_pem_private_key(text, None)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ConfigError(f"not a PEM private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError("the private key is not an elliptic-curve key")
    return key


def key_matches(pair: CertificateKeyPair) -> bool:
    """Whether the key belongs to the certificate. Raises `ConfigError` if one of them does not parse."""
    return load_certificate(pair.cert).public_key() == load_key(pair.key).public_key()


# Probes and checks verify the same few certificates repeatedly, and a signature check takes 75 us.
@lru_cache(maxsize=64)
def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the CA signed the certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether a certificate may sign others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


@lru_cache(maxsize=64)
def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """Return the DNS names and IP addresses of a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset([*names.get_values_for_type(x509.DNSName), *(str(address) for address in addresses)])
