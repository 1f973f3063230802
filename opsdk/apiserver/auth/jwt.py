"""Signed tokens (JWT, RS256), and the key they are signed with.

The algorithm is the one that kube-apiserver's default keys have; it can be seen in tokens and in
``/openid/v1/jwks``. Making such a key takes a while, so it is made when the first token is asked for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsdk.errors import ConfigError, UnauthorizedError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

ALGORITHM = "RS256"
_BITS = 2048
_MAX_TOKEN = 64 * 1024
"""Longer ones are nobody's: headers are shorter."""


def encode_part(raw: bytes) -> str:
    """Base64 as tokens have it."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_part(text: str) -> bytes:
    """The other way; `ValueError` for anything that `encode_part` would not have written."""
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if encode_part(raw) != text:
        raise ValueError("not the canonical encoding")
    return raw


def unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Header and claims, whoever signed them; None where it is no such token."""
    parts = token.split(".") if len(token) <= _MAX_TOKEN else []
    if len(parts) != 3:
        return None
    try:
        header, claims = (json.loads(decode_part(p)) for p in parts[:2])
    except (ValueError, RecursionError):
        return None
    return (header, claims) if isinstance(header, dict) and isinstance(claims, dict) else None


class SigningKey:
    """An RSA key, in the file `path`, or of this process alone; made when it is first needed."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._made: RSAPrivateKey | None = None

    def __repr__(self) -> str:
        return f"<SigningKey {self._path or 'of this process'}>"

    def share(self, other: SigningKey) -> None:
        """Be the same key as another one, if that was made already."""
        if other.exists:
            self._made = other._key

    @property
    def exists(self) -> bool:
        """Whether anything can have been signed with it."""
        return self._made is not None or (self._path is not None and self._path.exists())

    @property
    def _key(self) -> RSAPrivateKey:
        if self._made is None:
            self._made = _load_or_create(self._path) if self._path is not None else _generated()
        return self._made

    @property
    def key_id(self) -> str:
        """The hash of the public key."""
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - optional, and takes long to load

        raw = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return encode_part(hashlib.sha256(raw).digest())

    def public(self) -> dict[str, str]:
        """The public key as a JSON web key."""
        numbers = self._key.public_key().public_numbers()
        return {
            "use": "sig",
            "kty": "RSA",
            "kid": self.key_id,
            "alg": ALGORITHM,
            "n": encode_part(_big_endian(numbers.n)),
            "e": encode_part(_big_endian(numbers.e)),
        }

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A token that says `claims`."""
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415

        head = encode_part(_json({"alg": ALGORITHM, "kid": self.key_id}))
        text = f"{head}.{encode_part(_json(claims))}"
        return f"{text}.{encode_part(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token that this key signed; `UnauthorizedError` for any other."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415

        found = unverified(token)
        if found is None or found[0].get("alg") != ALGORITHM or not self.exists:
            raise UnauthorizedError(_BAD_SIGNATURE)
        signed, _, signature = token.rpartition(".")
        try:
            public = self._key.public_key()
            public.verify(decode_part(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        except (InvalidSignature, ValueError):
            raise UnauthorizedError(_BAD_SIGNATURE) from None
        return found[1]


_BAD_SIGNATURE = "go-jose/go-jose: error in cryptographic primitive"


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def _big_endian(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


@cache
def _generated() -> RSAPrivateKey:
    """One for all servers of this process that keep nothing: tokens of one fail in another by the account's uid."""
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    return rsa.generate_private_key(public_exponent=65537, key_size=_BITS)


def _load_or_create(path: Path) -> RSAPrivateKey:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    if path.exists():
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"cannot read the key {path}: {error}; remove it to have a new one made") from error
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ConfigError(f"the key {path} is no RSA key; remove it to have a new one made")
        return key
    made = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    raw = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(raw)
    temporary.replace(path)
    return made
