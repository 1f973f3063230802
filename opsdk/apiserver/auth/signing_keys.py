"""Keys that sign and verify tokens: RSA (RS256) and elliptic curves (ES256, ES384, ES512).

The first use of a key imports ``cryptography``, because most servers never sign a token.

Upstream: k8s.io/kubernetes/pkg/serviceaccount/openidmetadata.go (v1.36).
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsdk.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

RSA = "RS256"
_CURVES = {
    "secp256r1": ("ES256", "P-256", 256),
    "secp384r1": ("ES384", "P-384", 384),
    "secp521r1": ("ES512", "P-521", 512),
}
"""By the name of a curve: the algorithm, its name in web keys, and the bits of the hash."""


def encode_part(raw: bytes) -> str:
    """Base64 as tokens have it."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass(frozen=True)
class PublicKey:
    """Checks what a key has signed."""

    key: RSAPublicKey | EllipticCurvePublicKey

    @property
    def algorithm(self) -> str:
        """What tokens name in their header."""
        curve = _curve_of(self.key)
        return RSA if curve is None else curve[0]

    @cached_property
    def key_id(self) -> str:
        """The hash of the key."""
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - takes long to load

        raw = self.key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return encode_part(hashlib.sha256(raw).digest())

    def web_key(self) -> dict[str, str]:
        """The key as a JSON web key."""
        numbers: Any = self.key.public_numbers()
        fields = {"use": "sig", "kid": self.key_id, "alg": self.algorithm}
        curve = _curve_of(self.key)
        if curve is None:
            return {
                **fields,
                "kty": "RSA",
                "n": encode_part(numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8, "big")),
                "e": encode_part(numbers.e.to_bytes((numbers.e.bit_length() + 7) // 8, "big")),
            }
        size = (self.key.key_size + 7) // 8
        x, y = (encode_part(n.to_bytes(size, "big")) for n in (numbers.x, numbers.y))
        return {**fields, "kty": "EC", "crv": curve[1], "x": x, "y": y}

    def signed(self, text: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's, of this text."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - slow to import
        from cryptography.hazmat.primitives.asymmetric import ec, padding, utils  # noqa: PLC0415 - slow

        key: Any = self.key
        curve = _curve_of(key)
        try:
            if curve is None:
                key.verify(signature, text, padding.PKCS1v15(), _hash(256))
                return True
            size = (key.key_size + 7) // 8
            if len(signature) != 2 * size:
                return False
            r, s = int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
            key.verify(utils.encode_dss_signature(r, s), text, ec.ECDSA(_hash(curve[2])))
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """Signs."""

    key: RSAPrivateKey | EllipticCurvePrivateKey

    @cached_property
    def public(self) -> PublicKey:
        """What others check it with."""
        return PublicKey(self.key.public_key())

    def sign(self, text: bytes) -> bytes:
        """The signature of a text, in the form that tokens have."""
        from cryptography.hazmat.primitives.asymmetric import ec, padding, utils  # noqa: PLC0415 - as above

        key: Any = self.key
        curve = _curve_of(key)
        if curve is None:
            signature: bytes = key.sign(text, padding.PKCS1v15(), _hash(256))
            return signature
        size = (key.key_size + 7) // 8
        r, s = utils.decode_dss_signature(key.sign(text, ec.ECDSA(_hash(curve[2]))))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def read_private(path: Path) -> PrivateKey:
    """The key of a PEM file; a `ConfigError` says what is wrong with it."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as above

    try:
        key = serialization.load_pem_private_key(_pem(path), password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"cannot read the key {path}: {error}; remove it to have a new one made") from error
    return PrivateKey(_usable(key, path))


def read_public(path: Path) -> list[PublicKey]:
    """The keys of a PEM file: public keys, certificates, or private keys, in any order."""
    from cryptography import x509  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    keys = []
    text = _pem(path)
    import re  # noqa: PLC0415 - only where keys are given

    blocks = re.finditer(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", text, re.DOTALL)
    for name, block in [(match[1].decode(), match[0] + b"\n") for match in blocks]:
        try:
            key: Any
            if name == "CERTIFICATE":
                key = x509.load_pem_x509_certificate(block).public_key()
            elif name.endswith("PRIVATE KEY"):
                key = serialization.load_pem_private_key(block, password=None).public_key()
            elif name.endswith("PUBLIC KEY"):
                key = serialization.load_pem_public_key(block)
            else:
                continue
        except (ValueError, TypeError) as error:
            raise ConfigError(f"cannot read a key of {path}: {error}") from error
        keys.append(PublicKey(_usable(key, path)))
    if not keys:
        raise ConfigError(f"{path} holds no key: it takes PEM blocks of public keys, certificates or private keys")
    return keys


def _pem(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the key {path}: {error}") from error


def _usable(key: Any, path: Path) -> Any:
    """The key, if it is one of those that sign tokens."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415 - as above

    if isinstance(key, (rsa.RSAPrivateKey, rsa.RSAPublicKey)):
        return key
    if isinstance(key, (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey)) and key.curve.name in _CURVES:
        return key
    raise ConfigError(f"the key {path} is neither an RSA key nor one of the curves P-256, P-384 and P-521")


def _curve_of(key: Any) -> tuple[str, str, int] | None:
    """What belongs to the curve of a key; None for RSA keys."""
    curve = getattr(key, "curve", None)
    return None if curve is None else _CURVES[curve.name]


def _hash(bits: int) -> HashAlgorithm:
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - as above

    hashes_by_size: dict[int, HashAlgorithm] = {256: hashes.SHA256(), 384: hashes.SHA384(), 512: hashes.SHA512()}
    return hashes_by_size[bits]
