"""Keys that sign and verify tokens: RSA (RS256) and elliptic curves (ES256, ES384, ES512).

PyJWT signs, verifies and writes JWKS. It and ``cryptography`` are imported when a key is first used: together they take
about 0.15 s, and most servers verify no signed token.

Upstream: k8s.io/kubernetes/pkg/serviceaccount/openidmetadata.go (v1.36).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsdk.base.extras import RequiredExtra
from opsdk.errors import ConfigError
from opsdk.http.pem import pem_blocks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
    from jwt.api_jws import PyJWS

RSA = "RS256"
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
"""The algorithm for each supported curve."""


@cache
def _jws() -> PyJWS:
    """PyJWT's signer and verifier, with the algorithms of service account tokens."""
    with RequiredExtra("apiserver", "a signed token"):
        from jwt.algorithms import RSAAlgorithm
        from jwt.api_jws import PyJWS

    class AnySize(RSAAlgorithm):
        """Accepts short keys without a warning, as kube-apiserver does."""

        def check_key_length(self, key: object) -> None:
            """Accept every length."""

    jws = PyJWS(algorithms=[*_CURVES.values()])
    jws.register_algorithm(RSA, AnySize(AnySize.SHA256))
    return jws


@cache
def _token_error() -> type[Exception]:
    with RequiredExtra("apiserver", "a signed token"):
        from jwt.exceptions import PyJWTError
    return PyJWTError


@dataclass(frozen=True)
class PublicKey:
    """A public key that verifies signatures."""

    key: RSAPublicKey | EllipticCurvePublicKey

    @property
    def algorithm(self) -> str:
        """The ``alg`` of tokens that the key signs."""
        curve = getattr(self.key, "curve", None)
        return RSA if curve is None else _CURVES[curve.name]

    @cached_property
    def key_id(self) -> str:
        """The ``kid``: a hash of the key."""
        with RequiredExtra("apiserver", "a signed token"):
            from cryptography.hazmat.primitives import serialization
            from jwt.utils import base64url_encode

        raw = self.key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return base64url_encode(hashlib.sha256(raw).digest()).decode()

    def web_key(self) -> dict[str, str]:
        """Return the JSON Web Key."""
        algorithm = _jws().get_algorithm_by_name(self.algorithm)
        fields = {k: v for k, v in algorithm.to_jwk(self.key, as_dict=True).items() if k != "key_ops"}
        return {"use": "sig", "kid": self.key_id, "alg": self.algorithm, **fields}

    def payload(self, token: str) -> bytes | None:
        """Return the payload of a token that this key signed, else None."""
        try:
            # The key determines the algorithm, not the token.
            payload: bytes = _jws().decode(token, self.key, [self.algorithm])
        except (_token_error(), ValueError):
            return None
        return payload


@dataclass(frozen=True)
class PrivateKey:
    """Signs tokens."""

    key: RSAPrivateKey | EllipticCurvePrivateKey

    @cached_property
    def public(self) -> PublicKey:
        """The public key."""
        return PublicKey(self.key.public_key())

    def sign(self, payload: bytes) -> str:
        """Return a token with this payload."""
        # kube-apiserver writes no "typ" into the header.
        return _jws().encode(payload, self.key, self.public.algorithm, {"kid": self.public.key_id, "typ": None})


def read_private(path: Path) -> PrivateKey:
    """Read a private key from a PEM file. Raises `ConfigError`."""
    with RequiredExtra("apiserver", "a signed token"):
        from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(_pem(path), password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"cannot read the key {path}: {error}; remove it to have a new one made") from error
    return PrivateKey(_usable(key, path))


def read_public(path: Path) -> list[PublicKey]:
    """Read the keys of a PEM file: public keys, certificates or private keys. Raises `ConfigError`."""
    with RequiredExtra("apiserver", "a signed token"):
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

    keys = []
    for name, _, block in pem_blocks(_pem(path)):
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
    """Return the key. Raises `ConfigError` if its type cannot sign tokens."""
    with RequiredExtra("apiserver", "a signed token"):
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if isinstance(key, (rsa.RSAPrivateKey, rsa.RSAPublicKey)):
        return key
    if isinstance(key, (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey)) and key.curve.name in _CURVES:
        return key
    raise ConfigError(f"the key {path} is neither an RSA key nor one of the curves P-256, P-384 and P-521")
