"""A certificate authority, its serving certificate, and client certificates."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from envtest.plane.pki import KeyPair
from opsdk.base.extras import RequiredExtra

with RequiredExtra("envtest", "the local API server"):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


_VALID = timedelta(days=3650)
_USAGES = {"client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "server auth": ExtendedKeyUsageOID.SERVER_AUTH}


class Authority:
    """A certificate authority, generated or read from a directory."""

    def __init__(self, pair: KeyPair) -> None:
        self.pair = pair
        self._cert = x509.load_pem_x509_certificate(pair.cert)
        key = serialization.load_pem_private_key(pair.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("the authority's key is not an elliptic-curve key")
        self._key = key

    @classmethod
    def load_or_create(cls, directory: Path | None, name: str = "ca") -> Authority:
        """Load the authority `name` from `directory`, or create it there."""
        if directory is not None and (directory / f"{name}.key").exists():
            return cls(KeyPair((directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes()))
        key_path = f"envtest-{name}"
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, key_path)])
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = (
            _builder(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        authority = cls(_pair(builder.sign(key, hashes.SHA256()), key))
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            authority.pair.write(directory, name)
        return authority

    def serving(self, host: str) -> KeyPair:
        """Issue a serving certificate for `host`, localhost and the names of the Service ``kubernetes``.

        An empty host has no name of its own.
        """
        names: list[x509.GeneralName] = [
            x509.DNSName(n)
            for n in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "envtest.local")
        ]
        for address in {"127.0.0.1", "::1", "10.0.0.1", host} - {""}:
            try:
                names.append(x509.IPAddress(ipaddress.ip_address(address)))
            except ValueError:
                names.append(x509.DNSName(address))
        return self._issue(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]),
            ExtendedKeyUsageOID.SERVER_AUTH,
            x509.SubjectAlternativeName(names),
        )

    def client(self, user: str, groups: tuple[str, ...] = ()) -> KeyPair:
        """Issue a client certificate for a user with groups."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, g) for g in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def certify(self, request: bytes, usages: Sequence[str], seconds: int | None = None) -> bytes:
        """Issue a certificate (PEM) for a request (PEM) with these `usages`, named as in the API."""
        signing_request = x509.load_pem_x509_csr(request)
        valid = timedelta(days=365) if seconds is None else timedelta(seconds=seconds)
        builder = _builder(signing_request.subject, self._cert.subject, signing_request.public_key(), valid=valid)
        extended = [_USAGES[u] for u in usages if u in _USAGES]
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        for extension in signing_request.extensions:
            if isinstance(extension.value, x509.SubjectAlternativeName):
                builder = builder.add_extension(extension.value, critical=extension.critical)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _issue(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._cert.subject, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return _pair(builder.sign(self._key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, *, valid: timedelta = _VALID
) -> x509.CertificateBuilder:
    # Clients verify certificates with the machine's clock, so the clock of the server is not used.
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + valid)
    )


def _pair(cert: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    raw = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(cert.public_bytes(serialization.Encoding.PEM), raw)
