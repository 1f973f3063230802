"""Signed tokens (JWT) and their signing key.

A generated key is an RSA key, as usual for kube-apiserver. Tokens and ``/openid/v1/jwks`` show its type. Generation is
slow, so the first token triggers it.

Upstream: k8s.io/kubernetes/pkg/serviceaccount/jwt.go (v1.36).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from opsdk.apiserver.auth.signing_keys import RSA, PrivateKey, PublicKey, read_private, read_public
from opsdk.base.extras import RequiredExtra
from opsdk.errors import UnauthorizedError
from opsdk.structured_merge.value import JsonObject, JsonValue

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_BITS = 2048
_MAX_TOKEN = 64 * 1024
"""Longest token in characters; longer ones do not fit into a header and are invalid."""


def unverified(token: str) -> JsonObject | None:
    """Return a token's claims without verifying its signature; None if it is not a JWT.

    Like hasCorrectIssuer in pkg/serviceaccount/jwt.go, it runs for every bearer token. It does not use PyJWT,
    which takes four times as long and is slow to import.
    """
    if not _has_form(token):
        return None
    part = token.split(".")[1]
    try:
        return _claims(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except ValueError:
        return None


def _has_form(token: str) -> bool:
    """Report whether a token can be a JWT. Unlike PyJWT, go-jose accepts no padding."""
    return len(token) <= _MAX_TOKEN and token.count(".") == 2 and "=" not in token


def _claims(payload: bytes) -> JsonObject | None:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return claims if isinstance(claims, dict) else None


class SigningKey:
    """The key that signs tokens, loaded or generated at first use.

    Args:
        path: a PEM file; a missing file is created with a generated RSA key. None generates a key for the process.
        also: files with more keys that verify tokens.
    """

    def __init__(self, path: Path | None = None, *, also: Sequence[Path] = ()) -> None:
        self._path = path
        self._also = also
        self._own_key: PrivateKey | None = None
        self._others: list[PublicKey] | None = None if also else []

    def __repr__(self) -> str:
        return f"<SigningKey {self._path or 'of this process'}>"

    def share(self, other: SigningKey) -> None:
        """Use the key of `other` if it exists."""
        if other.exists:
            self._own_key = other._key

    @property
    def exists(self) -> bool:
        """Whether the key was loaded or generated, or its file exists."""
        return self._own_key is not None or (self._path is not None and self._path.exists())

    @property
    def _key(self) -> PrivateKey:
        if self._own_key is None:
            self._own_key = _load_or_create(self._path) if self._path is not None else PrivateKey(_generated())
        return self._own_key

    @property
    def key_id(self) -> str:
        """The hash of the public key."""
        return self._key.public.key_id

    @property
    def algorithm(self) -> str:
        """The algorithm in token headers; reading it creates no key."""
        return self._key.public.algorithm if self.exists else RSA

    def public(self) -> list[dict[str, str]]:
        """Return the accepted public keys as a JSON Web Key Set."""
        keys = {key.key_id: key for key in (self._key.public, *self._verification_keys())}
        return [key.web_key() for key in keys.values()]

    def _verification_keys(self) -> list[PublicKey]:
        if self._others is None:
            self._others = [key for path in self._also for key in read_public(path)]
        return self._others

    def sign(self, claims: Mapping[str, JsonValue]) -> str:
        """Return a signed token with these claims."""
        payload = json.dumps(claims, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        return self._key.sign(payload.encode())

    def verify(self, token: str) -> JsonObject:
        """Return the claims of a token that one of these keys signed. Raises `UnauthorizedError`."""
        keys = [*([self._key.public] if self.exists else []), *self._verification_keys()] if _has_form(token) else []
        payload = next((p for p in (key.payload(token) for key in keys) if p is not None), b"")
        claims = _claims(payload)
        if claims is None:
            raise UnauthorizedError(_BAD_SIGNATURE)
        return claims


_BAD_SIGNATURE = "go-jose/go-jose: error in cryptographic primitive"


@cache
def _generated() -> RSAPrivateKey:
    """Return the key of all servers in this process without a key file; account UIDs tell their tokens apart."""
    return _new()


def _new() -> RSAPrivateKey:
    with RequiredExtra("apiserver", "a signed token"):
        from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=_BITS)


def _load_or_create(path: Path) -> PrivateKey:
    with RequiredExtra("apiserver", "a signed token"):
        from cryptography.hazmat.primitives import serialization

    if path.exists():
        return read_private(path)
    key = _new()
    raw = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(raw)
    temporary.replace(path)
    return PrivateKey(key)
